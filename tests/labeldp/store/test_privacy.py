"""An auditor's attempts to get at true training labels past the releases; see docs/privacy.md."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
    NoPrivacy,
    RandomizedResponse,
)
from labeldp.store import BudgetError, LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.data.images import ImageData
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
CPU = torch.device("cpu")


def open_store(eps=1.0):
    return LabelStore(LABELS, 4).open(eps, seed=0)


def test_an_open_store_is_not_opened_again():
    # A second ledger would hide a second draw, or one without noise.
    with pytest.raises(BudgetError, match="only a closed one can be opened"):
        open_store().open(math.inf, seed=0)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_store_is_not_copied_or_written(make_copy, tmp_path):
    # A copy has its whole budget again; a pickle puts true labels on the disk.
    store = open_store()
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make_copy(store)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        torch.save({"store": store}, tmp_path / "model.pt")


# --- The ledger --------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [-1.0, 0.0, math.nan])
def test_a_mechanism_that_claims_a_senseless_cost_is_refused(eps):
    # A negative cost would refill the budget; nothing compares with NaN.
    store, mechanism = open_store(), RandomizedResponse(1.0)
    object.__setattr__(mechanism, "eps", eps)
    with pytest.raises(InputError, match="eps must be a number > 0"):
        store.release(mechanism)
    assert store.eps_spent == 0 and store.ledger == []


@pytest.mark.parametrize(
    "indices",
    [torch.ones(50, dtype=torch.bool), torch.ones(50, dtype=torch.uint8), torch.ones(2),
     torch.ones((1, 1), dtype=torch.int64)],
)  # fmt: skip
def test_indices_are_whole_numbers(indices):
    # Masks and numbers are booked differently: one label may be released and another one charged.
    with pytest.raises(InputError, match="rows must be an int64 tensor"):
        open_store().release(RandomizedResponse(0.1), indices)


# --- What is written ---------------------------------------------------------------------------

COVERED_ELSEWHERE = {
    "wall_seconds", "images_per_second", "released_agreement", "response_accuracy", "checksum",
}  # fmt: skip


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
