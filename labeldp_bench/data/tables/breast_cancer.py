"""A medical table: 569 tumours, benign or malignant, from thirty measurements of an image."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeldp_bench.data.tables.base import Rows, Table


@dataclass(frozen=True, kw_only=True)
class BreastCancer(Table):
    """Whether a tumour is malignant (37 %).

    Source: Wolberg, Mangasarian, Street (1995), Breast Cancer Wisconsin (Diagnostic), UCI (CC BY
    4.0), as scikit-learn packs it; nothing is downloaded.
    """

    def read(self, data_dir: Path) -> Rows:
        """Returns the tumours."""
        from sklearn.datasets import load_breast_cancer  # a second

        columns, benign = load_breast_cancer(return_X_y=True, as_frame=True)
        return Rows("breast_cancer", columns, 1 - benign.to_numpy(np.int64), 2)
