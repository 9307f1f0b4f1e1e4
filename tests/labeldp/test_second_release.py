"""A second release of the same labels is noticed, refused, and counted if it is asked for."""

import threading
import time
import warnings

import numpy as np
import pytest

import labeldp as ldp
from labeldp import privatization
from labeldp.store.ledger import BudgetError
from labeldp.support.validate import InputError

CLASSES = ["no", "yes", "refused", "other"]


def test_a_second_release_is_refused_and_adds_up_if_asked_for():
    labels = np.random.default_rng(7).choice(CLASSES, 500)
    first = ldp.privatize(labels, classes=CLASSES, eps=1.0)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(labels, classes=CLASSES, eps=0.5)
    second = ldp.privatize(labels, classes=CLASSES, eps=0.5, after=first)
    assert (second.eps, second.eps_spent) == (0.5, 1.5)
    assert ldp.privatize(labels, classes=CLASSES, eps=0.5, after=second).eps_spent == 2.0


@pytest.mark.parametrize(
    "other",
    [
        {"classes": CLASSES[::-1]},
        {"classes": [*CLASSES, "never"]},
        {"unit": np.arange(500) // 2, "most_rows": 1},
        {"row_ids": [str(row) for row in range(500)]},
    ],
)
def test_a_second_release_is_noticed_whatever_else_is_asked(other):
    # The codes of labels differ with the order of classes, and a part of the rows is another list.
    labels = np.random.default_rng(10).choice(CLASSES, 500)
    ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(labels, **{"classes": CLASSES, "eps": 1.0} | other)


@pytest.mark.parametrize(
    ("seed", "renamed"), [(21, {"no": 0, "yes": 1}), (23, {"no": "N", "yes": "Y"})]
)
def test_labels_under_other_names_are_the_same_ones(seed, renamed):
    # They were taken for other labels, so that the second release said eps_spent=1.
    labels = np.random.default_rng(seed).choice(["no", "yes"], 200)
    first = ldp.privatize(labels, classes=["no", "yes"], eps=1.0, again=True)
    other, classes = [renamed[each] for each in labels], list(renamed.values())
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(other, classes=classes, eps=1.0)
    assert ldp.privatize(other, classes=classes, eps=1.0, after=first).eps_spent == 2.0


def test_two_columns_of_numbers_that_all_differ_are_two():
    # As which of them are alike says nothing there, their numbers do.
    generator = np.random.default_rng(22)
    for values in generator.random((2, 200)):
        assert ldp.privatize(values, bounds=(0, 1), eps=1.0).eps_spent == 1.0


def test_two_threads_with_the_same_labels_release_them_once(monkeypatch):
    # Both looked before either had written down what it was about to draw.
    class Slow(list):
        def __iter__(self):
            found = [*super().__iter__()]
            time.sleep(0.2)
            return iter(found)

    class Remembered(dict):
        def setdefault(self, key, value):
            return super().setdefault(key, Slow(value))

    monkeypatch.setattr(privatization._RELEASED, "releases", Remembered())
    labels, ended = np.random.default_rng(13).choice(CLASSES, 300), []

    def run():
        try:
            ended.append(len(ldp.privatize(labels, classes=CLASSES, eps=1.0)))
        except BudgetError:
            ended.append("refused")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ended)) == ["300", "refused"]


def test_threads_that_release_again_never_count_too_little():
    # Each of four counted the releases before it, and none of the others: 1 for 4.
    labels, spent = np.random.default_rng(15).choice(CLASSES, 3000), []

    def run():
        for _ in range(3):
            try:
                spent.append(ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True).eps_spent)
            except BudgetError as error:
                assert "another thread" in str(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(spent) == list(range(1, len(spent) + 1))


def test_a_second_release_is_noticed_in_another_order():
    # A table that was sorted anew released every label again, and said eps of the first time.
    rng = np.random.default_rng(3)
    labels, ids = rng.choice(CLASSES, 60), np.arange(500, 560)
    ldp.privatize(labels, classes=CLASSES, eps=1.0, row_ids=ids)
    order = rng.permutation(60)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(labels[order], classes=CLASSES, eps=1.0, row_ids=ids[order].astype(str))
    other = ldp.privatize(labels[order], classes=CLASSES, eps=1.0, row_ids=ids)  # of other persons
    assert other.eps_spent == 1.0


def test_a_second_release_is_noticed_under_other_row_ids():
    # Ids that were given the second time alone made other rows of them: eps_spent was 1 for 2.
    rng = np.random.default_rng(14)
    ids = [f"row {number}" for number in range(50)]
    for first, second in (({}, {"row_ids": ids}), ({"row_ids": ids}, {})):
        labels = rng.choice(CLASSES, 50)
        ldp.privatize(labels, classes=CLASSES, eps=1.0, **first)
        with pytest.raises(BudgetError, match="released before"):
            ldp.privatize(labels, classes=CLASSES, eps=1.0, **second)
        with pytest.raises(InputError, match="their rows had other names"):
            ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True, **second)
        again = ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True, **first)
        assert again.eps_spent == 2.0
    # Of rows whose ids were given both times the ids decide; a few labels may be alike by chance.
    for size, first in ((50, {"row_ids": ids}), (5, {})):
        labels = rng.choice(CLASSES, size)
        ldp.privatize(labels, classes=CLASSES, eps=1.0, **first)
        others = [f"other {number}" for number in range(size)]
        assert ldp.privatize(labels, classes=CLASSES, eps=1.0, row_ids=others).eps_spent == 1.0


def test_a_second_release_of_numbers_is_noticed_under_other_bounds():
    numbers = np.random.default_rng(11).integers(100, size=50)
    ldp.privatize(numbers, bounds=(0, 100), eps=1.0)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(numbers.astype(float), bounds=(0, 101), eps=1.0)


def test_what_the_program_remembers_counts_though_it_is_not_given():
    # Three draws from one label tell three eps of it, whatever `after` leaves out.
    labels = np.random.default_rng(12).choice(CLASSES, 50)
    first = ldp.privatize(labels, classes=CLASSES, eps=1.0)
    second = ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True)
    assert second.eps_spent == 2
    assert ldp.privatize(labels, classes=CLASSES, eps=1.0, after=first[:1]).spent.tolist() == (
        [3.0] * 50
    )
    persons = {"unit": np.arange(50) // 2, "unit_name": "who", "again": True}
    assert ldp.privatize(labels, classes=CLASSES, eps=1.0, **persons).eps_spent == 7
    with pytest.raises(InputError, match="released before, and that release counts what each who"):
        ldp.privatize(labels, classes=CLASSES, eps=1.0, again=True)


def test_a_draw_that_was_refused_is_no_release(monkeypatch):
    # Nothing was drawn, so that the labels can be released still.
    labels = np.random.default_rng(8).choice(CLASSES, 50)
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            ldp.privatize(labels, CLASSES, 700, "hadamard")
        assert not isinstance(caught.value, BudgetError)
    ldp.privatize(labels, CLASSES, 2.0)
    for mechanism in ("hadamard", "rr"):  # a refused draw must not forget the one before it
        with pytest.raises(InputError):
            ldp.privatize(labels, CLASSES, 700, mechanism, again=mechanism == "hadamard")
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(labels, CLASSES, 2.0)


def test_what_was_drawn_is_remembered_though_the_warning_after_it_stops_the_program():
    labels = np.random.default_rng(9).choice(CLASSES, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            ldp.privatize(labels, CLASSES, 0.01)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(labels, CLASSES, 0.01)
