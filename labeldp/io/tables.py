"""The reader of CSV, TSV and Parquet tables; what is wrong with a file is said in one line.

A column that names something (rows, persons, labels, classes) stays as it is written: 007 is not 7.
A column of features is a number or a category.
"""

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from labeldp.support.progress import progress_bar, say
from labeldp.support.validate import InputError, did_you_mean

READERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
SEPARATORS = (";", "\t", "|", ",")
BLOCK = 2**22
"""Bytes that are read of a text file at one time."""
BUFFER = 2**20
"""Bytes that are read of a Parquet column at one time."""
BAR_FROM = 50e6
"""Bytes of a file from which on its reading shows a bar."""
ROWS = 2**17
"""Rows of a Parquet column that are read at one time."""
AT_ONCE = 32
"""Columns of features that are read in one pass over a text file, and held as texts."""
LARGEST = 1e150
"""Number of a column: a column is scaled by its variance, and that of larger ones overflows."""
MANY = 50
"""Rows from which on a column that counts them is taken for an index."""
MISSING = pa.array(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)  # fmt: skip
"""Cells of a feature that say nothing, as pandas has them. Names are missing only if empty."""
TRUE, FALSE = ("True", "TRUE", "true"), ("False", "FALSE", "false")
COMMA = re.compile(r"^[+-]?[0-9.,]*,[0-9]+$")
"""A number with commas."""
DECIMAL = r"^[+-]?[0-9]+,[0-9]+$"
THOUSANDS = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
POINTS = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"
"""Numbers whose comma, or point, may stand for thousands."""
DECORATED = re.compile(r"^\W*\d[\d\s.,'\u2019_]*\W*[^\W\d]{0,3}\W*$|^0x[0-9a-fA-F]+$")
"""A number with a unit, a sign of money, parentheses or signs for thousands."""
MANY_NUMBERS = 50
"""Different numbers from which on a column is not one of categories, however they are written."""
EXACT = 2.0**53
"""Up to which float64 holds every whole number."""


class TableFile:
    """A file whose columns are read one by one.

    Args:
        path: of the file.
        separator: what is between the cells of a text file; None: a comma, in TSV files a tab, or
            what header and first row show instead.
        secret: the column of labels, if there is one. Nothing of the file is shown in a message
            before its header is known to hold that name.
        options: how messages call the file, what leaves a column out, and what keeps it.

    Raises:
        InputError: no such file, another kind of file, one that cannot be read; no column of
            labels; two columns of one name.
    """

    def __init__(
        self,
        path: Path,
        separator: str | None = None,
        *,
        secret: str | None = None,
        options: tuple[str, str, str] = ("", "--drop", "--keep"),
    ) -> None:
        self.path, name, (key, self._drop, self._keep) = path, path.name.lower(), options
        if not name.endswith(READERS):
            raise InputError(
                f"{key}{path} must end in {', '.join(READERS)} (spreadsheets can be saved as .csv)"
            )
        if not path.is_file():
            raise InputError(f"{key}there is no file {path}")
        self.is_parquet = name.endswith(".parquet")
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise InputError(f"--separator must be one sign, got {separator!r}")
        usual = "\t" if ".tsv" in name else ","
        self.separator = separator or (usual if self.is_parquet else self._separator(usual))
        self._has_said = False
        header = self._header
        if secret is not None and secret not in header:
            shown = f"; columns: {', '.join(header[:20])}" if self.is_parquet else (
                " (its first row must hold the names of the columns, without a comment above; they "
                "are not shown, as they may be labels)"
            )  # fmt: skip
            raise InputError(f"{path} has no column {secret}{shown}")
        for each in header:
            if each and header.count(each) > 1:
                raise InputError(f"{path} has two columns {each} (give each a name of its own)")

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns; one without a name is called by its place, `Unnamed: 0`."""
        return [each or f"Unnamed: {place}" for place, each in enumerate(self._header)]

    def check_column(self, option: str, name: str) -> str:
        """Returns the name of a column, which an option gives, if there is one."""
        if name not in self.names:
            some = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
            raise InputError(
                f"{self.path}: {option}={name} is not a column{did_you_mean(name, self.names)}; "
                f"columns: {some}"
            )
        return name

    def batches(self, name: str, rows: int = ROWS) -> Iterator[pa.Array]:
        """Yields a column, at most `rows` at a time; of a text file as texts, as they are written.

        Raises:
            InputError: the file cannot be read to its end.
        """
        total = self.path.stat().st_size
        with (
            self._told(),
            progress_bar(None, total, f"{self.path.name}, bytes", total > BAR_FROM) as bar,
        ):
            done = 0
            for part, position in self._parts([name], rows):
                self._check_type(part.column(0).type, name, "labels")
                yield part.column(0)
                bar.update(position - done)
                done = position

    def read_names(self, option: str, name: str, *, are_distinct: bool = False) -> NDArray:
        """Returns a column that names rows or persons: texts as they are written, or whole numbers.

        Raises:
            InputError: there is no such column, a cell is empty, or a name is there twice.
        """
        ((_, column),) = self._columns([self.check_column(option, name)])
        where = f"column {name}: it"
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise InputError(f"{self.path}, {where} has a name with a NUL byte (write it as text)")
        for row in np.flatnonzero(is_empty(column))[:1]:
            raise InputError(
                f"{self.path}, row {row + 1}, {where} is empty, but {option} needs a name in each "
                "row"
            )
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            with contextlib.suppress(pa.ArrowInvalid):  # too long for 64 bits
                column = pc.cast(column, pa.int64())
        self._check_type(column.type, name, "names")
        if pa.types.is_integer(column.type):
            names = column.to_numpy(zero_copy_only=False)
        elif pa.types.is_string(column.type):
            names = column.to_numpy(zero_copy_only=False).astype(str)
        else:
            names = np.array([str(each) for each in column.to_pylist()])
        is_plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
        if is_plain and len(column.unique()) == len(column):  # at once
            return names
        for row in np.flatnonzero(pd.Index(names).duplicated())[:1] if are_distinct else ():
            raise InputError(
                f"{self.path}, row {row + 1}, {where} has {names[row]} a second time, but {option} "
                "needs a column that names each row once (a person with several rows is named by "
                "`release --unit`)"
            )
        return names

    def head(self, rows: int) -> pd.DataFrame:
        """Returns the first rows of all columns, at most `rows`; of a text file as texts."""
        with self._told():
            for part, _ in self._parts(self.names, rows):
                return part.to_pandas()
        return pd.DataFrame({name: [] for name in self.names})

    def read_labels(self, name: str) -> pa.ChunkedArray:
        """Returns the column of labels."""
        parts = list(self.batches(name))
        if not sum(map(len, parts)):
            raise InputError(f"{self.path.name} has no rows")
        return pa.chunked_array(parts)

    def features(
        self,
        *,
        names: Sequence[str] | None = None,
        drop: Collection[str] = (),
        numbers: Collection[str] | None = None,
        categories: Collection[str] = (),
        keep: Collection[str] = (),
        advice: str = "",
    ) -> pd.DataFrame:
        """Returns columns of features: float64, or texts where a missing one is empty.

        Args:
            names: of the columns; None: all.
            drop: those that are left out.
            numbers: columns that must hold numbers; None: those that do.
            categories: columns of categories, though they hold numbers.
            keep: columns that are features though they look like the index of a table.
            advice: the end of the message that a cell is not a number; {name} is the column.

        Raises:
            InputError: a column is no feature, or looks like the index of a table.
        """
        found: dict[str, NDArray] = {}
        left_out = {*drop, *(self._index if names is None else ())}
        asked = [name for name in (self.names if names is None else names) if name not in left_out]
        for name, column in self._columns(asked):
            is_number = name in (numbers or ())
            values = None if name in categories else self._numbers(column, is_number)
            if is_number and values is None:
                self._refuse_text(column, name, advice)
            if values is not None:
                self._check_numbers(values, name)
                self._check_exact(column, values, name)
                self._check_points(column, name)
            elif name not in {*categories, *keep}:
                self._refuse_decorated(column, name)
            found[name] = self._categories(column, name) if values is None else values
            if names is None and name not in {*keep, *(numbers or ()), *categories}:
                self._check_index(name, values)
        if not len(next(iter(found.values()), [0])):
            raise InputError(f"{self.path.name} has no rows")
        return pd.DataFrame(found)

    def _columns(self, names: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
        """Yields whole columns by name; `AT_ONCE` of them need one pass over a text file."""
        for start in range(0, len(names), AT_ONCE):
            own = list(names[start : start + AT_ONCE])
            with self._told():
                parts = [part for part, _ in self._parts(own, ROWS)]
                empty = [pa.array([], pa.string())] * len(own)
                table = pa.Table.from_batches(parts) if parts else pa.table(empty, names=own)
                columns = [table.column(name) for name in own]
            for name, column in zip(own, columns, strict=True):
                yield name, column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    @cached_property
    def _header(self) -> list[str]:
        with self._told():
            if self.is_parquet:
                return list(map(str, pq.read_schema(self.path).names))
            with self._text() as lines:
                for row in csv.reader(lines, delimiter=self.separator):
                    if row:
                        return row
        raise InputError(f"{self.path.name} is empty")

    @cached_property
    def _index(self) -> set[str]:
        """Columns of a Parquet file that pandas wrote as the index of a table."""
        found = pq.read_schema(self.path).metadata or {} if self.is_parquet else {}
        with contextlib.suppress(ValueError, KeyError, TypeError):
            columns = json.loads(found[b"pandas"])["index_columns"]
            return {each for each in columns if isinstance(each, str)}
        return set()

    @contextlib.contextmanager
    def _text(self) -> Iterator[io.TextIOBase]:
        opened = gzip.open if self.path.name.lower().endswith(".gz") else open
        with opened(self.path, "rt", encoding="utf-8-sig", newline="") as lines:
            yield lines

    def _separator(self, usual: str) -> str:
        """Returns the usual separator, or the one that header and first row show; says which."""
        with self._told(), self._text() as lines:
            first, second = lines.readline(BLOCK), lines.readline(BLOCK)
        if usual not in first:
            for other in SEPARATORS:
                if first.count(other) == second.count(other) > 0:
                    say(f"{self.path}: read with separator {other!r} (--separator sets another)")
                    return other
        return usual

    def _parts(self, names: list[str], rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yields the columns in parts, and how many bytes of the file were read."""
        if self.is_parquet:
            with pq.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
                share, done = self.path.stat().st_size / max(1, file.metadata.num_rows), 0
                own = [self._header[self.names.index(name)] for name in names]
                for batch in file.iter_batches(rows, columns=own, use_threads=False):
                    done += len(batch)
                    yield self._named(batch).select(names), round(share * done)
            return
        places = [self.names.index(name) for name in names]
        with pa.OSFile(str(self.path)) as raw:
            is_zipped = self.path.name.lower().endswith(".gz")
            source = pa.CompressedInputStream(raw, "gzip") if is_zipped else raw
            # An empty line is a row with an empty cell where there is one column.
            for number, batch in enumerate(
                _csv(source, self.separator, len(self.names) > 1, places)
            ):
                whole = (batch.slice(1) if number == 0 else batch).rename_columns(names)
                for start in range(0, len(whole), rows):
                    yield whole.slice(start, rows), raw.tell()

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns columns of a Parquet file, all nameless ones or none, as `names` calls them."""
        if "" not in batch.schema.names:
            return batch
        nameless = (name for name, own in zip(self.names, self._header, strict=True) if not own)
        return batch.rename_columns([own or next(nameless) for own in batch.schema.names])

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turns what Arrow and the system say of the file into one line without a cell."""
        try:
            yield
        except InputError:
            raise
        except (pa.ArrowException, ValueError, OSError, EOFError, KeyError, zlib.error) as error:
            raise InputError(self._words(" ".join(str(error).split()))) from None

    def _words(self, said: str) -> str:
        name = self.path.name
        if "Empty CSV" in said:
            return f"{name} is empty"
        if ("UTF8" in said or "can't decode" in said) and _is_zipped(self.path):
            return f"{name} is compressed by gzip (give it a name that ends in .gz)"
        if "invalid UTF8" in said or "codec can't decode" in said:
            return f"{name} is not text in UTF-8 (write it as UTF-8, which spreadsheets offer)"
        if found := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", said):
            row = f"row {int(found[1]) - 1}" if found[1] else "a row"
            return (
                f"{name}: {row} has {found[3]} cells, and the header has {found[2]} (a "
                f"{self.separator!r} that is too much or missing? one inside a cell needs quotes)"
            )
        said = re.sub(r"(Row #\d+: ).*", r"\1...", said)  # which quotes the row
        return f"{name} cannot be read as a table: {said[:200]}"

    def _check_type(self, kind: pa.DataType, name: str, what: str) -> None:
        """Refuses lists, records, bytes, and types of their own, such as UUID."""
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        is_bytes |= pa.types.is_fixed_size_binary(kind)
        if pa.types.is_nested(kind) or is_bytes or isinstance(kind, pa.BaseExtensionType):
            raise InputError(
                f"{self.path}, column {name}: {what} must be texts, numbers or truth values, got "
                f"{kind}"
            )

    def _numbers(self, column: pa.Array, is_number: bool = False) -> NDArray[np.float64] | None:
        """Returns a column as numbers, NaN where one is missing; None if it holds others.

        Texts of a Parquet file are numbers only if somebody says so (`is_number`).
        """
        kind = column.type
        if self.is_parquet and not (is_number and pa.types.is_string(kind)):
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if pa.types.is_boolean(kind) and not column.null_count:
                column, is_number = pc.cast(column, pa.int8()), True
            if not (is_number or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
                return None
            return pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        texts = pc.utf8_trim_whitespace(column)
        is_missing = pc.is_in(texts, MISSING)
        is_true = pc.is_in(texts, pa.array(TRUE))
        if len(texts) and pc.all(pc.or_(is_true, pc.is_in(texts, pa.array(FALSE)))).as_py():
            return is_true.to_numpy(zero_copy_only=False).astype(np.float64)
        known = pc.if_else(is_missing, None, texts)
        if self.separator != "," and _has_decimal_commas(known):
            known = pc.replace_substring(known, ",", ".")
            self._say_decimal()
        try:
            numbers = pc.cast(known, pa.float64())
        except pa.ArrowInvalid:
            return None
        return numbers.to_numpy(zero_copy_only=False)

    def _say_decimal(self) -> None:
        if not self._has_said:
            say(f"{self.path}: read with decimal ','")
        self._has_said = True

    def _categories(self, column: pa.Array, name: str) -> NDArray:
        """Returns a column as texts, where a missing one is empty."""
        kind, advice = column.type, f"leave it out: {self._said(self._drop, name)}"
        if pa.types.is_nested(kind):
            raise InputError(
                f"{self.path}: column {name} has lists or records, and is no category ({advice})"
            )
        if not self.is_parquet:
            column = pc.if_else(pc.is_in(pc.utf8_trim_whitespace(column), MISSING), "", column)
        elif pa.types.is_timestamp(kind):
            texts = column.to_pandas().astype(str)
            column = pa.array(texts.where(~is_empty(column), ""), pa.string())
        else:
            try:
                plain = column.dictionary_decode() if pa.types.is_dictionary(kind) else column
                column = pc.fill_null(pc.cast(plain, pa.string()), "")
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise InputError(
                    f"{self.path}: column {name} has bytes that are no text in UTF-8, and is no "
                    f"category ({advice})"
                ) from None
        different = len(column.unique())
        self._refuse_commas(column, name)
        if len(column) >= 100 and different > len(column) / 2:
            raise InputError(
                f"{self.path}: column {name} has {different} different texts in {len(column)} "
                f"rows, which is no category ({advice})"
            )
        return np.array(column.to_pylist(), dtype=object)

    def _refuse_commas(self, column: pa.Array, name: str) -> None:
        """Refuses numbers with commas of an unclear meaning, which would pass for categories."""
        texts = [each for each in column.unique().to_pylist() if each]
        with_comma = [each for each in texts if COMMA.match(each.strip())]
        others = pa.array([each for each in texts if each not in set(with_comma)], pa.string())
        if self.separator != "," and with_comma and self._numbers(others) is not None:
            raise InputError(
                f"{self.path}: the commas in the numbers of column {name} may stand for thousands "
                "or for decimals (write decimal points, and no sign for thousands)"
            )

    def _check_exact(self, column: pa.Array, numbers: NDArray[np.float64], name: str) -> None:
        """Refuses whole numbers that float64 cannot tell apart, such as ids of 18 digits."""
        is_large = bool((np.abs(numbers) > EXACT).any())
        if is_large and len(column.unique()) > len(np.unique(numbers)):
            raise InputError(
                f"{self.path}: column {name} has numbers that differ in their 17th digit or later, "
                f"which no model can tell apart ({self._said(self._drop, name)} leaves them out; "
                "or subtract the smallest)"
            )

    def _refuse_decorated(self, column: pa.Array, name: str) -> None:
        """Refuses numbers that would pass for categories, as some cell is none or has a sign."""
        if self.is_parquet:  # whose texts are meant to be texts
            return
        texts = [each.strip() for each in column.unique().to_pylist() if each and each.strip()]
        numbers = [each for each in texts if DECORATED.match(each)]
        if len(numbers) <= max(10, min(MANY_NUMBERS, len(column) / 2)):
            return
        wrong = next(
            (each for each in texts if self._numbers(pa.array([each]), True) is None), numbers[0]
        )
        row = [str(each or "").strip() for each in column.to_pylist()].index(wrong)
        raise InputError(
            f"{self.path}, row {row + 1}, column {name}: {wrong[:40]!r} is not a plain number, and "
            f"the column has {len(numbers)} different numbers (write them as 1234.5, and leave "
            f"missing ones empty; {self._said(self._keep, name)} takes them as categories, "
            f"{self._said(self._drop, name)} leaves them out)"
        )

    def _check_points(self, column: pa.Array, name: str) -> None:
        """Refuses 1.234 beside 567 where cells are separated by ';', as by people who write 0,5."""
        if self.is_parquet or self.separator != ";":
            return
        texts = [each.strip() for each in column.unique().to_pylist()]
        points = [each for each in texts if "." in each]
        if 0 < len(points) < len(texts) and all(re.match(POINTS, each) for each in points):
            raise InputError(
                f"{self.path}: the points in the numbers of column {name} may stand for thousands "
                "or for decimals (write no sign for thousands)"
            )

    def _refuse_text(self, column: pa.Array, name: str, advice: str) -> None:
        """Refuses a column of which some cell is not a number."""
        cells = [cell.as_py() for cell in column.unique()]
        wrong = [each for each in cells if self._numbers(pa.array([each], column.type)) is None]
        row = column.to_pylist().index(wrong[0]) if wrong else 0
        raise InputError(
            f"{self.path}, row {row + 1}, column {name}: {column[row].as_py()!r} is not a number"
            + advice.format(name=name)
        )

    def _said(self, option: str, name: str) -> str:
        return f"{option}=[{name}]" if option.startswith("dataset") else f"{option} {name!r}"

    def _check_numbers(self, numbers: NDArray[np.float64], name: str) -> None:
        for row in np.flatnonzero(np.abs(numbers) > LARGEST)[:1]:
            what = "is infinite"
            if np.isfinite(numbers[row]):
                what = (
                    f"{numbers[row]:g} is too large to be squared, at most {LARGEST:g} is allowed "
                    "(give the column another unit)"
                )
            raise InputError(f"{self.path}, row {row + 1}, column {name}: the number {what}")

    def _check_index(self, name: str, numbers: NDArray[np.float64] | None) -> None:
        """Refuses the row numbers that a program wrote beside the table."""
        what = "" if self._header[self.names.index(name)] else "has no name in the header"
        if numbers is not None and len(numbers) >= MANY:
            what = what or "counts the rows from 0" * np.array_equal(numbers, range(len(numbers)))
        if what:
            drop, keep = (self._said(option, name) for option in (self._drop, self._keep))
            raise InputError(
                f"{self.path}: column {name} {what}, and is no feature but the index of a table "
                f"({drop} leaves it out, {keep} keeps it)"
            )


def _has_decimal_commas(texts: pa.Array) -> bool:
    """Returns whether numbers have decimal commas: no other sign, and not all like 1,234."""
    with_comma = texts.filter(pc.match_substring(texts, ","))
    is_decimal = pc.all(pc.match_substring_regex(with_comma, DECIMAL)).as_py()
    is_clear = not pc.all(pc.match_substring_regex(with_comma, THOUSANDS)).as_py()
    has_points = pc.any(pc.match_substring(texts, ".")).as_py()
    return bool(len(with_comma) and is_decimal and is_clear and not has_points)


def _csv(
    source: pa.NativeFile, separator: str, skips_empty: bool, places: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yields a text file as texts, the header as its first row; refuses rows of another width."""
    names = [f"f{place}" for place in places]
    yield from arrow_csv.open_csv(
        source,
        arrow_csv.ReadOptions(block_size=BLOCK, use_threads=False, autogenerate_column_names=True),
        arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, ignore_empty_lines=skips_empty
        ),
        arrow_csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string()), null_values=[]
        ),
    )


def _is_zipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def is_empty(values: pa.Array) -> NDArray[np.bool_]:
    """Returns which cells are missing, or are texts of blanks only, bool (n,)."""
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        blank = pc.equal(pc.utf8_trim_whitespace(values), "").fill_null(True)
        missing = missing | blank.to_numpy(zero_copy_only=False)
    return missing
