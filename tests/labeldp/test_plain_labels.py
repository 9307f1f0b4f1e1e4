"""Arrays of labels that others randomised, or nobody: models and metrics that are told how."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as theirs
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.metrics import NEEDS
from labeldp.support.validate import InputError

STREAM = np.random.default_rng(0)
X = STREAM.normal(size=(6000, 2))
YES = X[:, 0] + STREAM.normal(size=6000) / 2 > 0.8
TRUE = np.where(YES, "yes", "no")
# A vendor's randomised response: of those without, 10 % are marked; of those with, 40 % are not.
VENDOR = ldp.designs.table([[0.9, 0.1], [0.4, 0.6]])
SAID = np.where(STREAM.random(6000) < np.where(YES, 0.6, 0.1), "yes", "no")
AS_IS = ldp.designs.identity()
FIT, TEST = slice(4000), slice(4000, None)
PLAIN = ldp.LabelDPClassifier(penalty=0.01, design=AS_IS)
CLF = ldp.LabelDPClassifier(penalty=0.01, design=VENDOR).fit(X[FIT], SAID[FIT])
SCORES = CLF.predict_proba(X[TEST])
RELEASE = ldp.Release.from_answers(SAID[TEST], VENDOR)


def test_a_known_confusion_matrix_is_taken_back_out():
    own = ldp.Release.from_answers(SAID[FIT], VENDOR)
    by_release = ldp.LabelDPClassifier(penalty=0.01).fit(X[FIT], own)
    assert np.array_equal(by_release.predict_proba(X[TEST]), SCORES)
    naive = clone(PLAIN).fit(X[FIT], SAID[FIT])
    right, taken_for_true = ((each.predict(X[TEST]) == TRUE[TEST]) for each in (CLF, naive))
    assert right.mean() > taken_for_true.mean() + 0.02
    # The score is the accuracy on true labels, not on those that are noisy.
    assert CLF.score(X[TEST], SAID[TEST]) == pytest.approx(right.mean(), abs=0.03)


@pytest.mark.parametrize("metric", [m for m, needs in NEEDS.items() if needs != "numbers"])
def test_a_metric_of_an_array_is_that_of_its_release(metric):
    found, expected = metric(SAID[TEST], SCORES, design=VENDOR), metric(RELEASE, SCORES)
    assert str(found) == str(expected)
    with pytest.raises(InputError, match="a release of classes is needed, got ndarray"):
        metric(SAID[TEST], SCORES)


def test_differences_of_arrays_are_those_of_releases():
    accuracy, (labels, told) = ldp.metrics.accuracy, (SAID[TEST], {"design": VENDOR})
    for compare, other in (
        (ldp.metrics.difference, [SCORES, SCORES[:, ::-1]]),
        (ldp.metrics.group_gap, [SCORES, X[TEST, 1] > 0]),
    ):
        assert compare(accuracy, labels, *other, **told) == compare(accuracy, RELEASE, *other)
    # Brier's score of two classes is half that of more: one model was twice as bad as its like.
    three = clone(PLAIN).fit(X[:300], ["other", *TRUE[1:300]])
    with pytest.raises(InputError, match=r"same classes, got .*'other'.*column for each class"):
        ldp.metrics.difference(
            ldp.metrics.brier, TRUE[TEST], three, SCORES, X=X[TEST], design=AS_IS
        )


def test_errors_are_of_classes_that_are_numbers():
    ratings = ldp.designs.forced_response({1: 0.1, 2: 0.1, 3: 0.1})
    found = ldp.metrics.mean_absolute_error([1, 2, 3] * 99, [2] * 297, design=ratings).value
    assert found == pytest.approx(2 / 3)


def test_numbers_are_taken_to_the_last_bit_but_one():
    y = 1e6 + X @ [3.0, -2.0] + STREAM.normal(size=6000)
    model = ldp.LabelDPRegressor(LinearRegression(), design=AS_IS).fit(X[FIT], y[FIT])
    expected = LinearRegression().fit(X[FIT], y[FIT])
    assert model.predict(100 * X) == pytest.approx(expected.predict(100 * X), rel=1e-12)
    assert model.score(X[TEST], y[TEST]) == pytest.approx(expected.score(X[TEST], y[TEST]))
    found = ldp.metrics.mean_squared_error(y[TEST], model, X=X[TEST], design=AS_IS)
    error = theirs.mean_squared_error(y[TEST], expected.predict(X[TEST]))
    assert found.value == pytest.approx(error) and found.low < error < found.high
    with pytest.raises(InputError, match="were used in the fit"):
        ldp.metrics.mean_squared_error(y[FIT], model, X=X[FIT], design=AS_IS)


def test_tools_of_scikit_learn_take_arrays():
    for tool in (
        VotingClassifier([("a", PLAIN)], voting="soft"), StackingClassifier([("a", PLAIN)]),
        CalibratedClassifierCV(PLAIN, cv=2), BaggingClassifier(PLAIN, 2),
        TunedThresholdClassifierCV(PLAIN, cv=2), GridSearchCV(PLAIN, {"penalty": [1, 0.01]}, cv=2),
    ):  # fmt: skip
        assert tool.fit(X[:600], TRUE[:600]).score(X[TEST], TRUE[TEST]) > 0.8
    for model, y, more in ((PLAIN, TRUE, 0), (clone(CLF), SAID, 0.09)):  # it is noisy labels' own
        score = partial(cross_val_score, model, X[:2000], y[:2000], cv=2)
        assert score().mean() == pytest.approx(score(scoring="accuracy").mean() + more, abs=0.03)


def test_a_class_that_is_not_there_and_one_that_no_model_knows():
    model = clone(PLAIN).fit(X[FIT], TRUE[FIT])
    assert model.score(X[:9], ["other"] * 9) == 0
    no = np.full(50, "no")
    expected = (model.predict(X[:50]) == no).mean()
    assert model.score(X[:50], no) == pytest.approx(expected)
    assert ldp.metrics.accuracy(no, model, X=X[:50], design=AS_IS).value == pytest.approx(expected)


def test_rows_of_pandas_belong_together_by_their_index():
    frame, labels = pd.DataFrame(X), pd.Series(SAID)
    mixed = frame.sample(frac=1, random_state=0)
    with pytest.raises(InputError, match=r"y has its rows in another order.*y\.loc\[X\.index\]"):
        clone(CLF).fit(mixed, labels)
    expected = clone(CLF).fit(mixed, labels[mixed.index]).predict_proba(X)
    other = clone(CLF).fit(mixed, labels[mixed.index].to_numpy())  # an index on one side only
    assert np.array_equal(other.predict_proba(X), expected)


@pytest.mark.parametrize("kind", [ldp.LabelDPClassifier, ldp.LabelDPRegressor])
def test_a_model_of_an_older_file_has_no_design(kind):
    model = kind.__new__(kind)
    model.__setstate__({key: value for key, value in vars(kind()).items() if key != "design"})
    assert clone(model).design is None


def test_a_pipeline_is_refused_the_rows_of_its_fit():
    model = make_pipeline(StandardScaler(), clone(PLAIN)).fit(X[FIT], TRUE[FIT])
    with pytest.raises(InputError, match="4,000 of 4,000 rows were used in the fit"):
        ldp.metrics.accuracy(TRUE[FIT], model, X=X[FIT], design=AS_IS)
    with pytest.raises(ValueError, match="0 sample"):
        ldp.metrics.accuracy(RELEASE[:0], model, X=X[:0])


def test_a_release_of_labels_as_they_are(tmp_path):
    release = ldp.Release.from_answers([3, 1, 3], AS_IS)
    release.save(tmp_path / "r.parquet")
    read = ldp.load_release(tmp_path / "r.parquet")
    assert read.classes == [1, 3] and read.outputs.tolist() == [1, 0, 1]
    assert np.isinf(read.eps_spent) and "eps=inf is no privacy" in read.summary()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: ldp.LabelDPClassifier().fit(X, SAID), "got ndarray: true labels.*design="),
        (lambda: PLAIN.fit(X[TEST], RELEASE), "got a release.*leave it out"),
        (lambda: ldp.LabelDPClassifier(design="warner").fit(X, SAID), r"designs\.warner"),
        (lambda: CLF.fit(X[:3], ["no", "maybe", "yes"]), "row 1: the answer is none"),
        (lambda: PLAIN.fit(X[:3], ["no", None, "yes"]), "row 1: the label is missing"),
        (lambda: PLAIN.fit(X[:3], ["no"] * 3), r"two classes.*identity\(classes\)"),
        (lambda: PLAIN.fit(X, X[:, 0]), "continuous.*LabelDPRegressor"),
        (lambda: PLAIN.fit(X[:2], [pd.Timestamp("2001-02-03")] * 2), "or finite numbers, got Time"),
        (lambda: ldp.LabelDPRegressor(design=VENDOR).fit(X, SAID), "identity.*got table"),
        (lambda: ldp.LabelDPRegressor(design=AS_IS).fit(X, SAID), "must be numbers"),
        (lambda: ldp.LabelDPRegressor(design=AS_IS).fit(X[:2], [1, np.inf]), "row 1.*no finite"),
        (lambda: ldp.privatize(SAID, ["no", "yes"], design=AS_IS), r"identity\(classes\)"),
    ],
)
def test_what_fits_no_design_is_refused_unseen(use, said):
    with pytest.raises(InputError, match=said) as caught:
        use()
    assert not re.search("maybe|2001|\\n", str(caught.value))
