"""From columns of numbers and categories to float32 features, by what training rows say."""

import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MAX_CATEGORIES = 12
"""Of a column; rarer ones share an indicator of their own."""


def encoded(
    columns: pd.DataFrame, train: NDArray[np.int64], test: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the features of training and test rows, float32 (N, d) and (M, d).

    A number is scaled to mean 0 and variance 1; a missing one counts as the median, and has an
    indicator. A category has an indicator; rare ones share one, as do those that no training row
    has; a missing cell is a category. Everything is learnt from training rows alone.

    Args:
        columns: numbers (bool, int, float) or categories (anything else).
        train: positions of the training rows.
        test: positions of the test rows.
    """
    from sklearn.compose import ColumnTransformer  # a second, which other data need not wait for
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [name for name in columns if pd.api.types.is_numeric_dtype(columns[name])]
    categorical = [name for name in columns if name not in numeric]
    plain = columns.assign(
        **{
            name: columns[name].astype(object).where(columns[name].notna(), "")
            for name in categorical
        },
        **{name: columns[name].astype(np.float64) for name in numeric},
    )
    plain = plain.assign(**{name: plain[name].astype(str) for name in categorical})
    transformer = ColumnTransformer(
        [
            # A column without a single number in the training rows stays, as zeros.
            ("numbers", make_pipeline(
                SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
                StandardScaler(),
            ), numeric),
            ("categories", OneHotEncoder(
                handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES,
                drop="if_binary", sparse_output=False, dtype=np.float32,
            ), categorical),
        ],
        sparse_threshold=0,
    )  # fmt: skip
    fitted = transformer.fit_transform(plain.iloc[train])
    with warnings.catch_warnings():  # of unknown categories, which is what they are for
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        return _float32(fitted), _float32(transformer.transform(plain.iloc[test]))


def _float32(features: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.ascontiguousarray(features, dtype=np.float32)
