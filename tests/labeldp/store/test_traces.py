"""What a run writes, and what the data layer shows, tell of true labels by releases alone."""

import json
import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
    NoPrivacy,
)
from labeldp.store import LabelStore
from labeldp_bench.data.images import ImageData
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
CPU = torch.device("cpu")


COVERED_ELSEWHERE = {
    "wall_seconds",
    "images_per_second",
    "released_agreement",
    "response_accuracy",
    "checksum",
}


@pytest.mark.parametrize("recipe", ["rappor", "lp_2st", "blockrr", "network"])
def test_files_of_a_run_depend_on_true_labels_through_releases_only(
    recipe, tmp_path, tiny_network, monkeypatch
):
    # Anything else in record or history would be a release without noise and without a price.
    # released_agreement and response_accuracy are the exceptions, and say so.
    mechanism = "rappor" if recipe == "network" else recipe
    base = tiny_network if recipe == "network" else [*TINY_CIRCLE, "learner.retrain=consensus"]
    cell = compose_cell([*base, f"mechanism={mechanism}"])

    def files(name):
        environment = Environment(tmp_path / name, tmp_path / "data", CPU)
        assert run_cells([cell], environment) == 0
        folder = environment.out_dir / cell.folder
        record = json.loads((folder / "record.json").read_text())
        others = {
            path.name: [
                line.rpartition(",")[0] if path.name == "history.csv" else line
                for line in path.read_text().splitlines()
            ]
            for path in folder.iterdir()
            if path.suffix == ".csv"  # the last column of the history is a duration
        }
        return {k: v for k, v in record.items() if k not in COVERED_ELSEWHERE}, others, record

    record, others, whole = files("a")

    def then_permute(original):
        def method(self, *arguments, **keywords):
            left = original(self, *arguments, **keywords)
            indices = self.releases[-1].indices if self.releases else torch.arange(0)
            labels = self._LabelStore__labels
            labels[indices] = (labels[indices] + 1) % self.num_classes
            return left

        return method

    monkeypatch.setattr(LabelStore, "release", then_permute(LabelStore.release))
    permuted, permuted_others, permuted_whole = files("b")
    assert permuted == record and permuted_others == others
    assert permuted_whole["released_agreement"] != whole["released_agreement"]


def test_public_side_of_a_data_set_does_not_depend_on_training_labels(tiny_images):
    # Order, subset or hash of the images would give labels away before any release.
    with np.load(tiny_images / "tiny.npz") as file:
        arrays = dict(file)
    arrays["y_train"] = (arrays["y_train"] + 1) % 3
    np.savez(tiny_images / "other.npz", **arrays)
    one, other = (
        ImageData(name, 3, limit_train=100).draw(tiny_images, seed=0) for name in ("tiny", "other")
    )
    assert torch.equal(one.train_features, other.train_features)
    assert one.sha256 == other.sha256 and one.selection_sha256 == other.selection_sha256
    # The labels are other ones, or this would show nothing.
    labels = [b.store.open(math.inf, 0).release(NoPrivacy()).outputs for b in (one, other)]
    assert not torch.equal(*labels)
