"""A scikit-learn regressor that learns from a release of numbers."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from labeldp.designs import Design
from labeldp.expectation import weight_keyword
from labeldp.rows import as_numbers, check_release, check_size, checked_weights, keys_of


class LabelDPRegressor(RegressorMixin, BaseEstimator):
    """Learns numbers from features and a release made by `privatize(..., bounds=(low, high))`.

    What is released of a number has that number as its mean, so that least squares on it estimates
    what least squares on the true numbers would.

    Args:
        estimator: any scikit-learn regressor that minimises squared errors; None: ridge regression
            on standardised features, with the penalty that leaving single rows out chooses.
        design: `labeldp.designs.identity()`: fit and score then take an array of numbers, as they
            are or with noise of mean 0 that others added. None: they take a release only.

    Attributes:
        model_: what was fitted.
    """

    design: Design | None = None  # of files until Nov 2026, which have none

    def __init__(self, estimator: Any = None, *, design: Design | None = None) -> None:
        self.estimator = estimator
        self.design = design

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Returns self, fitted to a release of numbers, in the order of X.

        Args:
            X: (N, d) array or data frame.
            y: release of N numbers; with a design N numbers, (N,).
            sample_weight: (N,), >= 0, such as the weights of a survey; None: all rows are alike.

        Raises:
            InputError: anything but a release of numbers; another number of rows; texts in X.
        """
        release = check_release(
            "fit", y, X, of_numbers=True, design=self.design, sample_weight=sample_weight
        )
        inputs = as_numbers(self, X)
        check_size(len(inputs), release)
        own = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 6, 17)))
        model = own if self.estimator is None else clone(self.estimator)
        weights = checked_weights(sample_weight, len(release))
        given = {} if weights is None else {weight_keyword(model, "regressor"): weights}
        with config_context(enable_metadata_routing=False):  # where a step is asked by its name
            self.model_ = model.fit(inputs, release.unbiased_values(), **given)
        bounds = None if self.design is not None else release.manifest.bounds
        self.bounds_ = bounds or (-np.inf, np.inf)  # numbers that came without may be exceeded
        self.fitted_rows_ = keys_of(release)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns estimates within the bounds of the release, float64 (m,)."""
        check_is_fitted(self)
        inputs = as_numbers(self, X, reset=False)
        return self.model_.predict(inputs).clip(*self.bounds_)

    def score(self, X: Any, y: Any) -> float:
        """Returns minus the mean squared distance to what was released; larger is better.

        It is the true error plus the variance of the noise, which no model changes. With a design,
        y is an array, and the score is R^2, that of every regressor.

        Raises:
            InputError: as `fit`.
        """
        release = check_release("score", y, X, of_numbers=True, design=self.design)
        found = self.predict(X)
        check_size(len(found), release)
        error = float(np.square(found - release.unbiased_values()).mean())
        return -error if self.design is None else super().score(X, release.unbiased_values())
