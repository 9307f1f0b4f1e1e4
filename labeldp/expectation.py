"""Any scikit-learn classifier that takes sample weights, fitted to a release by EM."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils.validation import has_fit_parameter

from labeldp.names import as_python
from labeldp.support.validate import InputError

FOLDS = 3
SUCH = {
    "classifier": "LogisticRegression or HistGradientBoostingClassifier",
    "regressor": "Ridge or HistGradientBoostingRegressor",
}
LEAST = 1e-6
"""Probability of a class at least; trees say 0, which no release could ever mend."""


def fit_by_expectation(
    estimator: ClassifierMixin, features: Any, likelihood: NDArray[np.float64],
    start: NDArray[np.float64], rounds: int, seed: int,
    row_weights: NDArray[np.float64] | None = None,
) -> Any:  # fmt: skip
    """Returns a clone of the estimator fitted to the posterior of the labels.

    Each row enters once per class, with the class's posterior as its weight. A round predicts every
    row by an estimator that was fitted without it, so that a tree cannot confirm its own noise, and
    takes the prediction as the next prior. Rounds end when the held-out likelihood of the release
    falls.

    Source: Dempster, Laird, Rubin (1977); cross-fitting as in Chernozhukov et al. (2018).

    Args:
        estimator: unfitted; its fit takes `sample_weight`.
        features: (N, ...) array or data frame, given to the estimator as they are.
        likelihood: P(release | class), up to a factor for each row, (N, K).
        start: first prior of each row, (N, K).
        rounds: at most, >= 1.
        seed: of the parts.
        row_weights: with mean 1, (N,); None: every row weighs the same.
    """
    keyword = weight_keyword(estimator)
    size = len(likelihood)
    order = np.random.default_rng(seed).permutation(size)
    parts = np.array_split(order, min(FOLDS, size))
    posterior = _normalised(start * likelihood)
    best, likeliest = posterior, -np.inf
    for _ in range(rounds):
        prior = np.empty_like(posterior)
        for part in parts:
            rest = np.setdiff1d(order, part)
            fitted = _fitted(estimator, keyword, features, rest, posterior, row_weights)
            prior[part] = probabilities(fitted, rows_of(features, part), posterior.shape[1])
        held_out = np.average(np.log((prior * likelihood).sum(1)), weights=row_weights)
        if held_out < likeliest:
            break
        likeliest = held_out
        best, posterior = posterior, _normalised(prior * likelihood)
    return _fitted(estimator, keyword, features, np.sort(order), best, row_weights)


def with_numbered_classes(
    estimator: ClassifierMixin, classes: Sequence[object], shares: NDArray[np.float64]
) -> Any:
    """Returns a clone whose class weights go by class number, as the labels of EM do.

    "balanced" is 1 / (K share) of each class: counts of the rows of EM, which have every class
    once, would balance nothing.

    Args:
        estimator: unfitted.
        classes: their names.
        shares: of the classes, (K,).

    Raises:
        InputError: a class weight of a class that the release does not have.
    """
    place, changed = {name: number for number, name in enumerate(classes)}, {}
    for key, value in estimator.get_params().items():
        if key.rpartition("__")[2] != "class_weight":
            continue
        if value in ("balanced", "balanced_subsample"):
            balanced = 1 / (len(classes) * shares.clip(LEAST))
            changed[key] = dict(enumerate(balanced.tolist()))
        elif isinstance(value, dict):
            weights = {as_python(name): weight for name, weight in value.items()}
            if unknown := [name for name in weights if name not in place]:
                raise InputError(
                    f"{key} must weigh the classes {list(classes)}, got {unknown[0]!r} (each class "
                    "that is not named weighs 1)"
                )
            changed[key] = {place[name]: weight for name, weight in weights.items()}
    return clone(estimator).set_params(**changed)


def probabilities(estimator: Any, features: Any, num_classes: int) -> NDArray[np.float64]:
    """Returns class probabilities, (m, K), at least 1e-6 before rows are made to sum to 1."""
    found = estimator.predict_proba(features)
    given = np.zeros((len(found), num_classes))
    given[:, estimator.classes_.astype(np.int64)] = found
    return _normalised(given.clip(LEAST))


def shares_of(
    likelihood: NDArray[np.float64], row_weights: NDArray[np.float64] | None, rounds: int = 200
) -> NDArray[np.float64]:
    """Returns the class shares that make the release most likely, (K,), by EM."""
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(rounds):
        shares = np.average(_normalised(shares * likelihood), 0, row_weights)
    return shares


def weight_keyword(estimator: Any, kind: str = "classifier") -> str:
    """Returns how the fit of a classifier or regressor spells sample weights.

    Raises:
        InputError: it takes none, or is a classifier without class probabilities.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, BaseEstimator) or not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"estimator must be a scikit-learn {kind} whose fit takes sample_weight, got "
            f"{type(last).__name__} (such as {SUCH[kind]})"
        )
    is_able = callable(getattr(last, "predict_proba", None))  # scikit-learn's own test of it
    if kind == "classifier" and not is_able:
        raise InputError(f"estimator must have predict_proba, and {type(last).__name__} has none")
    if isinstance(estimator, Pipeline):
        return f"{estimator.steps[-1][0]}__sample_weight"
    return "sample_weight"


def _fitted(
    estimator: ClassifierMixin, keyword: str, features: Any, rows: NDArray, posterior: NDArray,
    row_weights: NDArray | None,
) -> Any:  # fmt: skip
    """Returns a new estimator, fitted to each of the rows once per class."""
    weights = posterior[rows]
    row, label = np.nonzero(weights > LEAST)
    # Every class must be there, or the estimator would not know it.
    missing = np.setdiff1d(np.arange(weights.shape[1]), label)
    if len(rows):
        row = np.concatenate([row, np.zeros(len(missing), np.int64)])
        label = np.concatenate([label, missing])
    of_pairs = weights[row, label].clip(LEAST)
    if row_weights is not None:
        of_pairs = of_pairs * row_weights[rows[row]]
    with config_context(enable_metadata_routing=False):  # where a step is asked by its name
        return clone(estimator).fit(rows_of(features, rows[row]), label, **{keyword: of_pairs})


def _normalised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows / rows.sum(1, keepdims=True)
