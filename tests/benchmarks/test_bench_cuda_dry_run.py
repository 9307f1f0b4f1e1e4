"""The dry run of a GPU's steps: which there are, what is a fault, and that faults are seen."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from benchmarks.cuda_dry_run import EXPERIMENTS, GOOD, faults, main, steps
from benchmarks.fake_card import card_environment
from labeldp_bench.experiments.experiment import read_experiment
from tests.conftest import CHECKOUT

SOUND = {
    "graphs": 1, "kernels_per_step": 217.0, "graph_breaks": 0, "failed_graphs": 0,
    "waits_in_steps": 0, "stride_mismatches": 0, "convolution_tensors": 300,
    "bf16_channels_last": 300,
}  # fmt: skip
PLANTED = """
import json, torch
from benchmarks.cuda_dry_run import Step, dry_run, faults
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.training.network_fit import NetworkFit

torch.cuda.init()
tiny = ["dataset=cifar10", "mechanism=rr", "model=resnet18_w16", "model.network.blocks=[1]",
        "trainer=ghazi_cifar10", "trainer.batch_size=16"]
plain = NetworkFit.step

def waits(fit, *given):
    plain(fit, *given)
    fit.hits.item()

def row(*more):
    return faults(dry_run(Step("tiny", compose_cell([*tiny, *more])), torch.device("cuda", 0)))

told = {"sound": row(), "float32": row("trainer.precision=float32")}
NetworkFit.step = waits
print(json.dumps(told | {"waits": row()}))
"""


def test_every_cell_of_the_tables_has_its_step():
    # A network or loss that nobody tried would meet a card for the first time when it is rented.
    cells = {cell.config_hash for name in EXPERIMENTS for cell in read_experiment(name).cells()}
    found = steps()
    assert sum(step.cells for step in found if step.kind == "run") == len(cells)
    assert {step.kind for step in found} == {"run", "pre-training", "contrastive"}
    assert len({step.name for step in found}) == len(found) >= 12
    assert {step.stages for step in found} == {1, 2}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"graphs": 3, "graph_breaks": 2}, ["3 graphs", "2 graph_breaks"]),
        ({"kernels_per_step": 0}, ["nothing was compiled"]),
        ({"waits_in_steps": 4}, ["4 waits_in_steps"]),
        ({"bf16_channels_last": 298}, [f"2 tensors of convolutions are not {GOOD}"]),
    ],
)
def test_faults_are_named(changes, told):
    assert faults(SOUND | changes) == told


def test_a_wheel_for_cpus_is_refused_in_one_line(tmp_path, capsys):
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    assert main([f"out={tmp_path}"]) == 2
    assert "install the extra cuda-dry-run into an environment" in capsys.readouterr().err
    assert main(["step=vgg", f"out={tmp_path}"]) == 2
    assert "step must be a part of one of: " in capsys.readouterr().err


@pytest.mark.skipif(
    torch.version.cuda is None or not torch.__version__.startswith("2.11."),
    reason="needs the CUDA wheel of torch 2.11 (extra cuda-dry-run)",
)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_wait_and_a_slow_layout_are_seen_on_the_fake_card(tmp_path):
    # The report would call everything sound.
    done = subprocess.run(
        [sys.executable, "-c", PLANTED], cwd=CHECKOUT, capture_output=True, text=True, check=False,
        env=os.environ | card_environment(tmp_path) | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["sound"] == []
    assert told["waits"] == ["5 waits_in_steps"]  # 72 images, the last batch among them
    assert len(told["float32"]) == 1 and told["float32"][0].endswith(f"are not {GOOD}")
