"""A health survey with a rare answer: who rates the own health as poor, several rows a person."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp_bench.data.tables.base import Rows, Table
from labeldp_bench.data.tables.packaged import file_in_package

PUBLIC_COLUMNS = (
    "site", "coins", "year", "xage", "female", "black", "educdec", "linc", "num", "child", "disea",
    "physlm", "mdvis",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RandHealth(Table):
    """Whether somebody rates the own health as poor: 1.5 % of 20,190 person-years.

    5,912 persons have up to five yearly rows with the same answer. The unit of privacy is the
    person: `rows_per_unit` rows of each are kept, and share the budget.

    Source: RAND Health Insurance Experiment (public domain), after Cameron and Trivedi (2005), as
    the package statsmodels ships it (BSD-3-Clause). The labels of the other ratings and the
    indices that they are made from are left out of the columns.
    """

    def read(self, data_dir: Path) -> Rows:
        """Returns the person-years."""
        path = file_in_package("statsmodels", "datasets", "randhie", "src", "randhie.csv")
        table = pd.read_csv(path, usecols=[*PUBLIC_COLUMNS, "hlthp", "zper"])
        columns = table[list(PUBLIC_COLUMNS)].astype({"site": str})
        return Rows(
            "rand_health", columns, table.hlthp.to_numpy(np.int64), 2, table.zper.to_numpy()
        )
