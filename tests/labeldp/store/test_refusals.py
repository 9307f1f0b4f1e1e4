"""What a mechanism that fails says: never a true label."""

import math
import traceback
from dataclasses import dataclass, replace

import pytest
import torch

from labeldp.mechanisms import (
    LabelDPPro,
    Mechanism,
    PateFM,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
)
from labeldp.store import LabelStore, ReleaseError
from labeldp.support.validate import Diverged, InputError, check_labels
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE
from tests.labeldp.store.test_store import LABELS, opened


@dataclass(frozen=True)
class Careless(Mechanism):
    """Fails on more than one label, and says on which."""

    kind: type = ValueError

    def release(self, labels, num_classes, generator, prior=None):
        if len(labels) < 2:  # what is tried out before
            return labels.clone()
        secret = labels.clone()
        try:
            raise ValueError(f"cannot do {secret.tolist()}")
        except ValueError as error:
            raise self.kind(str(error)) from error


def tensors_in_frames(error):
    """Every tensor among the local variables of an exception's frames, and of its causes'."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            yield from (v for v in trace.tb_frame.f_locals.values() if torch.is_tensor(v))
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("mechanism", "prior"),
    [
        (Careless(1.0), None),
        (Careless(1.0, KeyError), None),
        (Careless(1.0, InputError), None),
        (Careless(1.0, SystemExit), None),
        (RandomizedResponseWithPrior(1.0), torch.tensor([0.5, 0.5])),
        (RandomizedResponseWithPrior(1.0), torch.full((50, 4), math.nan)),
    ],
)
def test_a_failed_release_takes_no_label_along(mechanism, prior):
    # The message goes to error.txt and to the terminal; tools print the frames' variables.
    store = opened()
    try:
        store.release(mechanism, prior=prior)
    except (ReleaseError, InputError) as error:
        caught = error
    printed = "".join(traceback.format_exception(caught))
    assert str(LABELS.tolist())[1:20] not in printed and "cannot do" not in printed
    for tensor in tensors_in_frames(caught):
        assert not torch.equal(tensor, LABELS)
    assert store.eps_spent == 0 and store.ledger == []


def test_ctrl_c_in_a_draw_takes_no_label_along():
    store = opened()
    with pytest.raises(KeyboardInterrupt) as caught:
        store.release(Careless(1.0, KeyboardInterrupt))
    assert caught.value.args == ()
    assert not any(torch.equal(tensor, LABELS) for tensor in tensors_in_frames(caught.value))


def test_a_refusal_of_true_labels_is_withheld_and_one_of_any_label_is_not():
    # A slip of a mechanism's author: `check_labels` says which label it is that does not fit.
    class Coarse(RandomizedResponse):
        def release(self, labels, num_classes, generator, prior=None):
            check_labels(labels // 2, 1 + num_classes // 4)
            return super().release(labels, num_classes, generator, prior)

    class Never(RandomizedResponse):
        def release(self, labels, num_classes, generator, prior=None):
            raise InputError("num_classes must be a prime")

    store = LabelStore(torch.tensor([0, 1, 2, 7]), 8).open(1.0, seed=0)
    with pytest.raises(ReleaseError, match="Coarse failed with InputError on true labels"):
        store.release(Coarse(1.0))
    with pytest.raises(InputError, match="must be a prime"):
        store.release(Never(1.0))
    assert store.ledger == []


@pytest.mark.parametrize("kind", [InputError, Diverged, ValueError])
def test_what_is_trained_on_true_labels_fails_without_a_word(kind):
    # The loss of a teacher that diverged follows from the labels of its part.
    def vote(indices, labels):
        raise kind(f"the loss became {labels.sum()}")

    class Falls:
        weights = torch.zeros(2)

        def gradients(self, indices, labels):
            return vote(indices, labels)

    store, teachers = opened(), PateFM(1.0, teachers=2, queries=3, answers=1)
    with pytest.raises(ReleaseError, match=f"failed with {kind.__name__} on true labels"):
        store.release(replace(teachers, parts=torch.arange(50) % 2, vote=vote))
    with pytest.raises(InputError, match="each of 2 teachers needs labels of its own"):
        store.release(replace(teachers, parts=torch.zeros(50, dtype=torch.int64), vote=vote))
    with pytest.raises(ReleaseError, match=f"failed with {kind.__name__} on true labels"):
        store.release(LabelDPPro(1.0, steps=1, share=1.0, descent=Falls()))
    assert store.ledger == []


def test_a_likelihood_of_too_few_classes_names_no_label():
    # The diagnostic would look up true labels in it, and say which one it did not find.
    class Narrow(RandomizedResponse):
        def most_likely_labels(self, released, num_classes, prior=None):
            return torch.ones((len(released), 2), dtype=torch.bool)

    store = opened()
    store.release(Narrow(1.0))
    with pytest.raises(
        ReleaseError, match=r"most_likely_labels must have shape \(50, 4\), got \(50, 2\)"
    ):
        _ = store.released_agreement


def test_error_file_of_a_run_holds_no_label(tmp_path, monkeypatch, capsys):
    # A chained exception would print the mechanism's own message after all.
    monkeypatch.setattr(Rappor, "release", Careless.release)
    monkeypatch.setattr(Rappor, "kind", RuntimeError, raising=False)
    cell = compose_cell([*TINY_CIRCLE, "mechanism=rappor"])
    assert run_cells([cell], Environment(tmp_path, tmp_path, torch.device("cpu"))) == 1
    text = (tmp_path / cell.folder / "error.txt").read_text() + capsys.readouterr().out
    assert "Rappor failed with RuntimeError on true labels; its message is withheld" in text
    assert "cannot do" not in text and "[0, " not in text
