"""Your own CSV or Parquet file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.io import cells, files
from labeldp.support.validate import InputError, check_folder_name, check_list
from labeldp_bench.data.tables.base import Rows, Table

PUBLIC = "public"
"""`dataset.classes=public`: the labels' names may be read from the file."""


@dataclass(frozen=True, kw_only=True)
class OwnTable(Table):
    """One file with a row per example, public columns and one column of labels.

    The names of the classes are said, not read: which answers occur is part of the secret, and a
    list read from private labels gives the rare ones away.

    Args:
        file: CSV, TSV (also .gz) or Parquet; the path is no part of a run's identity.
        name: names the data in records and folders; two files need two names.
        label: the column of labels.
        classes: names of the classes, in order, the last being the event for AUC and the like; or
            the text `public`: they are those of the file, sorted, and known to everybody.
        numeric: columns that must hold numbers; null: those that look like it.
        categorical: columns of categories although they hold numbers.
        drop: columns that are left out, such as row numbers.
        unit: the column that says whose row it is; null: each row is somebody else's.
    """

    file: str
    name: str
    label: str
    classes: Sequence[str | int | bool] | str | None = None
    numeric: Sequence[str] | None = None
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    unit: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_folder_name("dataset.name", self.name)
        if self.unit is not None and str(self.unit) == str(self.label):
            raise InputError(
                f"dataset.unit={self.unit} is the column of labels: the split would depend on them "
                "(name the column that says whose row it is)"
            )
        if self.classes is None:
            raise InputError(
                "dataset.classes must be given, such as dataset.classes=[no,yes]: a list read from "
                "private labels gives away which answers occur (dataset.classes=public if "
                "everybody knows them)"
            )
        if self.classes != PUBLIC:
            names = check_list("dataset.classes", self.classes, "names")
            if len(names) < 2 or len(set(map(str, names))) < len(names):
                raise InputError(
                    f"dataset.classes must be two or more different names, got {list(names)}"
                )
        for key in ("numeric", "categorical", "drop"):
            if getattr(self, key) is not None:
                check_list(f"dataset.{key}", getattr(self, key), "columns")

    def read(self, data_dir: Path) -> Rows:
        """Returns the rows of the file."""
        path = Path(self.file).expanduser()
        table = files.read_table(path)
        keys = {"label": [self.label], "unit": [self.unit] if self.unit else []}
        keys |= {key: list(map(str, getattr(self, key) or ())) for key in LISTS}
        for key, names in keys.items():
            for name in names:
                files.check_column(path.name, table, f"dataset.{key}", str(name))
        labels = table[str(self.label)]
        classes = self._classes(labels)
        if len(classes) < 2:  # of `public` ones; others were checked
            raise InputError(
                f"{path.name}, column {self.label}: dataset.classes=public finds {len(classes)} "
                "different labels, and two or more are needed"
            )
        codes = cells.label_codes(path.name, labels, classes)
        units = None if self.unit is None else table[self.unit]
        if units is not None and units.isna().any():
            row = int(np.flatnonzero(units.isna())[0])
            raise InputError(f"{path.name}, row {row + 1}, column {self.unit}: the unit is missing")
        left_out = [self.label, *keys["drop"], *keys["unit"]]
        columns = table.drop(columns=left_out)
        if not columns.shape[1]:
            raise InputError(f"{path.name} has no column beside {', '.join(left_out)}")
        for key in ("numeric", "categorical"):
            for name in keys[key]:
                files.check_column(path.name, columns, f"dataset.{key}", name)
        columns = cells.check_numbers(path.name, columns, keys["numeric"])
        for name in keys["categorical"]:
            columns[name] = columns[name].astype(str)
        cells.check_finite(path.name, columns)
        whose = None if units is None else np.array(cells.label_texts(units))  # less blanks
        return Rows(self.name, columns, codes, len(classes), whose)

    def _classes(self, labels: pd.Series) -> list[str]:
        if self.classes == PUBLIC:
            return sorted(set(cells.label_texts(labels.dropna())))
        return cells.label_texts(pd.Series(list(self.classes or ()), dtype=object))


LISTS = ("numeric", "categorical", "drop")
