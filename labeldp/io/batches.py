"""One column of a CSV or Parquet file, some rows at a time: memory does not grow with the file."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from labeldp.io.cells import label_texts
from labeldp.io.files import (
    check_column,
    check_header,
    check_name,
    first_rows,
    has_one_column,
    readable,
    separator_of,
    without_decimals,
)
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError

BUFFER = 2**20
"""Bytes that are read of a Parquet column at one time."""
BLOCK = 2**22
"""Bytes that are read of a text file at one time."""
BAR_FROM = 50e6
"""Bytes of a file from which on its reading shows a bar."""


@dataclass(frozen=True)
class TableFile:
    """A CSV, TSV or Parquet file whose columns are read one by one.

    Args:
        path: of the file.

    Raises:
        InputError: no such file, another kind of file, one that cannot be read.
    """

    path: Path

    def __post_init__(self) -> None:
        check_name(self.path, "")

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.path.name.lower().endswith(".parquet")

    def columns(self) -> list[str]:
        """Returns the names of the columns, as the header has them."""
        with readable(self.path):
            check_header(self.path)
            if self.is_parquet:
                return list(pq.read_schema(self.path).names)
            return list(pd.read_csv(self.path, sep=separator_of(self.path), nrows=0))

    def first_row(self) -> list[str]:
        """Returns the cells of the first row of a text file, as they are written."""
        with readable(self.path):
            return first_rows(self.path, separator_of(self.path), 1).iloc[0].tolist()

    def check_column(self, option: str, name: str) -> str:
        """Returns the name of a column, which an option gives, if there is one.

        Raises:
            InputError: there is none of that name.
        """
        return check_column(str(self.path), pd.DataFrame(columns=self.columns()), option, name)

    def column(self, name: str) -> pd.Series:
        """Returns a whole column; numbers as numbers."""
        with readable(self.path):
            if self.is_parquet:
                table = pq.read_table(self.path, columns=[name], partitioning=None)
                return without_decimals(table.to_pandas(ignore_metadata=True))[name]
            own = {"sep": separator_of(self.path), "usecols": [name], "low_memory": False}
            return pd.read_csv(self.path, **own)[name]

    def batches(self, name: str, rows: int) -> Iterator[pa.Array]:
        """Yields a column, at most `rows` at a time; of a CSV file as texts, as they are written.

        Raises:
            InputError: the file cannot be read to its end.
        """
        total = self.path.stat().st_size
        with contextlib.ExitStack() as opened:
            opened.enter_context(readable(self.path))
            bar = opened.enter_context(
                progress_bar(None, total, f"{self.path.name}, bytes", total > BAR_FROM)
            )
            if self.is_parquet:
                file = opened.enter_context(
                    pq.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False)
                )
                share = total / max(1, file.metadata.num_rows)
                for batch in file.iter_batches(rows, columns=[name], use_threads=False):
                    self._check_type(batch.column(0).type, name)
                    yield batch.column(0)
                    bar.update(round(share * len(batch)))
                return
            raw = opened.enter_context(pa.OSFile(str(self.path)))
            is_zipped = self.path.name.lower().endswith(".gz")
            source = pa.CompressedInputStream(raw, "gzip") if is_zipped else raw
            before = 0
            for batch in self._text_batches(source, name):
                for start in range(0, len(batch), rows):
                    yield batch.column(0).slice(start, rows)
                bar.update(raw.tell() - before)
                before = raw.tell()

    def _check_type(self, kind: pa.DataType, name: str) -> None:
        """Refuses lists, records, bytes, and types of their own, such as UUID."""
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        is_own = isinstance(kind, pa.BaseExtensionType)
        is_bytes |= pa.types.is_fixed_size_binary(kind)
        if pa.types.is_nested(kind) or is_bytes or is_own:
            raise InputError(
                f"{self.path}, column {name}: labels must be texts, numbers or truth values, got "
                f"{kind}"
            )

    def _text_batches(self, source: pa.NativeFile, name: str) -> Iterator[pa.RecordBatch]:
        """Yields a column of texts; refuses a row with more or fewer cells than the header."""
        separator = separator_of(self.path)
        try:
            yield from csv.open_csv(
                source,
                csv.ReadOptions(block_size=BLOCK, use_threads=False),
                csv.ParseOptions(
                    delimiter=separator,
                    newlines_in_values=True,
                    ignore_empty_lines=not has_one_column(self.path),
                ),
                csv.ConvertOptions(
                    include_columns=[name], column_types={name: pa.string()}, null_values=[]
                ),
            )
        except KeyError:  # pandas calls the second column `Unnamed: 1` if it has no name
            raise ValueError(f"column {name} has no name in the header (give it one)") from None
        except pa.ArrowInvalid as error:  # which quotes the row, and that holds a label
            raise ValueError(re.sub(r"(columns, got \d+):.*", r"\1", str(error))) from None


def texts_of(labels: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Returns the different labels as texts, and which of them each label is, int64 (n,).

    Numbers and truth values become texts as `cells.label_texts` says; a missing one is empty.
    """
    encoded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    texts = [*label_texts(encoded.dictionary.to_pandas()), ""]
    places = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return texts, places.astype(np.int64)


def codes_of(labels: pa.Array, classes: pd.Index) -> NDArray[np.int64]:
    """Returns the position of each label among the classes, int64 (n,); -1: none; -2: it is empty.

    Args:
        labels: of any type.
        classes: texts.
    """
    texts, places = texts_of(labels)
    of_text = np.where([text == "" for text in texts], -2, classes.get_indexer(pd.Index(texts)))
    return of_text[places].astype(np.int64)


def numbers_of(labels: pa.Array) -> NDArray[np.float64]:
    """Returns labels as numbers, float64 (n,); NaN where one is none."""
    if pa.types.is_integer(labels.type) or pa.types.is_floating(labels.type):
        return labels.to_numpy(zero_copy_only=False).astype(np.float64)
    texts = pd.Series(label_texts(labels.to_pandas()))
    return pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
