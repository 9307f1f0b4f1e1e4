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
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from labeldp.support.progress import say
from labeldp.support.validate import InputError, did_you_mean

READERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
SEPARATORS = (";", "\t", "|", ",")
BLOCK_BYTES = 2**22
"""Bytes that are read of a text file at one time."""
ROWS_AT_ONCE = 2**17
"""Rows of a Parquet column that are read at one time."""
LARGE_FILE, COLUMNS_AT_ONCE = 2**28, 32
"""Bytes of a text file from which on one pass over it reads only some columns, and how many."""
LARGEST_NUMBER = 1e150
"""Largest number of a column: the variance of larger ones, by which it is scaled, overflows."""
EXACT = 2.0**53
"""Largest number up to which float64 holds every whole number."""
MANY_ROWS = 50
"""Rows from which on a column that counts them is taken for an index."""
MANY_NUMBERS = 50
"""Different numbers from which on a column is not one of categories, however they are written."""
MISSING = pa.array(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)  # fmt: skip
"""Cells of a feature that say nothing, as pandas has them. Names are missing only if empty."""
TRUE, FALSE = pa.array(["True", "TRUE", "true"]), pa.array(["False", "FALSE", "false"])
WITH_COMMA = re.compile(r"^[+-]?[0-9.,]*,[0-9]+$")
DECIMAL_COMMA, THOUSANDS_COMMA = r"^[+-]?[0-9]+,[0-9]+$", r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
THOUSANDS_POINT = re.compile(r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$")
DECORATED = re.compile(r"^\W*\d[\d\s.,'\u2019_]*\W*[^\W\d]{0,3}\W*$|^0x[0-9a-fA-F]+$")
"""A number with a unit, a sign of money, parentheses or signs for thousands."""
LONG_EXPONENT = r"^[0-9.]+[eE]\+?(?:1[6-9]|[2-9][0-9])$"
"""A whole number whose last digits a program lost."""


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
        if path.is_dir():
            raise InputError(
                f"{key}{path} is a folder, and must be one file (Spark writes one after "
                "coalesce(1): give the part that lies in the folder)"
            )
        if not path.is_file():
            raise InputError(f"{key}there is no file {path}")
        self.is_parquet, self._is_zipped = name.endswith(".parquet"), name.endswith(".gz")
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise InputError(f"--separator must be one sign, got {separator!r}")
        usual = "\t" if ".tsv" in name else ","
        self.separator = separator or (usual if self.is_parquet else self._separator(usual))
        self._has_said_decimal = False
        if not self.is_parquet:
            self._check_quotes()
        header = [name.strip() for name in self._header]
        if secret is not None and secret not in header:
            shown = f"; columns: {', '.join(header[:20])}" if self.is_parquet else (
                " (its first row must hold the names of the columns, without a comment above; they "
                "are not shown, as they may be labels)"
            )  # fmt: skip
            if len(header) == 1 and not self.is_parquet:
                shown += f"; it has one column, where {self.separator!r} separates them"
            raise InputError(f"{path} has no column {secret}{shown}")
        index = pd.Index(header)
        for twice in index[index.duplicated() & ((index != "") | self.is_parquet)][:1]:
            raise InputError(f"{path} has two columns {twice} (give each a name of its own)")
        self.names = [each or f"Unnamed: {place}" for place, each in enumerate(header)]
        self._place = {each: place for place, each in enumerate(self.names)}

    def check_column(self, option: str, name: str) -> str:
        """Returns the name of a column, which an option gives, if there is one."""
        if name not in self._place:
            some = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
            raise InputError(
                f"{self.path}: {option}={name} is not a column{did_you_mean(name, self.names)}; "
                f"columns: {some}"
            )
        return name

    def batches(self, name: str, rows: int = ROWS_AT_ONCE) -> Iterator[pa.Array]:
        """Yields a column, at most `rows` at a time; of a text file as texts, as they are written.

        Raises:
            InputError: the file cannot be read to its end.
        """
        with self._as_input_error():
            for part in self._parts([name], rows):
                self._check_type(part.column(0).type, name, "labels")
                yield part.column(0)

    def read_labels(self, name: str) -> pa.ChunkedArray:
        """Returns the column of labels."""
        parts = list(self.batches(name))
        if not sum(map(len, parts)):
            raise InputError(f"{self.path.name} has no rows")
        return pa.chunked_array(parts)

    def head(self, rows: int) -> pd.DataFrame:
        """Returns the first rows of all columns, at most `rows`; of a text file as texts."""
        with self._as_input_error():
            for part in self._parts(self.names, rows):
                return part.to_pandas(ignore_metadata=True)
        return pd.DataFrame({name: [] for name in self.names})

    def read_names(self, option: str, name: str, *, are_distinct: bool = False) -> NDArray:
        """Returns a column that names rows or persons: texts less blanks, or whole numbers.

        Raises:
            InputError: there is no such column, a cell is empty, or a name is there twice.
        """
        ((_, column),) = self._columns([self.check_column(option, name)])
        is_text = pa.types.is_string(column.type)
        if is_text and not _is_utf8(column):
            raise self._error(name, "it has a name that is no text in UTF-8 (write it as UTF-8)")
        if is_text and pc.any(pc.match_substring(column, "\0")).as_py():
            raise self._error(name, "it has a name with a NUL byte (write it as text)")
        for row in np.flatnonzero(is_empty(column))[:1]:
            raise self._error(name, f"it is empty, but {option} needs a name in each row", row)
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            with contextlib.suppress(pa.ArrowInvalid):  # too long for 64 bits
                column = pc.cast(column, pa.int64())
        self._check_type(column.type, name, "names")
        is_rounded = (
            pa.types.is_floating(column.type)
            and pc.any(pc.greater(pc.cast(column, pa.float64()), EXACT))
        ) or (is_text and pc.any(pc.match_substring_regex(column, LONG_EXPONENT)))
        if is_rounded and is_rounded.as_py():
            raise self._error(
                name,
                "it has numbers of more than 15 digits that were rounded, such as 1.2e+18 (write "
                "the file again with this column as text)",
            )
        is_plain = is_text or pa.types.is_integer(column.type)
        if is_plain:
            column = pc.utf8_trim_whitespace(column) if is_text else column
            names = column.to_numpy(zero_copy_only=False)
            names = names.astype(str) if is_text else names
        else:
            try:
                column.validate(full=True)
                names = np.array([str(each) for each in column.to_pylist()])
            except (pa.ArrowException, ValueError, OverflowError):
                raise self._error(
                    name, f"it is no {column.type} that has a text (write it as text)"
                ) from None
        if not are_distinct or (is_plain and len(column.unique()) == len(column)):
            return names
        for row in np.flatnonzero(pd.Index(names).duplicated())[:1]:
            raise self._error(
                name,
                f"it has {names[row]} a second time, but {option} needs a column that names each "
                "row once (a person with several rows is named by `release --unit`)",
                row,
            )
        return names

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
        given, chosen = set(numbers or ()), set(categories)
        left_out = {*drop, *(self._pandas_index() if names is None else ())}
        asked = [name for name in (self.names if names is None else names) if name not in left_out]
        wrong: dict[str, InputError] = {}
        for name, column in self._columns(asked):
            try:
                values = None if name in chosen else self._numbers(column, name in given)
                if name in given and values is None:
                    self._refuse_text(column, name, advice)
                # Texts of a Parquet file are meant to be texts.
                if not self.is_parquet and (values is None or self.separator != ","):
                    cells = pc.utf8_trim_whitespace(column.unique()).to_pylist()
                    self._check_ambiguous(cells, values is not None, name)
                    if values is None and name not in {*chosen, *keep}:
                        self._refuse_decorated(column, cells, name)
                if values is None:
                    found[name] = self._categories(column, name)
                else:
                    self._check_numbers(column, values, name)
                    found[name] = values
                if names is None and name not in {*keep, *given, *chosen}:
                    self._check_index(name, values)
            except InputError as error:
                wrong[name] = error
        if wrong:
            raise self._refused(wrong, may_drop=names is None)
        if not len(next(iter(found.values()), [0])):
            raise InputError(f"{self.path.name} has no rows")
        return pd.DataFrame(found)

    def _refused(self, wrong: dict[str, InputError], *, may_drop: bool) -> InputError:
        """Returns what is wrong with the first of some columns, with the names of the others."""
        first, *others = wrong
        if not others:
            return wrong[first]
        drops = " ".join(self._advice(self._drop, name) for name in others)
        remedy = f" ({drops} leaves them out)" if may_drop else ""
        return InputError(f"{wrong[first]}; nor can these be used: {', '.join(others)}{remedy}")

    def _columns(self, names: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
        """Yields whole columns by name."""
        is_large = self.path.stat().st_size > LARGE_FILE
        size = COLUMNS_AT_ONCE if is_large else max(1, len(names))
        for start in range(0, len(names), size):
            own = list(names[start : start + size])
            with self._as_input_error():
                parts = list(self._parts(own, ROWS_AT_ONCE))
                empty = [pa.array([], pa.string())] * len(own)
                table = pa.Table.from_batches(parts) if parts else pa.table(empty, names=own)
            for name, column in zip(own, table.columns, strict=True):
                yield name, column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    @cached_property
    def _header(self) -> list[str]:
        """The first row as it is written."""
        with self._as_input_error():
            if self.is_parquet:
                return list(map(str, pq.read_schema(self.path).names))
            with self._text() as lines:
                for row in csv.reader(lines, delimiter=self.separator):
                    if row:
                        return row
        raise InputError(f"{self.path.name} is empty")

    def _pandas_index(self) -> set[str]:
        """Returns the columns of a Parquet file that pandas wrote as the index of a table."""
        found = pq.read_schema(self.path).metadata or {} if self.is_parquet else {}
        with contextlib.suppress(ValueError, KeyError, TypeError):
            columns = json.loads(found[b"pandas"])["index_columns"]
            return {each for each in columns if isinstance(each, str)}
        return set()

    def _text(self) -> io.TextIOBase:
        opened = gzip.open if self._is_zipped else open
        return opened(self.path, "rt", encoding="utf-8-sig", newline="")

    def _check_quotes(self) -> None:
        """Refuses a quote that takes in rows: never closed, or closed by that of a later row."""
        with self._as_input_error(), self._text() as text:
            if not any('"' in block for block in iter(partial(text.read, BLOCK_BYTES), "")):
                return
        rows, width, record = -1, len(self._header), list[str]()

        def with_quotes(lines: Iterable[str]) -> Iterator[str]:
            nonlocal rows
            for line in lines:
                rows += not record and (width == 1 or bool(line.strip("\r\n")))
                if record or '"' in line:  # in a record, the reader asks for more: it is open
                    record.append(line)
                    yield line

        with self._as_input_error(), self._text() as lines:
            try:
                for _ in csv.reader(with_quotes(lines), delimiter=self.separator, strict=True):
                    if len(record) > 1 and width > 1 and self._are_rows(record, width):
                        raise csv.Error
                    record.clear()
            except csv.Error:
                place = f"row {rows}" if rows else "header"
                raise InputError(
                    f"{self.path}, {place}: a quote opens a cell there, and is not closed where "
                    "the cell ends (close it, or leave it out; one inside of quotes is doubled)"
                ) from None

    def _are_rows(self, lines: Sequence[str], width: int) -> bool:
        """Returns whether each line of one record is as wide as a row, but for the open quote."""
        cells = [next(csv.reader([each], delimiter=self.separator), []) for each in lines]
        cells[0] = [*cells[0][:-1], *cells[0][-1].split(self.separator)]
        return all(len(each) == width for each in cells if each)

    def _separator(self, usual: str) -> str:
        """Returns the usual separator, or the one that header and first row show; says which."""
        with self._as_input_error(), self._text() as lines:
            first, second = lines.readline(BLOCK_BYTES), lines.readline(BLOCK_BYTES)
        if usual not in first:
            for other in SEPARATORS:
                if first.count(other) == second.count(other) > 0:
                    say(f"{self.path}: read with separator {other!r} (--separator sets another)")
                    return other
        return usual

    def _parts(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yields columns in parts of at most `rows`; of a text file as texts.

        A row of another width is refused.
        """
        places = [self._place[name] for name in names]
        if self.is_parquet:
            called = dict(zip(self._header, self.names, strict=True))
            own = [self._header[place] for place in places]
            with pq.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, columns=own, use_threads=False):
                    named = batch.rename_columns([called[each] for each in batch.schema.names])
                    yield named.select(names)
            return
        own = [f"f{place}" for place in places]
        read = arrow_csv.ReadOptions(
            block_size=BLOCK_BYTES, use_threads=False, autogenerate_column_names=True
        )
        # An empty line is a row with an empty cell where there is one column.
        parse = arrow_csv.ParseOptions(
            delimiter=self.separator, newlines_in_values=True,
            ignore_empty_lines=len(self.names) > 1,
        )  # fmt: skip
        convert = arrow_csv.ConvertOptions(
            include_columns=own, column_types=dict.fromkeys(own, pa.string()), null_values=[]
        )
        with pa.OSFile(str(self.path)) as raw:
            source = pa.CompressedInputStream(raw, "gzip") if self._is_zipped else raw
            first = 1  # the header
            for batch in arrow_csv.open_csv(source, read, parse, convert):
                whole = batch.slice(first).rename_columns(list(names))
                first = 0
                for start in range(0, len(whole), rows):
                    yield whole.slice(start, rows)

    @contextlib.contextmanager
    def _as_input_error(self) -> Iterator[None]:
        """Turns what Arrow and the system say of the file into one line without a cell."""
        try:
            yield
        except InputError:
            raise
        except (pa.ArrowException, ValueError, OSError, EOFError, KeyError, zlib.error,
                OverflowError) as error:  # fmt: skip
            raise InputError(self._reason(" ".join(str(error).split()))) from None

    def _reason(self, message: str) -> str:
        name = self.path.name
        if "Empty CSV" in message:
            return f"{name} is empty"
        if re.search("invalid UTF8|can't decode", message):
            with self.path.open("rb") as file:
                if file.read(2) == b"\x1f\x8b":
                    return f"{name} is compressed by gzip (give it a name that ends in .gz)"
            return f"{name} is not text in UTF-8 (write it as UTF-8, which spreadsheets offer)"
        if found := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message):
            row = f"row {int(found[1]) - 1}" if found[1] else "a row"
            return (
                f"{name}: {row} has {found[3]} cells, and the header has {found[2]} (a "
                f"{self.separator!r} that is too much or missing? one inside a cell needs quotes)"
            )
        message = re.sub(r"(Row #\d+: ).*", r"\1...", message)  # which quotes the row
        message = re.sub(r"(Value|Wrapping|year) .*", r"\1 ...", message)  # or a cell
        return f"{name} cannot be read as a table: {message[:200]}"

    def _check_type(self, kind: pa.DataType, name: str, what: str) -> None:
        """Refuses lists, records, bytes, and types of their own, such as UUID."""
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        is_bytes |= pa.types.is_fixed_size_binary(kind)
        if pa.types.is_nested(kind) or is_bytes or isinstance(kind, pa.BaseExtensionType):
            raise self._error(name, f"{what} must be texts, numbers or truth values, got {kind}")

    def _numbers(self, column: pa.Array, must: bool = False) -> NDArray[np.float64] | None:
        """Returns a column as numbers, NaN where one is missing; None if it holds others.

        Texts of a Parquet file are numbers only if they must be.
        """
        kind = column.type
        if self.is_parquet and not (must and pa.types.is_string(kind)):
            if pa.types.is_boolean(kind) and (must or not column.null_count):
                column = pc.cast(column, pa.int8())
            elif not (
                pa.types.is_integer(kind) or pa.types.is_floating(kind)
                or pa.types.is_decimal(kind) or pa.types.is_null(kind)
            ):  # fmt: skip
                return None
            return pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        texts = pc.utf8_trim_whitespace(column)
        known = pc.if_else(pc.is_in(texts, MISSING), None, texts)
        is_true, is_false = pc.is_in(known, TRUE), pc.is_in(known, FALSE)
        is_truth = pc.or_(is_true, is_false)
        if pc.any(is_truth).as_py() and pc.all(pc.or_(is_truth, known.is_null())).as_py():
            if known.null_count and not must:
                return None  # a category of its own, as in a Parquet file
            known = pc.if_else(known.is_null(), None, pc.cast(is_true, pa.int8()))
        elif self.separator != "," and _has_decimal_commas(known):
            known = pc.replace_substring(known, ",", ".")
            if not self._has_said_decimal:
                say(f"{self.path}: read with decimal ','")
            self._has_said_decimal = True
        try:
            return pc.cast(known, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            return None

    def _categories(self, column: pa.Array, name: str) -> NDArray:
        """Returns a column as texts less blanks, where a missing one is empty."""
        kind, what = column.type, None
        if not self.is_parquet:
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.is_in(column, MISSING), "", column)
        elif pa.types.is_timestamp(kind):
            texts = column.to_pandas().astype(str)
            column = pa.array(texts.where(~is_empty(column), ""), pa.string())
        elif pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
            what = "has lists or records"
        else:
            try:
                plain = column.dictionary_decode() if pa.types.is_dictionary(kind) else column
                column = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(plain, pa.string()), ""))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                what = "has bytes that are no text in UTF-8"
        if what is None:
            different = len(column.unique())
            if len(column) < 100 or different <= len(column) / 2:
                return np.array(column.to_pylist(), dtype=object)
            what = f"has {different} different texts in {len(column)} rows"
        drop = self._advice(self._drop, name)
        raise self._error(None, f"column {name} {what}, and is no category (leave it out: {drop})")

    def _check_ambiguous(self, cells: list[str], are_numbers: bool, name: str) -> None:
        """Refuses commas and points of numbers that may stand for thousands or for decimals.

        Such as 1.234 next to 567, in a file of people who write 0,5.
        """
        if self.separator == ",":
            return
        what = ""
        if are_numbers and self.separator == ";":
            points = [each for each in cells if "." in each]
            if 0 < len(points) < len(cells) and all(map(THOUSANDS_POINT.match, points)):
                what = "points"
        elif not are_numbers and any(map(WITH_COMMA.match, cells)):  # which pass for categories
            others = [each for each in cells if not WITH_COMMA.match(each)]
            if self._numbers(pa.array(others, pa.string())) is not None:
                what = "commas"
        if what:
            raise self._error(
                name,
                f"its {what} may stand for thousands or for decimals (write decimal points, and no "
                "sign for thousands)",
            )

    def _refuse_decorated(self, column: pa.Array, cells: list[str], name: str) -> None:
        """Refuses numbers that would pass for categories, as some cell is none or has a sign."""
        numbers = [each for each in cells if each and DECORATED.match(each)]
        if len(numbers) <= max(10, min(MANY_NUMBERS, len(column) / 2)):
            return
        wrong = (each for each in cells if each and self._numbers(pa.array([each]), True) is None)
        cell = next(wrong, numbers[0])
        row = [each.strip() for each in column.to_pylist()].index(cell)
        raise self._error(
            name,
            f"{cell[:40]!r} is not a plain number, and the column has {len(numbers)} different "
            f"numbers (write them as 1234.5, and leave missing ones empty; "
            f"{self._advice(self._keep, name)} takes them as categories, "
            f"{self._advice(self._drop, name)} leaves them out)",
            row,
        )

    def _refuse_text(self, column: pa.Array, name: str, advice: str) -> None:
        """Refuses a column of which some cell is not a number."""
        cells = [cell.as_py() for cell in column.unique()]
        wrong = [each for each in cells if self._numbers(pa.array([each], column.type)) is None]
        row = column.to_pylist().index(wrong[0]) if wrong else 0
        what = f"{column[row].as_py()!r} is not a number{advice.format(name=name)}"
        raise self._error(name, what, row)

    def _check_numbers(self, column: pa.Array, numbers: NDArray[np.float64], name: str) -> None:
        """Refuses numbers that overflow, and those that float64 cannot tell apart, such as ids."""
        for row in np.flatnonzero(np.abs(numbers) > LARGEST_NUMBER)[:1]:
            large = f"{numbers[row]:g} is too large to be squared (give the column another unit)"
            what = large if np.isfinite(numbers[row]) else "is infinite"
            raise self._error(name, f"the number {what}", row)
        is_large = (np.abs(numbers) > EXACT).any()
        if is_large and len(column.unique()) > len(np.unique(numbers)):
            raise self._error(
                name,
                "it has numbers that differ in their 17th digit or later, which no model can tell "
                f"apart ({self._advice(self._drop, name)} leaves them out; or subtract the "
                "smallest)",
            )

    def _check_index(self, name: str, numbers: NDArray[np.float64] | None) -> None:
        """Refuses row numbers that a program wrote as a column."""
        what = "" if self._header[self._place[name]] else "has no name in the header"
        if numbers is not None and len(numbers) >= MANY_ROWS:
            what = what or "counts the rows from 0" * np.array_equal(numbers, range(len(numbers)))
        if what:
            drop, keep = (self._advice(option, name) for option in (self._drop, self._keep))
            raise self._error(
                name,
                f"it {what}, and is no feature but the index of a table ({drop} leaves it out, "
                f"{keep} keeps it)",
            )

    def _error(self, name: str | None, what: str, row: int | None = None) -> InputError:
        """Returns an error that says where in the file something is wrong."""
        place = "" if row is None else f", row {row + 1}"
        place += "" if name is None else f", column {name}"
        return InputError(f"{self.path}{place}: {what}")

    def _advice(self, option: str, name: str) -> str:
        return f"{option}=[{name}]" if option.startswith("dataset") else f"{option} {name!r}"


def _has_decimal_commas(texts: pa.Array) -> bool:
    """Returns whether numbers have decimal commas: no other sign, and not all like 1,234."""
    with_comma = texts.filter(pc.match_substring(texts, ","))
    is_decimal = pc.all(pc.match_substring_regex(with_comma, DECIMAL_COMMA)).as_py()
    is_clear = not pc.all(pc.match_substring_regex(with_comma, THOUSANDS_COMMA)).as_py()
    has_points = pc.any(pc.match_substring(texts, ".")).as_py()
    return bool(len(with_comma) and is_decimal and is_clear and not has_points)


def is_empty(values: pa.Array) -> NDArray[np.bool_]:
    """Returns which cells are missing, or are texts of blanks only, bool (n,)."""
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        blank = pc.equal(pc.utf8_trim_whitespace(values), "").fill_null(True)
        missing = missing | blank.to_numpy(zero_copy_only=False)
    return missing


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowException:
        return False
    return True
