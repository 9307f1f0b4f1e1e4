"""The classifier: what it takes, what it learns, and that scikit-learn accepts it."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import labeldp as ldp
from labeldp.support.validate import InputError

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
RELEASE = ldp.privatize(NAMES[Y], classes=NAMES.tolist(), eps=3.0, seed=0)

with torch.random.fork_rng():
    torch.manual_seed(0)
    NETWORK = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


PLAIN = ldp.designs.identity()
AS_THEY_ARE = dict.fromkeys(
    ["check_classifier_data_not_an_array", "check_fit2d_predict1d",
     "check_sample_weights_not_an_array"],
    "features go to another estimator as they are, so that it may take texts or images: it is that "
    "one which refuses a wrong shape, in its own words, and what is an array only when asked",
)  # fmt: skip
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "weights are those of a survey, with mean 1, and no numbers of rows"
    )
}


@pytest.mark.parametrize(
    ("own", "failed"),
    [
        (ldp.LabelDPClassifier(penalty=1e-3, design=PLAIN), {}),
        (ldp.LabelDPClassifier(GaussianNB(), penalty=1e-3, max_rounds=1, design=PLAIN),
         AS_THEY_ARE),
        (ldp.LabelDPRegressor(design=PLAIN), WEIGHTS),
        (ldp.LabelDPRegressor(Ridge(), design=PLAIN), WEIGHTS),
    ],
    ids=["linear", "by_em", "ridge", "any_regressor"],
)  # fmt: skip
def test_scikit_learns_own_checks(own, failed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(own, expected_failed_checks=failed, on_fail="raise")
    names = {
        status: {each["check_name"] for each in found if each["status"] == status}
        for status in ("passed", "xfail", "skipped")
    }
    assert names["xfail"] == set(failed)
    assert names["skipped"] == {"check_array_api_input"}  # unless SCIPY_ARRAY_API is set
    assert len(names["passed"]) > 45


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5),
        make_pipeline(StandardScaler(), LogisticRegression()),
        "boosted_trees",
        "mlp",
        NETWORK,
    ],
    ids=["linear", "boosting", "pipeline", "boosted_trees", "mlp", "module"],
)
def test_learns_from_a_release(estimator):
    clf = ldp.LabelDPClassifier(estimator, epochs=600, max_rounds=2).fit(X, RELEASE)
    assert clf.classes_.tolist() == NAMES.tolist()
    probabilities = clf.predict_proba(X)
    assert np.allclose(probabilities.sum(1), 1)
    assert (clf.predict(X) == NAMES[Y]).mean() > 0.8


@pytest.mark.parametrize("estimator", [None, GaussianNB(), "mlp"], ids=["linear", "by_em", "mlp"])
def test_classes_are_predicted_in_parts(estimator, monkeypatch):
    # All rows at once hold rows x K numbers; the last part is a short one.
    clf = ldp.LabelDPClassifier(estimator, epochs=5, penalty=1e-3, max_rounds=1).fit(X, RELEASE)
    whole = clf.classes_[clf.predict_proba(X).argmax(1)]
    sizes, real = [], type(clf)._probabilities
    monkeypatch.setattr(
        type(clf), "_probabilities", lambda self, X: sizes.append(len(X)) or real(self, X)
    )
    monkeypatch.setattr("labeldp.classifier.PROBABILITIES", 3 * 40)
    assert (clf.predict(X) == whole).all()
    assert sizes == [40, 40, 40, 30]


def test_data_frames():
    columns = ["a", "b", "c", "d"]
    pandas = ldp.LabelDPClassifier(penalty=0.01).fit(pd.DataFrame(X, columns=columns), RELEASE)
    polars = ldp.LabelDPClassifier(penalty=0.01).fit(pl.DataFrame(X, schema=columns), RELEASE)
    assert pandas.feature_names_in_.tolist() == columns
    assert np.array_equal(
        pandas.predict(pd.DataFrame(X, columns=columns)),
        polars.predict(pl.DataFrame(X, schema=columns)),
    )


@pytest.mark.parametrize("classes", [["no", "yes"], [1, 2], [1, 0], [False, True]])
def test_class_weights_go_by_name(classes):
    # Numbers of classes were swapped where classes are [1, 0], and names were a riddle.
    features = np.linspace(-1, 1, 400)[:, None]
    rare, often = classes
    release = ldp.privatize(np.where(features[:, 0] > 0.6, rare, often), classes, 3.0, seed=0)

    def share_of_rare(weights):
        inner = make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights))
        fitted = ldp.LabelDPClassifier(inner).fit(features, release)
        return (fitted.predict(features) == rare).mean()

    plain = share_of_rare(None)
    assert share_of_rare({rare: 9}) > plain > share_of_rare({rare: 1, often: 9})
    assert share_of_rare("balanced") > plain
    with pytest.raises(InputError, match=r"class_weight must weigh .* got 7"):
        share_of_rare({7: 1})


@pytest.mark.parametrize("name", ["linear", "boosted_trees", "mlp"])
def test_what_another_library_set_in_torch_changes_no_fit(name):
    release = ldp.privatize(Y, [0, 1, 2], eps=3.0, seed=0)

    def fitted():
        return ldp.LabelDPClassifier(name, epochs=2).fit(X, release).predict_proba(X)

    expected = fitted()
    with torch.inference_mode():
        assert np.array_equal(fitted(), expected)
    try:
        torch.set_default_dtype(torch.float16)
        assert np.abs(fitted() - expected).max() < 1e-3
    finally:
        torch.set_default_dtype(torch.float32)


def test_sparse_rows_of_any_kind_go_to_another_estimator():
    release = ldp.privatize(Y, [0, 1, 2], eps=3.0, seed=0)
    clf = ldp.LabelDPClassifier(LogisticRegression(), max_rounds=2)
    dense = clf.fit(scipy.sparse.csr_matrix(X), release).predict_proba(X)
    for kind in (scipy.sparse.coo_matrix, scipy.sparse.dia_array):
        found = clf.fit(kind(X), release).predict_proba(kind(X))
        assert np.abs(found - dense).max() < 1e-6


def test_a_missing_cell_of_pandas_is_named():
    frame = pd.DataFrame({"age": pd.Series(range(150), dtype=object), "x": 1.0})
    frame.loc[3, "age"] = pd.NA
    release = ldp.privatize(Y, [0, 1, 2], eps=3.0, seed=0)
    with pytest.raises(InputError, match=r"pd\.NA in row 3, column age"):
        ldp.LabelDPClassifier().fit(frame, release)


def test_a_series_in_another_order_is_refused():
    # Weights, groups and persons went to the rows of others: a share of .48 was .16.
    labels = pd.Series(np.tile(["no", "yes"], 100), index=[f"p{n}" for n in range(200)])
    release = ldp.privatize(labels, ["no", "yes"], 3.0, row_ids=labels.index, seed=0)
    frame = pd.DataFrame({"x": np.arange(200.0)}, index=labels.index)
    score = pd.Series(np.linspace(0, 1, 200), index=labels.index)
    mixed = (score > 0.5).astype(float).sample(frac=1, random_state=0)
    metrics = ldp.metrics
    calls = [
        lambda: ldp.LabelDPClassifier().fit(frame, release, sample_weight=mixed),
        lambda: ldp.class_shares(release, sample_weight=mixed),
        lambda: ldp.class_shares(release, persons=mixed),
        lambda: ldp.cross_val_predict(ldp.LabelDPClassifier(), frame, release, persons=mixed),
        lambda: metrics.accuracy(release, mixed),
        lambda: metrics.accuracy(release, score, persons=mixed),
        lambda: metrics.lift(release, score, persons=mixed),
        lambda: metrics.confusion_matrix(release, score, persons=mixed),
        lambda: metrics.difference(metrics.accuracy, release, score, score, persons=mixed),
        lambda: metrics.group_gap(metrics.accuracy, release, score, mixed),
        lambda: ldp.privatize(labels, ["no", "yes"], 1.0, persons=mixed, ledger=ldp.Ledger()),
        lambda: ldp.privatize(labels, ["no", "yes"], 1.0, row_ids=mixed.index.to_series()),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"row 0 is p\d+ in \w+ and p0 in .*reset_index"):
            call()
    metrics.group_gap(metrics.accuracy, release, score, mixed.reset_index(drop=True))


def test_scikit_learns_tools():
    clf = ldp.LabelDPClassifier(penalty=0.01)
    scores = cross_val_score(clf, X, RELEASE, scoring=ldp.released_accuracy, cv=3)
    assert scores.shape == (3,)
    steps = make_pipeline(StandardScaler(), clone(clf))
    search = GridSearchCV(
        steps, {"labeldpclassifier__penalty": [0.01, 10.0]}, scoring=ldp.released_accuracy, cv=3
    ).fit(X[::2], RELEASE[::2])
    assert search.best_params_ == {"labeldpclassifier__penalty": 0.01}
    assert ldp.estimate_accuracy(search, X[1::2], RELEASE[1::2]).high > 0.7


def test_refuses_what_is_no_release():
    for labels in (Y, NAMES[Y], Y.tolist(), RELEASE.log_likelihood()):
        with pytest.raises(InputError, match="fit takes a release as its second argument"):
            ldp.LabelDPClassifier().fit(X, labels)
    with pytest.raises(InputError, match="150 rows of features, but 149 releases"):
        ldp.LabelDPClassifier().fit(X, RELEASE[1:])
    with pytest.raises(InputError, match="takes sample_weight"):
        ldp.LabelDPClassifier(LinearRegression).fit(X, RELEASE)
    with pytest.raises(InputError, match="estimator must be one of linear, mlp"):
        ldp.LabelDPClassifier("tree").fit(X, RELEASE)


def test_regressor():
    stream = np.random.default_rng(0)
    features = stream.normal(size=(5000, 3))
    values = 5 + features @ [1.0, -1.0, 0.0]
    release = ldp.privatize(values, bounds=(0, 10), eps=2.0, seed=0)
    model = ldp.LabelDPRegressor().fit(features, release)
    assert np.square(model.predict(features) - values).mean() < 0.2 * values.var()
    with pytest.raises(InputError, match="fit takes a release"):
        ldp.LabelDPRegressor().fit(features, values)
    with pytest.raises(InputError, match="use LabelDPClassifier"):
        ldp.LabelDPRegressor().fit(X, RELEASE)
    with pytest.raises(InputError, match="a release of classes is needed, got one of numbers"):
        ldp.estimate_accuracy(model, features, release)


def test_a_regressor_is_scored_on_its_own_rows_alone():
    # One row was compared with all releases, and a frame in another order row for row.
    frame = pd.DataFrame({"x": np.arange(100.0)})
    release = ldp.privatize(frame.x, bounds=(0, 100), eps=20.0, seed=1)
    model = ldp.LabelDPRegressor().fit(frame, release)
    assert model.score(frame, release) > -50
    with pytest.raises(InputError, match="1 rows of features, but 100 releases"):
        model.score(frame[:1], release)
    with pytest.raises(InputError, match="reset_index"):
        model.score(frame[::-1], release)
    with pytest.raises(InputError, match="score takes a release as its second argument, got list"):
        model.score(frame, [1.0, 2.0])


@pytest.mark.parametrize("name", ["rr", "rappor", "local_hashing"])
def test_targets_of_many_classes_are_made_for_each_batch(name, monkeypatch):
    # N x K numbers would not fit into memory; batch by batch they must be the same numbers.
    release = ldp.privatize(Y, classes=[0, 1, 2], eps=2.0, mechanism=name, seed=0)
    looked_up = ldp.LabelDPClassifier("mlp", epochs=1).fit(X, release)
    monkeypatch.setattr("labeldp.network.LOOKED_UP", 0)
    again = replace(release)
    made = ldp.LabelDPClassifier("mlp", epochs=1).fit(X, again)
    assert np.allclose(made.predict_proba(X), looked_up.predict_proba(X), atol=1e-6)
    assert not {"outputs", "stored"} & set(vars(again))


@pytest.mark.parametrize("penalty", ["x", -1, float("nan"), True])
@pytest.mark.parametrize("estimator", [None, GaussianNB()])
def test_a_wrong_penalty_is_refused(penalty, estimator):
    with pytest.raises(InputError, match="penalty must be a number >= 0, got"):
        ldp.LabelDPClassifier(estimator, penalty=penalty).fit(X, RELEASE)


def test_classes_may_be_texts_and_numbers():
    # NumPy made texts of all, so that the model predicted what no release knows.
    names = [1, 2.5, "refused"]
    release = ldp.privatize([names[y] for y in Y], classes=names, eps=3.0, seed=0)
    for estimator in (None, GaussianNB()):
        model = ldp.LabelDPClassifier(estimator).fit(X[::2], release[::2])
        assert model.classes_.tolist() == names
        assert ldp.estimate_accuracy(model, X[1::2], release[1::2]).high > 0.7


def test_penalties_of_numpy_are_taken():
    # A search over np.logspace or a list of np.float32 gives them.
    for penalty in (np.float32(0.1), np.int64(1), 0):
        assert ldp.LabelDPClassifier(penalty=penalty).fit(X, RELEASE).score(X, RELEASE) > 0.5
    two = np.int64(2)
    assert ldp.LabelDPClassifier("mlp", epochs=two).fit(X, RELEASE).predict(X[:1]).shape == (1,)
    assert ldp.LabelDPClassifier(GaussianNB(), max_rounds=two).fit(X, RELEASE).score(X, RELEASE)


@pytest.mark.parametrize("estimator", [None, "boosted_trees", "mlp"])
def test_a_loss_that_is_no_number_for_each_row_is_refused(estimator, monkeypatch, tmp_path):
    # Its mean would be divided by the batch, or added up, once more: a fit to something else.
    (tmp_path / "mean_losses.py").write_text(
        "from labeldp.losses import PlainCrossEntropy\n\n\n"
        "class Mean(PlainCrossEntropy):\n    name = 'mean'\n\n"
        "    def __call__(self, logits, targets):\n"
        "        return super().__call__(logits, targets).mean()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    labels = ldp.privatize(NAMES[Y], classes=NAMES.tolist(), eps=3.0, mechanism="rr", seed=1)
    with pytest.raises(InputError, match="must return the loss of each example"):
        ldp.LabelDPClassifier(estimator, loss="mean_losses.Mean").fit(X, labels)


def wrapped():
    """Ways to wrap a fitted model, from scikit-learn and from a user."""

    class Own:
        def __init__(self, model):
            self.models = {"best": [model]}

        def predict(self, features):
            return self.models["best"][0].predict(features)

    class Closure:
        def __init__(self, model):
            self.predict = lambda features: model.predict(features)

    yield lambda model, X, release: FrozenEstimator(model)
    yield lambda model, X, release: FixedThresholdClassifier(FrozenEstimator(model)).fit(X, Y[:60])
    yield lambda model, X, release: Pipeline([("all", "passthrough"), ("last", model)])
    yield lambda model, X, release: Own(model)
    yield lambda model, X, release: Closure(model)
    halving = partial(HalvingGridSearchCV, min_resources=30)
    for search in (GridSearchCV, partial(RandomizedSearchCV, n_iter=1), halving):
        yield lambda model, X, release, search=search: search(
            clone(model), {"penalty": [1e-6]}, cv=KFold(2)
        ).fit(X, release)


@pytest.mark.parametrize("wrap", wrapped())
def test_fitted_rows_are_refused_however_the_model_is_wrapped(wrap):
    # Useless features had an accuracy of 1 on the rows that they were fitted to.
    stream = np.random.default_rng(0)
    X, labels = stream.normal(size=(60, 40)), stream.integers(0, 2, 60)
    release = ldp.privatize(labels, [0, 1], eps=6.0, seed=0)
    model = ldp.LabelDPClassifier(penalty=1e-6).fit(X, release)
    with pytest.raises(InputError, match="60 of 60 rows were used in the fit"):
        ldp.estimate_accuracy(wrap(model, X, release), X, release)


def test_a_frame_of_other_rows_is_refused():
    ids = [f"p{number}" for number in range(60)]
    release = ldp.privatize([0, 1] * 30, [0, 1], 6.0, row_ids=ids, seed=0)
    X = pd.DataFrame({"x": [0.0, 1.0] * 30}, index=ids)
    fitted = ldp.LabelDPClassifier().fit(X, release)
    with pytest.raises(InputError, match="another order"):
        ldp.released_accuracy(fitted, X[::-1], release)
    ldp.LabelDPClassifier().fit(X.reset_index(drop=True), release)  # counted: by position
    counted = ldp.privatize([0, 1] * 30, [0, 1], 6.0, row_ids=range(1, 61), seed=0)
    table = X.reset_index(drop=True)  # parts of it have other whole numbers than the release
    assert len(cross_val_score(ldp.LabelDPClassifier(), table, counted, error_score="raise")) == 5
    for index in ([f"q{number}" for number in range(60)], [*ids[1:], "q"], ids[::-1]):
        with pytest.raises(InputError, match="than the release: row 0 is"):
            ldp.LabelDPClassifier().fit(X.set_axis(index), release)


@pytest.mark.parametrize("model", ["linear", "boosted_trees", "mlp"])
@pytest.mark.parametrize(("unit", "origin"), [(1e-14, 0.0), (1e-170, 0.0), (1.0, 1.7e9)])
def test_unit_and_origin_of_a_column_do_not_matter(model, unit, origin):
    # 1e-14 counted as constant, and seconds since 1970 became one number in float32.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2))
    y = np.where(x[:, 0] > 0, "yes", "no")
    release = ldp.privatize(y, ["no", "yes"], 4.0, seed=0)
    other = origin + unit * x
    right = [
        (ldp.LabelDPClassifier(model).fit(each[:1000], release[:1000]).predict(each[1000:])
         == y[1000:]).mean()
        for each in (x, other)
    ]  # fmt: skip
    assert right[1] > right[0] - 0.02 and right[0] > 0.9
