"""An auditor's attempts to get at true training labels past the releases; see docs/privacy.md."""

import copy
import json
import math
import pickle
import types
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
    Mechanism,
    NoPrivacy,
    RandomizedResponse,
)
from labeldp.store.door import ReleaseDoor
from labeldp.store.ledger import BudgetError
from labeldp.store.vault import LabelVault
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import ImageData
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Session
from labeldp_bench.learners import SingleStage
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.evaluate import Evaluator
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
CPU = torch.device("cpu")


def open_vault(eps=1.0):
    return LabelVault(LABELS, 4).open(eps, seed=0)


@dataclass(frozen=True)
class Careless(Mechanism):
    """Fails, and says on which labels."""

    kind: type = ValueError

    def release(self, labels, num_classes, generator, prior=None):
        secret = labels.clone()
        try:
            raise ValueError(f"cannot do {secret.tolist()}")
        except ValueError as error:
            if self.kind is InputError:
                raise InputError("prior must be nice") from error
            raise self.kind(str(error)) from error

    def log_likelihood(self, released, num_classes, prior=None):
        raise NotImplementedError


# --- The door ----------------------------------------------------------------------------------


def test_a_learner_can_ask_for_releases_and_nothing_else():
    # Every further public name is a way round the ledger.
    door = ReleaseDoor(open_vault())
    public = {name for name in dir(door) if not name.startswith("_")}
    assert public == {
        "num_classes", "bound", "eps", "release", "release_groups", "release_histogram",
        "release_moments", "release_votes", "release_descent",
        "trusted_labels", "publish",
    }  # fmt: skip
    assert (len(door), door.num_classes, door.eps) == (50, 4, 1.0)
    for name in ("eps", "anything"):
        with pytest.raises(AttributeError):
            setattr(door, name, math.inf)


def test_agreement_asked_after_each_release_would_tell_every_label():
    # The attack that the door is for: the evaluation side must not be on the learner's side.
    vault = LabelVault(torch.randint(2, (40,), generator=torch.Generator().manual_seed(1)), 2)
    vault = vault.open(0.1, seed=0)
    found, agreed = [], 0
    for number in range(len(vault)):
        released = int(vault.release(RandomizedResponse(0.1), torch.tensor([number])).outputs)
        hits = round(vault.released_agreement * (number + 1))
        found.append(released if hits > agreed else 1 - released)
        agreed = hits
    assert found == vault._LabelVault__labels.tolist()  # at eps = 0.1
    assert not hasattr(ReleaseDoor(vault), "released_agreement")


def test_an_open_vault_is_not_opened_again():
    # A second ledger would hide a second draw, or one without noise.
    with pytest.raises(BudgetError, match="only a closed one can be opened"):
        open_vault().open(math.inf, seed=0)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_vault_is_not_copied_or_written(make_copy, tmp_path):
    # A copy has its whole budget again; a pickle puts true labels on the disk.
    vault = open_vault()
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make_copy(vault)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        torch.save({"vault": ReleaseDoor(vault)}, tmp_path / "model.pt")


def reachable(start):
    """All objects of the package that public names, containers and bound methods lead to."""
    found, todo = {}, [start]
    while todo:
        each = todo.pop()
        if isinstance(each, dict | list | tuple):
            todo += each.values() if isinstance(each, dict) else each
        elif isinstance(each, types.MethodType):
            todo.append(each.__self__)
        elif type(each).__module__.startswith("labeldp") and id(each) not in found:
            found[id(each)] = each
            todo += [getattr(each, name) for name in dir(each) if not name.startswith("_")]
    return found.values()


@pytest.mark.parametrize("recipe", ["circle", "network"])
def test_public_names_of_what_a_run_hands_to_a_learner_lead_to_no_labels(
    recipe, tmp_path, tiny_network, monkeypatch
):
    # A learner would get past its door, to true labels or to test labels.
    fit, seen = SingleStage.fit, []

    def spy(self, features, vault, mechanism, model, session):
        seen.append({type(each) for each in reachable((vault, session))})
        return fit(self, features, vault, mechanism, model, session)

    monkeypatch.setattr(SingleStage, "fit", spy)
    cell = compose_cell(TINY_CIRCLE if recipe == "circle" else tiny_network)
    assert run_cells([cell], Environment(tmp_path / "runs", tmp_path / "data", CPU)) == 0
    assert seen
    for kinds in seen:
        assert {ReleaseDoor, Session} <= kinds and not kinds & {LabelVault, Evaluator, DataBundle}


# --- The ledger --------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [-1.0, 0.0, math.nan])
def test_a_mechanism_that_claims_a_senseless_cost_is_refused(eps):
    # A negative cost would refill the budget; nothing compares with NaN.
    vault, mechanism = open_vault(), RandomizedResponse(1.0)
    object.__setattr__(mechanism, "eps", eps)
    with pytest.raises(InputError, match="eps must be a number > 0"):
        vault.release(mechanism)
    assert vault.eps_spent == 0 and vault.ledger == []


@pytest.mark.parametrize(
    "indices",
    [torch.ones(50, dtype=torch.bool), torch.ones(50, dtype=torch.uint8), torch.ones(2),
     torch.ones((1, 1), dtype=torch.int64)],
)  # fmt: skip
def test_indices_are_whole_numbers(indices):
    # Masks and numbers are booked differently: one label may be released and another one charged.
    with pytest.raises(InputError, match="indices must be an int64 tensor"):
        open_vault().release(RandomizedResponse(0.1), indices)


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
            labels = self._LabelVault__labels
            labels[indices] = (labels[indices] + 1) % self.num_classes
            return left

        return method

    monkeypatch.setattr(LabelVault, "release", then_permute(LabelVault.release))
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
    labels = [b.vault.open(math.inf, 0).release(NoPrivacy()).outputs for b in (one, other)]
    assert not torch.equal(*labels)
