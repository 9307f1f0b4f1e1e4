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

from labeldp.expectation import weight_keyword
from labeldp.release import Release
from labeldp.rows import as_numbers, check_release, check_size, checked_weights, keys_of


class LabelDPRegressor(RegressorMixin, BaseEstimator):
    """Learns numbers from features and a release made by `privatize(..., bounds=(low, high))`.

    What is released of a number has that number as its mean, so that least squares on it estimates
    what least squares on the true numbers would.

    Args:
        estimator: any scikit-learn regressor that minimises squared errors; None: ridge regression
            on standardised features, with the penalty that leaving single rows out chooses.

    Attributes:
        model_: what was fitted.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release, sample_weight: ArrayLike | None = None) -> Self:
        """Returns self, fitted to a release of numbers, in the order of X.

        Args:
            X: (N, d) array or data frame.
            release: of N numbers.
            sample_weight: (N,), >= 0, such as the weights of a survey; None: all rows are alike.

        Raises:
            InputError: anything but a release of numbers; another number of rows; texts in X.
        """
        check_release("fit", release, X, of_numbers=True, sample_weight=sample_weight)
        inputs = as_numbers(self, X)
        check_size(len(inputs), release)
        own = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 6, 17)))
        model = own if self.estimator is None else clone(self.estimator)
        weights = checked_weights(sample_weight, len(release))
        given = {} if weights is None else {weight_keyword(model, "regressor"): weights}
        with config_context(enable_metadata_routing=False):  # where a step is asked by its name
            self.model_ = model.fit(inputs, release.unbiased_values(), **given)
        assert release.manifest.bounds is not None, "a release of numbers has them"
        self.bounds_ = release.manifest.bounds
        self.fitted_rows_ = keys_of(release)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns estimates within the bounds, float64 (m,)."""
        check_is_fitted(self)
        inputs = as_numbers(self, X, reset=False)
        return self.model_.predict(inputs).clip(*self.bounds_)

    def score(self, X: Any, release: Release) -> float:
        """Returns minus the mean squared distance to what was released; larger is better.

        It is the true error plus the variance of the noise, which no model changes.

        Raises:
            InputError: as `fit`.
        """
        check_release("score", release, X, of_numbers=True)
        found = self.predict(X)
        check_size(len(found), release)
        return -float(np.square(found - release.unbiased_values()).mean())
