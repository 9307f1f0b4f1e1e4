"""Several releases of the same rows in one fit: likelihoods add, and so does what they cost."""

import numpy as np
import pytest

import labeldp as ldp
from labeldp import designs
from labeldp.estimates import unbiased_labels
from labeldp.named_mechanisms import CLASS_MECHANISMS
from labeldp.support.validate import InputError

STREAM = np.random.default_rng(0)
X = STREAM.normal(size=(900, 2))
Y = np.digitize(X[:, 0] + STREAM.normal(size=900) / 3, [-0.5, 0.5])
CLASSES = [2, 0, 1]  # given in an order that is not the sorted one
ONE, TWO = (ldp.privatize(Y, CLASSES, eps, "rr", seed=seed) for seed, eps in ((1, 1.0), (2, 2.0)))
BOTH = ldp.Release.stack([ONE, TWO])
NUMBERS, OTHERS = (ldp.privatize(X[:, 0], bounds=(-3, 3), eps=1.0, seed=seed) for seed in (1, 2))
NAMED = ldp.privatize(Y, CLASSES, 1.0, row_ids=[f"p{row}" for row in range(900)], seed=3)
AS_IS = designs.identity(["no", "yes"])


def test_likelihoods_add_whatever_was_released():
    names = [name for name, kind in CLASS_MECHANISMS.items() if kind.private]
    all_of_them = [
        ldp.privatize(Y[:40], CLASSES, 1.0, name, seed=seed) for seed, name in enumerate(names)
    ]
    found = ldp.Release.stack(all_of_them)
    expected = sum(each.log_likelihood() for each in all_of_them)
    assert found.log_likelihood() == pytest.approx(expected, abs=1e-12)
    assert found[::-2].log_likelihood() == pytest.approx(expected[::-2], abs=1e-12)
    assert found.classes == [0, 1, 2] and found.eps == len(names)


def test_estimates_are_unbiased_and_nearer_than_those_of_the_best_part():
    # Equal weights would let the noisier release add to the error of the better one.
    errors, inside = [], []
    labels = np.repeat([0, 1, 2], [200, 60, 40])
    for seed in range(80):
        parts = [ldp.privatize(labels, CLASSES, eps, "rr", seed=1000 * eps + seed)
                 for eps in (1, 2)]  # fmt: skip
        parts.append(ldp.Release.stack(parts))
        errors.append([unbiased_labels(each)[:, 1].mean() - 0.2 for each in parts])
        share = ldp.class_shares(parts[-1])[1]
        inside.append(share.low <= 0.2 <= share.high)
    bias, spread = np.mean(errors, 0), np.std(errors, 0)
    assert np.abs(bias[2]) < 3 * spread[2] / 80**0.5
    assert spread[2] < 0.97 * spread[1] < spread[0]
    assert 0.9 < np.mean(inside) <= 1


def test_a_stack_is_judged_on_rows_that_no_part_of_it_has_fitted():
    clf = ldp.LabelDPClassifier(penalty=0.01).fit(X[:600], BOTH[:600])
    for each in (ONE, TWO, BOTH):
        with pytest.raises(InputError, match="600 of 900 rows were used in the fit"):
            ldp.estimate_accuracy(clf, X, each)
    found = ldp.estimate_accuracy(clf, X[600:], BOTH[600:], confidence=0.99)
    assert found.low < (clf.predict(X[600:]) == Y[600:]).mean() < found.high
    assert ldp.metrics.roc_auc(BOTH[600:], clf, X=X[600:], positive=0).low > 0.6


def test_labels_without_noise_leave_the_interval_of_few_rows():
    # 0.99999 to 1.00000, of 200 rows: what rounding left of the noisy part was taken for spread.
    gold = ldp.Release.from_answers(Y[:200], designs.identity())
    found = ldp.metrics.accuracy(ldp.Release.stack([ONE[:200], gold]), Y[:200])
    assert found == ldp.metrics.accuracy(gold, Y[:200]) and found.low < 0.99


def test_what_was_spent_adds_up_once():
    assert (BOTH.eps, BOTH.eps_spent, BOTH.mechanism) == (3, 3, "rr + rr")
    ledger = ldp.Ledger()
    first = ldp.privatize(Y, CLASSES, 1.0, "rr", ledger=ledger)
    second = ldp.privatize(Y, CLASSES, 2.0, "rr", ledger=ledger, again=True)
    for order in ([first, second], [second, first]):
        assert ldp.Release.stack(order).eps_spent == 3  # the second says 3 already
    assert ldp.Release.stack([first, second, ONE]).eps_spent == 4
    assert "the noise has a seed" in BOTH.summary()
    assert "the noise has a seed" not in ldp.Release.stack([first, second]).summary()


def test_rows_are_matched_by_their_ids():
    other = ldp.privatize(Y, CLASSES, 1.0, "rappor", row_ids=NAMED.row_ids, seed=5)
    found = ldp.Release.stack([NAMED, other[STREAM.permutation(900)]])
    expected = NAMED.log_likelihood() + other.log_likelihood()
    assert found.row_ids.tolist() == NAMED.row_ids.tolist()
    assert found.log_likelihood() == pytest.approx(expected)


def test_two_annotators_may_say_the_same():
    design = designs.warner(0.9)
    one, other = (ldp.Release.from_answers(["yes"], design, source=name) for name in "ab")
    odds = np.exp(np.diff(ldp.Release.stack([one, other]).log_likelihood()))
    assert odds.item() == pytest.approx(81)
    assert one.manifest.identity == other.manifest.identity


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        (ONE, "a list of releases"),
        ([ONE], "two releases or more"),
        ([ONE, ONE], "one twice.*source="),
        ([BOTH, TWO], "one twice"),
        ([ONE, ldp.privatize(Y, CLASSES, 1.0, "rr", seed=1)], "noise of their own.*seed="),
        ([ONE, TWO[:-1]], "only one has row 899"),
        ([NAMED, TWO], "same kind of row ids.*row_ids="),
        ([ONE, ldp.privatize(Y, [0, 1, 2, 3], 1.0, seed=0)], r"same classes, got \[0, 1, 2\] and"),
        ([NUMBERS, OTHERS], "got one of numbers"),
        ([ONE, ldp.privatize(Y, CLASSES, 1.0, persons=Y, seed=0)], "same persons"),
        ([ldp.Release.from_answers(said, AS_IS) for said in (["no", "yes"], ["no", "no"])],
         "row 1: .* rule out all classes"),
    ],
)  # fmt: skip
def test_what_cannot_be_stacked_is_refused(releases, said):
    with pytest.raises(InputError, match=said) as caught:
        ldp.Release.stack(releases)
    assert "\n" not in str(caught.value)


def test_a_stack_is_no_file_and_no_label(tmp_path):
    with pytest.raises(InputError, match="save each release"):
        BOTH.save(tmp_path / "both.parquet")
    for loss in ("plain", "bce", "softmax_bits", "unbiased"):
        with pytest.raises(InputError, match="marginal"):
            ldp.LabelDPClassifier(loss=loss).fit(X, BOTH)
