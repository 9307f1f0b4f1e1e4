"""Shared tools: composing cells and running the real command.

What a tool needs is imported where it is used: a test of the library waits for no benchmark.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Records of a checkout with uncommitted changes cannot be collected, and tests run there too.
os.environ.setdefault("LABELDP_COMMIT", "a" * 40)

CHECKOUT = Path(__file__).resolve().parents[1]
TINY_CIRCLE = ["n_train=300", "n_test=100", "trials=2", "num_classes=4"]
TINY_CIRCLE = ["model.k=20", *(f"dataset.{text}" for text in TINY_CIRCLE)]


@pytest.fixture
def command(tmp_path):
    """Runs `python -m labeldp_bench` in an empty folder, as a user would."""
    from tests.shell import HANGS

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = {key: value for key, value in os.environ.items() if key != "LABELDP_DATA"}
        own = {"cwd": tmp_path, "env": environment | {"OMP_NUM_THREADS": "1"}}
        line = [sys.executable, "-m", "labeldp_bench", *arguments]
        return subprocess.run(line, **own, capture_output=True, text=True, timeout=HANGS)

    return run


@pytest.fixture
def tiny_images(tmp_path):
    """A folder with `tiny.npz`."""
    from tests.images import write_tiny

    folder = tmp_path / "data"
    folder.mkdir()
    write_tiny(folder)
    return folder


@pytest.fixture
def tiny_network(tiny_images):
    """Overrides for a network run of two short epochs on `tiny.npz`."""
    data = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", f"data_dir={tiny_images}"]
    return [*data, "model=cnn", "trainer.epochs=2", "trainer.batch_size=64", "device=cpu"]


@pytest.fixture
def network(tiny_network, tmp_path):
    """A tiny CNN with dropout, features, and a way to open a store over their labels."""
    from labeldp_bench.experiments.compose import compose_cell

    parts = compose_cell([*tiny_network, "mechanism=rr", "trainer.epochs=1"]).build()
    bundle = parts.dataset.draw(tmp_path / "data", 0)
    return parts.model, bundle.train_features, lambda: bundle.store.open(1.0, 0, again="test")


@pytest.fixture
def environment(tmp_path, tiny_images):
    """Where cells on `tiny.npz` run."""
    import torch

    from labeldp_bench.runs.environment import Environment

    return Environment(tmp_path / "runs", tiny_images, torch.device("cpu"))
