"""A scikit-learn classifier that learns from a release, or labels that others randomised."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from labeldp.designs import Design
from labeldp.expectation import (
    fit_by_expectation,
    probabilities,
    shares_of,
    weight_keyword,
    with_numbered_classes,
)
from labeldp.linear import PENALTIES, LinearModel, fit_linear
from labeldp.losses import Loss, loss_named
from labeldp.manifest import ClassName
from labeldp.names import as_python, class_key
from labeldp.network import checked_targets, fit_network
from labeldp.release import Release
from labeldp.rows import as_numbers, check_release, check_size, checked_weights, keys_of
from labeldp.support.validate import InputError, check_choice, check_integer, check_number
from labeldp.trees import TreeSettings, fit_boosted_trees

Weights = NDArray[np.float64] | None
NAMES = ("linear", "mlp", "boosted_trees")
PROBABILITIES = 10**7
"""At one time in a prediction of classes, rows x K: 80 MB, however many rows are asked."""


class LabelDPClassifier(ClassifierMixin, BaseEstimator):
    """Learns classes from features and a release of the labels.

    Fitting costs no privacy beyond that of the release. `predict`, `predict_proba` and `classes_`
    are those of scikit-learn; `score` estimates the accuracy from a release.

    Args:
        estimator: None or `linear`: softmax regression by `loss`, with the penalty that held-out
            releases choose. `boosted_trees`: by `loss`, as the benchmark's. `mlp` or a
            `torch.nn.Module` with K outputs, one for each of `classes_`: a network by `loss`. Any
            scikit-learn classifier whose fit takes `sample_weight`, or a pipeline that ends in one:
            by EM on the release.
        loss: of linear models, boosted trees and networks, such as `marginal` (fits every release),
            `plain`, `bce`, `unbiased`.
        penalty: >= 0, of the linear model, where EM starts too; None: held-out releases choose.
        max_rounds: of EM.
        epochs: of a network.
        random_state: of held-out parts, first weights and order; no noise of labels is drawn here.
        design: of `labeldp.designs`: fit and score then take an array of labels that others
            randomised by it; `identity()`: labels as they are. None: they take a release only.

    Attributes:
        classes_: the release's classes, sorted as scikit-learn sorts them.
        model_: what was fitted.

    >>> from sklearn.datasets import load_iris
    >>> from labeldp import privatize
    >>> X, y = load_iris(return_X_y=True)
    >>> release = privatize(y, classes=[0, 1, 2], eps=3.0, seed=0)
    >>> bool((LabelDPClassifier().fit(X, release).predict(X) == y).mean() > 0.8)
    True
    """

    design: Design | None = None  # of files until Nov 2026, which have none

    def __init__(
        self,
        estimator: Any = None,
        *,
        loss: str = "marginal",
        penalty: float | None = None,
        max_rounds: int = 10,
        epochs: int = 50,
        random_state: int = 0,
        design: Design | None = None,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.penalty = penalty
        self.max_rounds = max_rounds
        self.epochs = epochs
        self.random_state = random_state
        self.design = design

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Returns self, fitted to a release.

        Args:
            X: (N, d) array or data frame, in the order of the release.
            y: release of N labels, true labels are refused; with a design N labels, (N,).
            sample_weight: (N,), >= 0, such as the weights of a survey; None: all rows are alike.

        Raises:
            InputError: anything but a release of classes, or labels of the design; another number
                of rows; texts in X, or numbers near overflow, unless it goes to another estimator.
        """
        release = check_release("fit", y, X, design=self.design, sample_weight=sample_weight)
        check_integer("max_rounds", as_python(self.max_rounds), low=1)
        check_integer("epochs", as_python(self.epochs), low=1)
        if self.penalty is not None:
            check_number("penalty", as_python(self.penalty), low=0)
        own = self._own()
        if not own:
            weight_keyword(self.estimator)  # refuses what takes no weights, before any work
        inputs = self._checked(X, reset=True)
        check_size(inputs.shape[0], release)
        weights = checked_weights(sample_weight, len(release))
        if not own:
            self.model_ = self._by_expectation(inputs, release, weights)
        elif self._is_linear():
            loss = loss_named(self.loss, "loss")
            self.model_ = self._linear(inputs, release, loss, weights)
        else:
            with torch.inference_mode(False), torch.enable_grad():  # whatever the caller set
                self.model_ = self._trees_or_network(inputs, release, weights)
        self.classes_ = class_array(release.classes)
        self.fitted_rows_ = keys_of(release)
        self.eps_spent_ = release.eps_spent
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns class probabilities, float64 (m, K), columns as `classes_`."""
        return self._probabilities(self._ready(X))

    def predict(self, X: Any) -> NDArray:
        """Returns the most likely class of each row, (m,)."""
        inputs = self._ready(X)
        at_once = max(1, PROBABILITIES // len(self.classes_))
        parts = [
            self._probabilities(rows_of(inputs, rows)).argmax(1)
            for rows in gen_batches(inputs.shape[0], at_once)
        ]
        return self.classes_[np.concatenate(parts)]

    def score(self, X: Any, y: Any) -> float:
        """Returns an unbiased estimate of the accuracy from a release; see `released_accuracy`.

        With a design y is an array of labels, as for `fit`.
        """
        from labeldp.estimates import released_accuracy

        check_is_fitted(self)
        known = self.classes_.tolist()
        release = check_release("score", y, X, design=self.design, known=known)
        return released_accuracy(self, X, release)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes what a file holds; refuses what an older version fitted to unsorted classes."""
        classes = state["classes_"].tolist() if "classes_" in state else []
        if classes != sorted(classes, key=class_key):
            raise InputError(
                f"this model has its classes in the order {classes[:10]}, which an older version "
                "kept, and now they are sorted (fit it again)"
            )
        super().__setstate__(state)

    def _ready(self, X: Any) -> Any:
        """Returns checked features of rows to predict."""
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _probabilities(self, inputs: Any) -> NDArray[np.float64]:
        """Returns class probabilities, float64 (m, K), of checked features."""
        if not self._own():
            return probabilities(self.model_, inputs, len(self.classes_))
        if self._is_linear():
            return self.model_.probabilities(inputs)
        return self.model_.probabilities(torch.from_numpy(inputs)).numpy()

    def _own(self) -> bool:
        """Returns whether linear model, trees or a network are asked for."""
        if isinstance(self.estimator, str):
            check_choice("estimator", self.estimator, NAMES)
        return self.estimator is None or isinstance(self.estimator, str | nn.Module)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Returns the features as numbers; those for another estimator as they are."""
        if not self._own():
            given = np.asarray(X) if isinstance(X, Sequence) else X  # lists know no shape
            validate_data(self, given, reset=reset, skip_check_array=True)
            # Other sparse kinds have no rows to take.
            return given.tocsr() if hasattr(given, "tocsr") else given
        images = isinstance(self.estimator, nn.Module)
        return as_numbers(self, X, reset=reset, allow_nd=images)

    def _linear(
        self, inputs: NDArray[np.float64], release: Release, loss: Loss, weights: Weights
    ) -> LinearModel:
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        return fit_linear(
            inputs, checked_targets(release, loss), loss, len(release.classes), penalties,
            self.random_state, weights,
        )  # fmt: skip

    def _by_expectation(self, X: Any, release: Release, weights: Weights) -> Any:
        likelihood = np.exp(release.stored.centred_log_likelihood.double().numpy())
        try:
            numbers = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):  # texts, which the estimator may know what to do with
            numbers = np.full((1, 1), np.nan)
        if numbers.ndim == 2 and numbers.size and np.isfinite(numbers).all():
            start = self._linear(numbers, release, loss_named("marginal"), weights)
            prior = start.probabilities(numbers)
        else:
            prior = np.broadcast_to(shares_of(likelihood, weights), likelihood.shape)
        estimator = with_numbered_classes(
            self.estimator, release.classes, shares_of(likelihood, weights)
        )
        return fit_by_expectation(
            estimator, X, likelihood, prior, self.max_rounds, self.random_state, weights
        )

    def _is_linear(self) -> bool:
        """Returns whether softmax regression is asked for."""
        return self.estimator is None or (
            isinstance(self.estimator, str) and self.estimator == "linear"
        )

    def _trees_or_network(
        self, inputs: NDArray[np.float64], release: Release, weights: Weights
    ) -> Any:
        """Returns fitted boosted trees or a fitted network."""
        numbers = torch.from_numpy(inputs)
        loss = loss_named(self.loss, "loss")
        if isinstance(self.estimator, nn.Module) or self.estimator == "mlp":
            return fit_network(
                self.estimator, numbers, release, loss, as_python(self.epochs), self.random_state,
                weights,
            )  # fmt: skip
        targets = checked_targets(release, loss)
        return fit_boosted_trees(
            numbers, targets, loss, len(release.classes), TreeSettings(), self.random_state,
            None if weights is None else torch.from_numpy(weights),
        )  # fmt: skip


def class_array(classes: Sequence[ClassName]) -> NDArray:
    """Returns the classes as an array, (K,); of objects where texts and numbers are mixed.

    NumPy would make texts of the numbers, which no release knows.
    """
    kinds = {isinstance(name, str) for name in classes}
    return np.array(classes, dtype=object if len(kinds) > 1 else None)
