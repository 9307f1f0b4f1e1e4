"""Rows of features: as numbers, in the order of a release, and which of them a fit has seen."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.io.tables import LARGEST
from labeldp.release import Release
from labeldp.support.validate import InputError


def as_numbers(
    model: Any, X: Any, *, largest: float = LARGEST, **settings: Any
) -> NDArray[np.float64]:
    """Returns features as numbers, float64, checked as scikit-learn does for `model`.

    Raises:
        InputError: they hold texts, and scikit-learn's own message says neither where nor what to
            do; or numbers beyond `largest`, of which nothing would be learnt without a word.
        ValueError: as `validate_data`, which takes the `settings`.
    """
    try:
        numbers = validate_data(model, X, dtype=np.float64, **settings)
    except ValueError as error:
        value = str(error).partition("could not convert string to float: ")[2]
        if not value:
            raise
        text = value.removeprefix("np.str_(").removesuffix(")")
        raise InputError(
            f"X must hold numbers, and holds texts, such as {text[:40]} (encode them, for example "
            "by scikit-learn's OneHotEncoder(sparse_output=False); `labeldp fit` encodes those of "
            "a file)"
        ) from None
    if (most := max(numbers.max(), -numbers.min())) > largest:
        raise InputError(
            f"X must hold numbers of at most {largest:g} in size for this model, and holds one of "
            f"{most:g} (give that column another unit)"
        )
    return numbers


def keys_of(release: Release) -> NDArray[np.uint64]:
    """Returns a number for each row, which names it among all releases, uint64 (N,)."""
    texts = release.row_ids.astype(str).astype(object)
    return pd.util.hash_array(texts, hash_key=release.manifest.identity[:16], categorize=False)


def refuse_fitted_rows(model: Any, release: Release) -> None:
    """Refuses a release of rows that the model was fitted to.

    Raises:
        InputError: how many they are.
    """
    seen = vars(innermost(model)).get("fitted_rows_")
    if seen is None:  # a model of somebody else, who knows what it was fitted to
        return
    shared = int(np.isin(keys_of(release), seen).sum())
    if shared:
        raise InputError(
            f"{shared:,} of {len(release):,} rows were used in the fit, which says nothing of new "
            "ones (hold rows out: fit on release[:n], estimate on release[n:]; or use "
            "cross_val_score with scoring=released_accuracy)"
        )


def check_order(X: Any, release: Release) -> None:
    """Refuses a data frame whose index has the release's row ids in another order.

    An index that is no permutation of the row ids says nothing of the order: ids may have been
    counted, or the frame read anew.

    Raises:
        InputError: the first row that differs.
    """
    if not isinstance(X, pd.DataFrame) or len(X) != len(release):
        return
    index, ids = X.index.astype(str), pd.Index(release.row_ids.astype(str))
    differ = np.flatnonzero(index != ids)
    if len(differ) and index.is_unique and index.isin(ids).all():
        row = int(differ[0])
        raise InputError(
            f"X has its rows in another order than the release: row {row} is {index[row]} in X and "
            f"{ids[row]} in the release (take X.loc[release.row_ids]; or, if row for row they "
            "belong together and the index means nothing, X.reset_index(drop=True))"
        )


def innermost(model: Any) -> Any:
    """Returns the model at the end of pipelines and searches."""
    while True:
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        elif isinstance(model, GridSearchCV | RandomizedSearchCV):
            check_is_fitted(model)
            model = model.best_estimator_
        else:
            return model
