"""From columns of numbers and categories to features, by what some rows say."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

MAX_CATEGORIES = 12
"""Largest number of categories of a column; rarer ones share one indicator."""


def encoded(
    columns: pd.DataFrame, train: NDArray[np.int64], test: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the features of training and test rows, float32 (N, d) and (M, d).

    Everything is learnt from training rows only; see `to_features`.

    Args:
        columns: numbers (bool, int, float) or categories (anything else).
        train: positions of the training rows.
        test: positions of the test rows.
    """
    numeric = numeric_columns(columns)
    plain = floats_and_texts(columns, numeric)
    transformer = to_features(numeric, [name for name in columns if name not in numeric])
    fitted = transformer.fit_transform(plain.iloc[train])
    with warnings.catch_warnings():  # of unknown categories, which is what they are for
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        return _float32(fitted), _float32(transformer.transform(plain.iloc[test]))


def numeric_columns(columns: pd.DataFrame) -> list[str]:
    """Returns the names of the columns that hold numbers or truth values."""
    return [name for name in columns if pd.api.types.is_numeric_dtype(columns[name])]


def floats_and_texts(columns: pd.DataFrame, numeric: Sequence[str]) -> pd.DataFrame:
    """Returns the columns as `to_features` takes them: float64, and texts (a missing one empty)."""
    # No `assign`: a column may be named as one of its arguments is, such as self.
    plain = {
        name: columns[name].astype(np.float64)
        if name in numeric
        else columns[name].astype(object).where(columns[name].notna(), "").astype(str)
        for name in columns
    }
    return pd.DataFrame(plain, index=columns.index)


def to_features(
    numeric: Sequence[str], categorical: Sequence[str], max_categories: int = MAX_CATEGORIES
) -> "ColumnTransformer":
    """Returns the unfitted way from columns to features.

    A number is scaled to mean 0 and variance 1; a missing one counts as the median, and has an
    indicator. A category has an indicator; rare ones share one, as do those that no row of the fit
    has; a missing cell is a category.

    Args:
        numeric: names of columns of float64.
        categorical: names of columns of texts.
        max_categories: of a column; rarer ones share an indicator.
    """
    from sklearn.compose import ColumnTransformer  # a second, which other data need not wait for
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    return ColumnTransformer(
        [
            # A column without a single number in the training rows stays, as zeros.
            ("numbers", make_pipeline(
                SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
                StandardScaler(),
            ), list(numeric)),
            ("categories", OneHotEncoder(
                handle_unknown="infrequent_if_exist", max_categories=max_categories,
                drop="if_binary", sparse_output=False, dtype=np.float32,
            ), list(categorical)),
        ],
        sparse_threshold=0,
    )  # fmt: skip


def _float32(features: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.ascontiguousarray(features, dtype=np.float32)
