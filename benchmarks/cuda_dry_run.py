"""What a GPU would be asked to do, on a machine without one: traced, compiled, checked.

    python -m benchmarks.cuda_dry_run [step=TEXT] [work=FOLDER] [out=FOLDER]

Needs torch with CUDA (extra cuda-dry-run; docs/gpu.md) and gcc, no card. Each different training
step of vector_approximation/table2, table3 and blockrr/table3, the pre-training of their star rows,
and SimCLR, runs through our own trainer on benchmarks/fake_card.py, for two whole batches and a
shorter one: forward, backward and optimizer are compiled by Inductor and ptxas for sm_90, and
nothing computes. step= takes those whose name contains a text. Prints a Markdown table
and writes results/benchmarks/cuda_dry_run_sm_90.csv. Exit status 1 if a step waits, breaks into
several graphs, fails to compile, or has a convolution that is not bf16 channels_last. Half a minute
or more for each step. work= is where compiled code goes, a temporary folder if it is not given.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.fake_card import FakeCard, require_wheel, restart_with_card
from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store.release import Release
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, output_folder, print_head, print_row, read_arguments
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.models import NetworkModel
from labeldp_bench.pretraining.simclr import SimCLR, SimCLRFit
from labeldp_bench.pretraining.supervised import Pretraining
from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.process import prepare_training
from labeldp_bench.training.fit import Fit
from labeldp_bench.training.network_fit import NetworkFit
from labeldp_bench.training.trainer import Trainer

EXPERIMENTS = ("vector_approximation/table2", "vector_approximation/table3", "blockrr/table3")
CONTRASTIVE = ["dataset=cifar10", "model=probe", "encoder=resnet18", "mechanism=rr"]
PUBLIC_CLASSES = 100
SIDE = 32
REST = 40
"""Examples beyond two whole batches."""
GOOD = "bfloat16 channels_last"
OWN = {"step": "", "work": "", "out": str(BENCHMARKS)}


@dataclass(frozen=True)
class Step:
    """One kind of training step: all cells with the same graph.

    Attributes:
        name: network, classes, loss, batch and what is mixed, for people.
        cell: one of the cells.
        cells: how many of the experiments' cells have it.
        stages: how many fits follow each other.
        kind: `run`, `pre-training` on public labels, or `contrastive`.
    """

    name: str
    cell: Cell
    cells: int = 1
    stages: int = 1
    kind: str = "run"


def steps() -> list[Step]:
    """Returns every different training step of `EXPERIMENTS`, of pre-training and of SimCLR."""
    found: dict[str, Step] = {}
    for name in EXPERIMENTS:
        for cell in read_experiment(name).cells():
            step = Step(_name(cell), cell, stages=len(cell.setting("learner.fractions") or [0]))
            known = found.setdefault(step.name, replace(step, cells=0))
            found[step.name] = replace(known, cells=known.cells + 1)
    star = next(step.cell for step in found.values() if step.cell.config["pretrain"])
    batch = star.setting("pretrain.trainer.batch_size")
    contrastive = compose_cell(CONTRASTIVE)
    views = 2 * contrastive.setting("pretrain.trainer.batch_size")
    return [
        Step(f"SimCLR, resnet18, batch {views}", contrastive, kind="contrastive"),
        Step(f"pre-training on CIFAR-100, batch {batch}", star, kind="pre-training"),
        *found.values(),
    ]


def _name(cell: Cell) -> str:
    parts = [cell.choices["model"], f"{cell.num_classes} classes", cell.config["learner"]["loss"]]
    if cell.setting("model.network.preactivation"):
        parts[0] += " preactivation"
    parts.append(f"batch {cell.setting('trainer.batch_size')}")
    partner = cell.setting("trainer.mixup.partner")
    parts += [f"mixup {partner}"] if partner else []
    stages = len(cell.setting("learner.fractions") or [0])
    parts += [f"{stages} stages"] if stages > 1 else []
    parts += ["pre-trained"] if cell.config["pretrain"] else []
    return ", ".join(map(str, parts))


def dry_run(step: Step, device: torch.device) -> dict[str, Any]:
    """Returns one row of the table: what was compiled, and what the card was asked to do."""
    from torch._dynamo.utils import counters

    before = _counts(counters)
    started = time.perf_counter()
    card = FakeCard()
    kind = SimCLRFit if step.kind == "contrastive" else NetworkFit
    with watching(card, kind), card.in_place():
        trainer = _train(step, device)
    seconds = time.perf_counter() - started
    graphs, breaks, failed = (
        now - then for now, then in zip(_counts(counters), before, strict=True)
    )
    return {
        "step": step.name,
        "cells": step.cells,
        "optimizer": type(trainer.optimizer([torch.zeros(1, requires_grad=True)])).__name__,
        "graphs": graphs,
        "graph_breaks": breaks,
        "failed_graphs": failed,
        "kernels_per_step": round(card.launches / (2 * step.stages), 1),
        "convolution_tensors": sum(card.convolutions.values()),
        "bf16_channels_last": card.convolutions[GOOD],
        "waits_in_steps": sum(card.waits.values()),
        "stride_checks": card.checks,
        "stride_mismatches": len(card.mismatches),
        "seconds": round(seconds, 1),
    }


def faults(row: Mapping[str, Any]) -> list[str]:
    """Returns what is wrong with a step, each in a few words."""
    wrong = [f"{row['graphs']} graphs"] if row["graphs"] > 1 else []
    wrong += [] if row["kernels_per_step"] else ["nothing was compiled"]
    for key in ("graph_breaks", "failed_graphs", "waits_in_steps", "stride_mismatches"):
        wrong += [f"{row[key]} {key}"] if row[key] else []
    other = row["convolution_tensors"] - row["bf16_channels_last"]
    return wrong + ([f"{other} tensors of convolutions are not {GOOD}"] if other else [])


def _counts(counters: Any) -> tuple[int, int, int]:
    frames = counters["frames"]
    return (
        counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()),
        frames["total"] - frames["ok"],
    )  # fmt: skip


@contextmanager
def watching(card: FakeCard, kind: type[Fit]) -> Iterator[None]:
    """Lets the card count from the beginning of each epoch of a kind of fit to its last step."""
    begin, end = kind.begin_epoch, kind.end_epoch

    def begun(fit: Fit) -> None:
        begin(fit)
        card.watches = True

    def ended(fit: Fit, *given: Any) -> bool:
        card.watches = False
        return end(fit, *given)

    with mock.patch.object(kind, "begin_epoch", begun), mock.patch.object(kind, "end_epoch", ended):
        yield


def _train(step: Step, device: torch.device) -> Trainer:
    """Runs two whole batches and a shorter one of each stage; returns the recipe."""
    parts = step.cell.build()
    if isinstance(parts.pretrain, SimCLR) and step.kind == "contrastive":
        recipe = replace(parts.pretrain, trainer=replace(parts.pretrain.trainer, epochs=1))
        network = parts.model.network  # type: ignore[attr-defined]
        recipe.train(network, _images(recipe.trainer), Path(), device)
        return recipe.trainer
    model, classes, loss = parts.model, step.cell.num_classes, step.cell.config["learner"]["loss"]
    assert isinstance(model, NetworkModel)
    if step.kind == "pre-training":
        assert isinstance(parts.pretrain, Pretraining)
        model, classes, loss = (
            replace(model, trainer=parts.pretrain.trainer),
            PUBLIC_CLASSES,
            "plain",
        )
    model = replace(model, trainer=replace(model.trainer, epochs=1))
    images = _images(model.trainer)
    # Labels that stand for releases: a prior would need a network that computes.
    mechanism = RandomizedResponse(1.0) if loss == "plain" else parts.mechanism
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (len(images),), generator=generator)
    outputs = mechanism.release(labels, classes, generator, prior=None)
    release = Release(torch.arange(len(images)), outputs, mechanism, classes)
    start = None
    for stage in range(step.stages):
        kept = torch.arange(len(images)) >= 8 * stage  # each stage has another number of examples
        supervision = Supervision.of([release.take(kept)], loss_named(loss))
        session = Session(0, device, stage=stage, stages=step.stages, start=start)
        start = model.fit(images, supervision, session)
    return model.trainer


def _images(trainer: Trainer) -> Tensor:
    count = 2 * trainer.batch_size + REST
    return torch.randint(256, (count, SIDE, SIDE, 3), dtype=torch.uint8)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Compiles, prints and writes; returns the exit status."""
    own = read_arguments(arguments, OWN)
    chosen = [step for step in steps() if own["step"] in step.name]
    if not chosen:
        names = "; ".join(step.name for step in steps())
        raise InputError(f"step must be a part of one of: {names}; got {own['step']!r}")
    out = output_folder("out", own["out"])
    require_wheel()
    if not own["work"]:  # named, so that the process which takes over makes no second one
        own["work"] = tempfile.mkdtemp(prefix="cuda-dry-run-")
        arguments = [*arguments, f"work={own['work']}"]
    restart_with_card(output_folder("work", own["work"]), "benchmarks.cuda_dry_run", arguments)
    prepare_training()
    torch.cuda.init()
    device = torch.device("cuda", 0)
    rows, wrong = [], []
    for number, step in enumerate(chosen, start=1):
        say(f"[{number}/{len(chosen)}] {step.name}")
        rows.append(dry_run(step, device))
        say(f"  {rows[-1]['seconds']} s, {', '.join(faults(rows[-1])) or 'as it should be'}")
        wrong += [f"{step.name}: {fault}" for fault in faults(rows[-1])]
        write_benchmark("cuda_dry_run", rows, device, out)  # each step takes minutes
    print_head(list(rows[0]))
    for row in rows:
        print_row(row.values())
    print("\n".join(wrong) or "no step waits, breaks, or computes in another layout", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
