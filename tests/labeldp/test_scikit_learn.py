"""A release in the place of labels: which tools of scikit-learn take it; weights of rows."""

import pickle
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectKBest, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.support.validate import InputError

STREAM = np.random.default_rng(0)
X = STREAM.normal(size=(240, 3))
Y = (X[:, 0] > -0.5).astype(int) + (X[:, 0] > 0.5)
RELEASE = ldp.privatize(Y, [0, 1, 2], eps=5.0, seed=0)
CLF = ldp.LabelDPClassifier(penalty=0.01)
SCORE = partial(cross_val_score, scoring=ldp.released_accuracy, error_score="raise")
PENALTIES = {"penalty": [0.01, 100.0]}


def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        asked = LogisticRegression().set_fit_request(sample_weight=True)
        steps = make_pipeline(StandardScaler(), asked)
        return ldp.LabelDPClassifier(steps, max_rounds=2).fit(X, RELEASE).score(X, RELEASE)


def selected():
    scoring = ldp.released_accuracy
    steps = SequentialFeatureSelector(CLF, n_features_to_select=1, scoring=scoring, cv=3)
    return float(steps.fit(X, RELEASE).get_support()[0])


def searched(search):
    found = search.fit(X, RELEASE)
    assert found.best_params_ == {"penalty": 0.01}
    return found.best_score_


WORKS = {
    "cross_val_score": lambda: SCORE(CLF, X, RELEASE, cv=3).mean(),
    "GridSearchCV": lambda: searched(GridSearchCV(CLF, PENALTIES)),
    "RandomizedSearchCV": lambda: searched(RandomizedSearchCV(CLF, PENALTIES, n_iter=2)),
    "learning_curve": lambda: learning_curve(CLF, X, RELEASE, train_sizes=[100])[2].mean(),
    "Pipeline": lambda: make_pipeline(StandardScaler(), CLF).fit(X, RELEASE).score(X, RELEASE),
    "clone": lambda: clone(clone(CLF).fit(X, RELEASE)).fit(X, RELEASE).score(X, RELEASE),
    "pickle": lambda: (
        pickle.loads(pickle.dumps(clone(CLF).fit(X, RELEASE))).score(
            X, pickle.loads(pickle.dumps(RELEASE))
        )
    ),
    "SequentialFeatureSelector": selected,
    "permutation_importance": lambda: permutation_importance(
        clone(CLF).fit(X, RELEASE), X, RELEASE
    ).importances_mean[0] * 2,
    "enable_metadata_routing": routed,
    "inside": lambda: (
        ldp.LabelDPClassifier(BaggingClassifier(GaussianNB()), max_rounds=1)
        .fit(X, RELEASE)
        .score(X, RELEASE)
    ),
}  # fmt: skip
BY_RELEASE = {
    "cross_val_predict": lambda: cross_val_predict(CLF, X, RELEASE, method="predict_proba"),
    "HalvingGridSearchCV": lambda: HalvingGridSearchCV(CLF, PENALTIES).fit(X, RELEASE),
    "StratifiedKFold": lambda: SCORE(CLF, X, RELEASE, cv=StratifiedKFold(3)),
    "BaggingClassifier": lambda: BaggingClassifier(CLF).fit(X, RELEASE),
    "RandomForestClassifier": lambda: RandomForestClassifier(2).fit(X, RELEASE),
    "RFE": lambda: RFE(CLF).fit(X, RELEASE),
    "SelectKBest": lambda: make_pipeline(SelectKBest(k=1), CLF).fit(X, RELEASE),
}
BY_SCIKIT_LEARN = {
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(CLF).fit(X, RELEASE),
    "VotingClassifier": lambda: VotingClassifier([("a", CLF)]).fit(X, RELEASE),
    "StackingClassifier": lambda: StackingClassifier([("a", CLF)]).fit(X, RELEASE),
    "TunedThresholdClassifierCV": lambda: TunedThresholdClassifierCV(CLF).fit(X, RELEASE),
    "accuracy_score": lambda: accuracy_score(RELEASE, Y),
}


@pytest.mark.parametrize("tool", WORKS)
def test_a_tool_that_passes_rows_on_takes_a_release(tool):
    assert WORKS[tool]() > 0.75


@pytest.mark.parametrize("tool", BY_RELEASE)
def test_a_tool_that_looks_at_labels_is_refused_with_what_takes_a_release(tool):
    with pytest.raises(InputError, match=r"LabelDPClassifier.*released_accuracy") as refused:
        BY_RELEASE[tool]()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("tool", BY_SCIKIT_LEARN)
def test_a_tool_that_asks_for_the_kind_of_labels_is_told_none(tool):
    with pytest.raises(ValueError, match="unknown"):
        BY_SCIKIT_LEARN[tool]()


@pytest.mark.parametrize(
    "use",
    [np.unique, lambda y: y.astype(float), lambda y: y == 1, lambda y: set(y), lambda y: bool(y[0]),
     lambda y: [0.1, 0.2][y[0]], lambda y: f"{y[0]:d}", lambda y: y + 1],
)  # fmt: skip
def test_the_array_of_a_release_says_nothing_of_a_label(use):
    # It held the posterior, which an estimator could take for labels.
    with pytest.raises((InputError, TypeError)):
        use(np.asarray(RELEASE))


def test_numbers_are_refused_by_other_tools_too():
    numbers = ldp.privatize(X[:, 0], bounds=(-3, 3), eps=5.0, seed=0)
    model = make_pipeline(StandardScaler(), ldp.LabelDPRegressor())
    assert cross_val_score(model, X, numbers, error_score="raise").shape == (5,)
    with pytest.raises(InputError, match="LabelDPRegressor"):
        BaggingRegressor(ldp.LabelDPRegressor()).fit(X, numbers)


def test_probabilities_out_of_fold():
    steps = make_pipeline(StandardScaler(), CLF)
    found = ldp.cross_val_predict(steps, X, RELEASE)
    assert found.shape == (240, 3)
    assert np.allclose(found.sum(1), 1)
    assert (found.argmax(1) == Y).mean() > 0.75
    numbers = ldp.privatize(X[:, 0], bounds=(-3, 3), eps=5.0, seed=0)
    estimates = ldp.cross_val_predict(ldp.LabelDPRegressor(), X, numbers)
    assert np.corrcoef(estimates, X[:, 0])[0, 1] > 0.8
    with pytest.raises(InputError, match="at least 10 rows, got 9"):
        ldp.cross_val_predict(CLF, X[:9], RELEASE[:9])
    with pytest.raises(InputError, match="takes a release as its second argument, got ndarray"):
        ldp.cross_val_predict(CLF, X, Y)


def test_no_row_and_no_row_of_its_person_is_in_the_fit_that_predicts_it():
    # Useless features that name persons: any model that saw a person knows the other rows.
    stream = np.random.default_rng(0)
    whose = np.repeat(np.arange(60), 4)
    labels = stream.integers(0, 2, 60)[whose]
    features = np.eye(60)[whose]
    release = ldp.privatize(labels, [0, 1], eps=8.0, seed=0)
    model = ldp.LabelDPClassifier(penalty=1e-3)
    rows = ldp.cross_val_predict(model, features, release).argmax(1)
    persons = ldp.cross_val_predict(model, features, release, persons=whose).argmax(1)
    assert (rows == labels).mean() > 0.9
    assert (persons == labels).mean() < 0.7


@pytest.mark.parametrize(
    "estimator",
    [None, GaussianNB(), make_pipeline(StandardScaler(), GaussianNB()), "boosted_trees", "mlp"],
    ids=["linear", "by_em", "pipeline", "boosted_trees", "mlp"],
)  # fmt: skip
def test_weights_choose_whose_labels_are_learnt(estimator):
    # In half of the rows the label is the other way round; their weight is small.
    stream = np.random.default_rng(1)
    features = stream.normal(size=(400, 1))
    small = np.arange(400) % 2 == 0
    labels = ((features[:, 0] > 0) ^ small).astype(int)
    release = ldp.privatize(labels, [0, 1], eps=6.0, seed=0)
    clf = ldp.LabelDPClassifier(estimator, penalty=1e-3, epochs=120, max_rounds=2)
    for weights, right in (
        (np.where(small, 0.01, 5.0), ~small),
        (np.where(small, 5.0, 0.0), small),
    ):
        fitted = clone(clf).fit(features, release, sample_weight=weights)
        assert (fitted.predict(features) == labels)[right].mean() > 0.9


def test_weights_reach_the_regressor():
    numbers = ldp.privatize(
        np.where(np.arange(240) % 2, 2.0, -2.0), bounds=(-3, 3), eps=8.0, seed=0
    )
    weights = np.where(np.arange(240) % 2, 1.0, 0.0)
    for model in (ldp.LabelDPRegressor(), ldp.LabelDPRegressor(Ridge())):
        assert model.fit(X, numbers, weights).predict(X).mean() > 1.5
    with pytest.raises(InputError, match="regressor whose fit takes sample_weight, got KNeigh"):
        ldp.LabelDPRegressor(KNeighborsRegressor()).fit(X, numbers, weights)


def test_weights_make_a_skewed_survey_whole():
    # Of the 30 % who would say yes half as many answered: weights repair it.
    stream, inside, plain = np.random.default_rng(2), [], []
    for seed in range(100):
        yes = stream.random(2000) < 0.3
        here = stream.random(2000) < np.where(yes, 0.4, 0.8)
        release = ldp.privatize(yes[here].astype(int), [0, 1], eps=2.0, seed=seed)
        weights = np.where(here, np.where(yes, 2.5, 1.25), 0)[here]
        share = ldp.class_shares(release, sample_weight=weights)[1]
        inside.append(share.low <= 0.3 <= share.high)
        plain.append(ldp.class_shares(release)[1].value)
    assert np.mean(inside) > 0.9
    assert np.mean(plain) < 0.22


def test_weights_are_no_numbers_of_rows():
    weights = 0.5 + np.arange(240) % 4
    one = ldp.class_shares(RELEASE, sample_weight=weights)[0]
    other = ldp.class_shares(RELEASE, sample_weight=100 * weights)[0]
    assert (one.low, one.high) == pytest.approx((other.low, other.high))
    fitted = clone(CLF).fit(X[:120], RELEASE[:120])
    held = (X[120:], RELEASE[120:])
    alike = ldp.estimate_accuracy(fitted, *held, sample_weight=np.full(120, 7.0))
    assert alike == ldp.estimate_accuracy(fitted, *held)
    wrong = np.zeros(120)
    wrong[fitted.predict(X[120:]) != Y[120:]] = 1
    assert ldp.estimate_accuracy(fitted, *held, sample_weight=wrong).value < 0.2


@pytest.mark.parametrize(
    ("weights", "remedy"),
    [
        ([1.0] * 239, "240 numbers, one for each row"),
        ([["a"]] * 240, "240 numbers"),
        ([-1.0] * 240, "got -1 in row 0"),
        ([float("nan")] * 240, "got nan in row 0"),
        ([0.0] * 240, "got zero for all"),
    ],
)
def test_wrong_weights_are_refused(weights, remedy):
    for use in (partial(clone(CLF).fit, X), ldp.class_shares):
        with pytest.raises(InputError, match=f"sample_weight must be.*{remedy}"):
            use(RELEASE, sample_weight=weights)
