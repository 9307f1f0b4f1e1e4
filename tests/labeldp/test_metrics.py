"""Metrics from releases: those of true labels in the mean, with intervals that hold."""

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn import metrics as truth
from sklearn.model_selection import GridSearchCV

import labeldp as ldp
from labeldp import metrics
from labeldp.intervals import pairs, precisions
from labeldp.support.validate import InputError

OF_CLASSES = [
    metrics.accuracy, metrics.recall, metrics.balanced_accuracy, metrics.precision,
    metrics.log_loss, metrics.brier, metrics.roc_auc, metrics.average_precision, metrics.lift,
    metrics.calibration_error,
]  # fmt: skip


def drawn(rows, seed=0, classes=2):
    """True labels, a third of them of the last class where there are two, and rounded scores."""
    stream = np.random.default_rng(seed)
    logits = stream.normal(size=(rows, classes)) * 1.5 - np.arange(classes) * 0.7
    labels = (logits + stream.gumbel(size=logits.shape)).argmax(1)
    scores = np.exp(logits)
    return labels, scores / scores.sum(1, keepdims=True)


def released(labels, eps, classes=2, seed=0, mechanism=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = mechanism or ("none" if eps == math.inf else "auto")
        return ldp.privatize(labels, classes=range(classes), eps=eps, mechanism=name, seed=seed)


def test_without_noise_they_are_those_of_scikit_learn():
    labels, scores = drawn(3000)
    scores = np.round(scores, 2)  # with ties
    scores[:, 0] = 1 - scores[:, 1]
    release, last, chosen = released(labels, math.inf), scores[:, 1], scores.argmax(1)
    expected = {
        metrics.accuracy: truth.accuracy_score(labels, chosen),
        metrics.recall: truth.recall_score(labels, chosen),
        metrics.precision: truth.precision_score(labels, chosen),
        metrics.balanced_accuracy: truth.balanced_accuracy_score(labels, chosen),
        metrics.log_loss: truth.log_loss(labels, scores.clip(metrics.CLIP)),
        metrics.brier: truth.brier_score_loss(labels, last),
        metrics.roc_auc: truth.roc_auc_score(labels, last),
    }
    for metric, value in expected.items():
        found = metric(release, scores)
        assert found.value == pytest.approx(value, abs=2e-4) and found.low < value < found.high
        assert metric(release, last) == metric(release, scores)  # the second class's alone
    found = metrics.average_precision(release, scores)
    assert found.value == pytest.approx(truth.average_precision_score(labels, last), abs=2e-3)
    matrix = metrics.confusion_matrix(release, scores)
    counts = truth.confusion_matrix(labels, chosen)
    assert matrix.value.to_numpy() == pytest.approx(counts / 3000)
    assert ((matrix.low < matrix.value) & (matrix.value < matrix.high)).to_numpy().all()


def test_more_classes_are_averaged_or_named():
    labels, scores = drawn(2000, classes=3)
    release, chosen = released(labels, math.inf, 3), scores.argmax(1)
    auc = truth.roc_auc_score(labels, scores, multi_class="ovr")
    assert metrics.roc_auc(release, scores).value == pytest.approx(auc)
    recalls = truth.recall_score(labels, chosen, average=None)
    assert metrics.recall(release, scores).value == pytest.approx(recalls.mean())
    assert metrics.recall(release, chosen, positive=2).value == pytest.approx(recalls[2])
    squares = np.square(scores - np.eye(3)[labels]).sum(1).mean()
    assert metrics.brier(release, scores).value == pytest.approx(squares)
    with pytest.raises(InputError, match="positive"):
        metrics.lift(release, scores)


@pytest.mark.parametrize("mechanism", ["rr", "rappor", "alibi"])
def test_noise_does_not_shift_them(mechanism):
    # The naive metrics of released labels are off by ten standard errors.
    labels, scores = drawn(1500)
    own = [metric(released(labels, math.inf), scores).value for metric in OF_CLASSES[:-2]]
    releases = [released(labels, 1.5, seed=seed, mechanism=mechanism) for seed in range(60)]
    draws = np.array(
        [[metric(each, scores).value for metric in OF_CLASSES[:-2]] for each in releases]
    )
    error = draws.std(0) / math.sqrt(60)
    assert (np.abs(draws.mean(0) - own) < 4 * error + 0.004).all()


def test_intervals_hold_as_often_as_they_say():
    # The small version of results/benchmarks/metric_coverage.csv.
    whole, scores = drawn(100_000)
    last = scores[:, 1]
    top = last >= np.quantile(last, 0.9)
    true = {
        metrics.roc_auc: truth.roc_auc_score(whole, last),
        metrics.average_precision: truth.average_precision_score(whole, last),
        metrics.recall: truth.recall_score(whole, last > 0.5),
        metrics.balanced_accuracy: truth.balanced_accuracy_score(whole, last > 0.5),
        metrics.lift: whole[top].mean() / whole.mean(),
        metrics.log_loss: truth.log_loss(whole, scores),
    }
    held = dict.fromkeys(true, 0)
    for seed in range(150):
        rows = np.random.default_rng(seed).integers(0, 100_000, 600)
        release = released(whole[rows], 1.0, seed=seed)
        for metric, value in true.items():
            found = metric(release, scores[rows])
            held[metric] += found.low <= value <= found.high
    for count in held.values():
        assert binomtest(count, 150, 0.95, alternative="less").pvalue > 1e-3


def test_terms_are_the_pseudo_values_of_the_jackknife():
    stream = np.random.default_rng(0)
    weights, scores = stream.normal(size=25) + 0.4, np.round(stream.random(25), 1)

    def area(w, s):
        higher = (s[:, None] > s) + 0.5 * (s[:, None] == s)
        both = np.outer(w, 1 - w) * (1 - np.eye(len(w)))
        return np.array([(both * higher).sum(), both.sum()]) / len(w) / (len(w) - 1)

    def precision(w, s):
        rows = range(len(w))
        return np.mean([
            w[i] * (1 + sum(w[j] for j in rows if j != i and s[j] >= s[i])) / (s >= s[i]).sum()
            for i in rows
        ])  # fmt: skip

    def jackknife(statistic):
        left = [statistic(np.delete(weights, k), np.delete(scores, k)) for k in range(25)]
        return 25 * statistic(weights, scores) - 24 * np.array(left)

    found = np.stack(pairs(weights, 1 - weights, scores), 1)
    assert found == pytest.approx(jackknife(area))
    assert precisions(weights, scores) == pytest.approx(jackknife(precision))


def test_each_metric_says_what_it_needs():
    labels, scores = drawn(200)
    release, numbers = released(labels, math.inf), ("classes", "scores", "probabilities")
    given = dict(zip(numbers, (scores.argmax(1), scores * 3 - 1, scores), strict=True))
    every = {each for each in OF_CLASSES} | {metrics.confusion_matrix, metrics.selection_rate}
    of_classes = {each for each, needs in metrics.NEEDS.items() if needs != "numbers"}
    assert of_classes == every
    for metric in of_classes:
        needs = numbers.index(metrics.NEEDS[metric])
        for less in numbers[:needs]:
            with pytest.raises(InputError, match="scores must be"):
                metric(release, given[less])
        for more in numbers[needs:]:
            metric(release, given[more])


def test_what_noise_hides_cannot_be_said():
    # 2 % of 500 people at eps=.5: the share of the class is 0.1 to -0.1.
    labels = (np.arange(500) < 10).astype(int)
    scores = np.random.default_rng(0).random(500)
    unsaid = 0
    for seed in range(20):
        for metric in (metrics.recall, metrics.roc_auc, metrics.average_precision, metrics.lift):
            found = metric(released(labels, 0.5, seed=seed), scores)
            if found.reason:
                assert math.isnan(found.value) and found.low == 0 and found.high >= 1
                assert "cannot be said" in str(found)
            unsaid += bool(found.reason)
    assert unsaid > 60
    nobody = metrics.precision(released(labels, 0.5), np.zeros(500))
    assert math.isnan(nobody.value) and "no row is predicted to be 1" in nobody.reason


def test_a_difference_is_that_of_the_pairs():
    labels, scores = drawn(4000)
    release = released(labels, 1.0)
    other = np.random.default_rng(1).permutation(scores[:, 1])
    a, b = metrics.roc_auc(release, scores), metrics.roc_auc(release, other)
    found = metrics.difference(metrics.roc_auc, release, scores, other)
    assert found.value == pytest.approx(a.value - b.value) and found.low > 0
    near = np.clip(scores[:, 1] + 0.01 * np.random.default_rng(2).normal(size=4000), 0, 1)
    near = metrics.difference(metrics.roc_auc, release, scores, near)
    assert near.high - near.low < (a.high - a.low) / 5
    itself = metrics.difference(metrics.accuracy, release, scores, scores)
    assert (itself.value, itself.low, itself.high) == (0, 0, 0)
    with pytest.raises(InputError, match="roc_auc"):
        metrics.difference(metrics.lift, release, scores, other)


def test_gaps_between_groups():
    labels, scores = drawn(4000)
    groups = np.where(np.arange(4000) % 2, "b", "a")
    scores[1::2, 1] *= 0.5  # of b few are found
    scores[:, 0] = 1 - scores[:, 1]
    release, chosen = released(labels, 3.0), scores.argmax(1)
    expected = [chosen[(groups == name) & (labels == 1)].mean() for name in "ab"]
    found = metrics.group_gap(metrics.recall, release, scores, groups)
    assert found.low < expected[0] - expected[1] < found.high and found.low > 0
    rates = [chosen[groups == name].mean() for name in "ab"]
    found = metrics.group_gap(metrics.selection_rate, release, scores, groups)
    assert found.value == pytest.approx(rates[0] - rates[1])
    with pytest.raises(InputError, match="two groups"):
        metrics.group_gap(metrics.recall, release, scores, np.arange(4000))


def test_rows_of_one_person_count_as_one():
    labels, scores = drawn(200)
    labels, scores, whose = (np.repeat(each, 20, 0) for each in (labels, scores, np.arange(200)))
    release = released(labels, 4.0)
    for metric in (metrics.roc_auc, metrics.recall, metrics.log_loss, metrics.accuracy):
        rowwise, found = metric(release, scores), metric(release, scores, persons=whose)
        assert found.value == pytest.approx(rowwise.value)
        assert found.high - found.low > 2 * (rowwise.high - rowwise.low)


def test_a_calibrated_model_is_told_from_one_that_is_too_sure():
    labels, scores = drawn(5000)
    sure = scores**4 / (scores**4).sum(1, keepdims=True)
    release = released(labels, 3.0)
    assert metrics.calibration_error(release, scores).low == 0
    found = metrics.calibration_error(release, sure)
    own = metrics.calibration_error(released(labels, math.inf), sure)
    assert found.low > 0.02 and found.low < own.value < found.high


def test_a_fitted_model_is_asked_for_other_rows_only():
    stream = np.random.default_rng(0)
    X, y = stream.normal(size=(400, 2)), stream.integers(0, 2, 400)
    release = released(y, 4.0)
    clf = ldp.LabelDPClassifier(penalty=0.1).fit(X[:300], release[:300])
    found = metrics.roc_auc(release[300:], clf, X=X[300:])
    assert found == metrics.roc_auc(release[300:], clf.predict_proba(X[300:]))
    with pytest.raises(InputError, match="50 of 150 rows were used in the fit"):
        metrics.roc_auc(release[250:], clf, X=X[250:])
    with pytest.raises(InputError, match="another order"):
        metrics.roc_auc(release[300:], Reversed(clf), X=X[300:])


def test_a_row_without_a_group_is_named():
    # It was a TypeError: '<' not supported between instances.
    labels, scores = drawn(40)
    for missing in (None, np.nan, pd.NA):
        groups = np.array(["a", "b"] * 19 + ["a", missing], dtype=object)
        with pytest.raises(InputError, match="row 39 has no group"):
            metrics.group_gap(metrics.accuracy, released(labels, 4.0), scores, groups)


def test_a_metric_chooses_a_model():
    labels, scores = drawn(600)
    X = np.stack([scores[:, 1], np.random.default_rng(0).random(600)], 1)
    search = GridSearchCV(
        ldp.LabelDPClassifier(), {"penalty": [1e-3, 1e6]}, cv=3,
        scoring=lambda model, X, release: metrics.log_loss(release, model, X=X).value * -1,
    ).fit(X, released(labels, 4.0))  # fmt: skip
    assert search.best_params_ == {"penalty": 1e-3} and search.best_score_ < 0


class Reversed:
    """The same model with its classes in another order."""

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_[::-1]

    def predict_proba(self, X):
        return self.model.predict_proba(X)[:, ::-1]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.ones(9), "9 rows"),
        (np.ones((10, 3)) / 3, r"\(10, 2\)"),
        (np.full(10, np.nan), "row 0"),
        (np.full(10, 7), "got 7"),
        (np.full((10, 2), 2.0), "row 0 has sum 4, not 1"),
    ],
)
def test_scores_that_do_not_fit_are_refused(scores, said):
    release = released(np.arange(10) % 2, 1.0)
    with pytest.raises(InputError, match=said):
        metrics.log_loss(release, scores)


def test_help_shows_what_a_metric_takes():
    # functools.wraps shows the arguments of the inner function, which nobody can give.
    assert [*inspect.signature(metrics.recall).parameters][:2] == ["release", "scores"]
    assert "positive" in inspect.signature(metrics.recall).parameters


def test_columns_of_another_order_are_refused():
    labels, scores = drawn(100)
    release, frame = released(labels, 4.0), pd.DataFrame(scores)
    assert metrics.roc_auc(release, frame) == metrics.roc_auc(release, scores)
    with pytest.raises(InputError, match=r"\[1, 0\]"):
        metrics.roc_auc(release, frame[[1, 0]])


def test_predicted_classes_are_not_taken_for_probabilities():
    # With classes 1 and 0, in this order, a 1 as a probability would be class 0.
    labels = np.arange(100) % 2
    release = ldp.privatize(labels, classes=[1, 0], eps=math.inf, mechanism="none", seed=0)
    assert metrics.accuracy(release, labels).value == 1
    with pytest.raises(InputError, match="numbers"):
        metrics.roc_auc(release, labels)
    floats = ldp.privatize(labels, classes=[1.0, 0.0], eps=math.inf, mechanism="none", seed=0)
    with pytest.raises(InputError, match="column"):
        metrics.accuracy(floats, labels.astype(float))


@pytest.mark.parametrize("mechanism", ["unbiased_randomizer", "laplace"])
def test_errors_of_numbers(mechanism):
    # The mean squared distance to what is released is several times as large.
    stream = np.random.default_rng(0)
    true = stream.integers(0, 17, 4000).astype(float)
    predicted = (true + stream.normal(size=4000) * 3).clip(0, 16)
    held, values = [], []
    for seed in range(40):
        release = ldp.privatize(true, bounds=(0, 16), eps=2.0, mechanism=mechanism, seed=seed)
        found = metrics.mean_squared_error(release, predicted)
        held.append(found.low <= np.square(true - predicted).mean() <= found.high)
        values.append(found.value)
    assert sum(held) > 33
    error = np.std(values) / math.sqrt(40)
    assert abs(np.mean(values) - np.square(true - predicted).mean()) < 4 * error
    absolute = metrics.mean_absolute_error(release, predicted)
    if mechanism == "laplace":
        assert math.isnan(absolute.value) and "unbiased_randomizer" in absolute.reason
    else:
        assert absolute.low < np.abs(true - predicted).mean() < absolute.high
    better = metrics.difference(metrics.mean_squared_error, release, predicted, np.full(4000, 8.0))
    assert better.high < 0


def test_errors_of_numbered_classes():
    true = np.arange(3000) % 5
    release = released(true, 3.0, classes=5)
    for metric, value in ((metrics.mean_absolute_error, 1.2), (metrics.mean_squared_error, 2.0)):
        found = metric(release, np.full(3000, 2.0))
        assert found.low < value < found.high and found.high - found.low < 0.5
    named = ldp.privatize(["a", "b"] * 99, classes=["a", "b"], eps=3.0, seed=0)
    with pytest.raises(InputError, match="'a'"):
        metrics.mean_absolute_error(named, np.zeros(198))


def test_floats_that_are_classes_are_not_taken_for_probabilities():
    labels = np.tile([1, 2], 200)
    release = ldp.privatize(labels, classes=[1, 2], eps=4.0, seed=0)
    right = metrics.accuracy(release, labels)
    assert metrics.accuracy(release, labels.astype(float)) == right
    assert metrics.accuracy(release, labels - 1.0) == right  # probabilities of class 2
    for scores in (25.0 * labels, labels - 1.5, labels + np.nan):
        with pytest.raises(InputError, match="row 0"):
            metrics.accuracy(release, scores)
    with pytest.raises(InputError, match="probability of 2"):
        metrics.accuracy(release, np.ones(400))  # all of class 1, or surely of class 2?
    binary = ldp.privatize(labels - 1, classes=[0, 1], eps=4.0, seed=0)
    assert metrics.roc_auc(binary, labels - 1.0).value > 0.9  # there both readings agree
