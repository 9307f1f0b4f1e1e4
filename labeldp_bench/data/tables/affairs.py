"""A survey with sensitive answers: 6,366 married women asked by a magazine in 1974."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.support.validate import check_choice
from labeldp_bench.data.tables.base import Rows, Table
from labeldp_bench.data.tables.packaged import file_in_package

ANSWERS = ("affair", "marriage")
CATEGORIES = ("occupation", "occupation_husb")


@dataclass(frozen=True, kw_only=True)
class Affairs(Table):
    """Whether she had an affair (32 %), or how she rates her marriage (five classes).

    Source: Fair (1978), "A theory of extramarital affairs", Journal of Political Economy 86; the
    survey of Redbook, as the package statsmodels ships it (BSD-3-Clause), included there with the
    author's permission.

    Args:
        answer: the label: `affair` (no, yes) or `marriage` (1 very poor to 5 very good). The other
            one is then left out, as she would hide it too.
    """

    answer: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dataset.answer", self.answer, ANSWERS)

    def read(self, data_dir: Path) -> Rows:
        """Returns the rows of the survey."""
        table = pd.read_csv(file_in_package("statsmodels", "datasets", "fair", "fair.csv"))
        had_affair = (table.affairs > 0).to_numpy(np.int64)
        rating = table.rate_marriage.to_numpy(np.int64) - 1
        columns = table.drop(columns=["affairs", "rate_marriage"])
        columns = columns.assign(**{name: columns[name].astype(str) for name in CATEGORIES})
        if self.answer == "affair":
            return Rows("affairs", columns, had_affair, 2)
        return Rows("marriage", columns, rating, 5)
