"""Predictions for rows that were held out in turn, from a release."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing as rows_of

from labeldp.names import numbered
from labeldp.release import Release
from labeldp.rows import check_release
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer


def cross_val_predict(
    model: Any, X: Any, release: Release, cv: int = 5, persons: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Returns what a model says of each row that was fitted without it.

    The rows are split into parts, and each part is predicted by a clone of the model that was
    fitted to the others. With persons all rows of one are in one part: a model that has seen a
    person knows more of that person's other rows.

    Args:
        model: unfitted, `LabelDPClassifier` or `LabelDPRegressor`, or a pipeline that ends in one.
        X: (N, d) array or data frame, in the order of the release.
        release: of N rows.
        cv: number of parts, >= 2; drawn with a fixed seed.
        persons: (N,), whose row each is; None: every row is a person of its own.

    Returns:
        Class probabilities, float64 (N, K), columns as `release.classes`; of numbers estimates,
        float64 (N,).

    Raises:
        InputError: fewer than two rows for each part, or fewer persons than parts; as `fit`.

    >>> from labeldp import LabelDPClassifier, privatize
    >>> X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> release = privatize(y, classes=[0, 1], eps=4.0, seed=0)
    >>> cross_val_predict(LabelDPClassifier(), X, release).argmax(1).mean()
    np.float64(0.5)
    """
    of_numbers = not getattr(release, "classes", True)
    check_release("cross_val_predict", release, X, of_numbers=of_numbers, persons=persons)
    check_integer("cv", cv, low=2)
    size = len(release)
    if size < 2 * cv:
        raise InputError(f"a model needs at least {2 * cv} rows, got {size}")
    whose = np.arange(size) if persons is None else numbered(persons, size)
    if (people := int(whose.max()) + 1) < cv:
        raise InputError(
            f"a model is tried on {cv} parts of the persons, and the rows are of {people}"
        )
    found = np.empty(release.shape)
    of_people = KFold(cv, shuffle=True, random_state=0).split(np.arange(people))
    parts = ([np.flatnonzero(np.isin(whose, part)) for part in parts] for parts in of_people)
    for fitted, held_out in progress_bar(parts, cv, "held-out parts"):
        part = clone(model).fit(rows_of(X, fitted), release[fitted])
        predict = part.predict_proba if release.classes else part.predict
        found[held_out] = predict(rows_of(X, held_out))
    return found
