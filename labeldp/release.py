"""A release: what was released of your labels, in memory and as a Parquet file.

It is all that anybody may learn of them.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.manifest import BEFORE, GIVEN, ClassName, Manifest, summary_of
from labeldp.mechanisms.encodings import ENTRIES, AsReleased, joined
from labeldp.names import checked_row_ids
from labeldp.store import StoredRelease
from labeldp.support.files import replacing
from labeldp.support.validate import InputError

AT_ONCE = 2**24
"""Bytes of messages that are written at one time."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """What was released of N labels, and the manifest that says how.

    It holds no label, so it can be handed over. Rows can be chosen as of an array,
    `release[indices]`, and scikit-learn takes it as `y` in cross-validation.

    What was released is kept in the mechanism's small form, which may be a few bytes a row where
    outputs are a bit for each class. What needs outputs or likelihoods of all rows makes N x K
    numbers of them; `batches` gives some rows at a time.

    Attributes:
        messages: what was released, as `manifest.stored` says, CPU, first axis N; of numbers
            float64 (N,), in [-1, 1] before the noise.
        row_ids: (N,), distinct; which rows of the features they belong to.
        spent: float64 (N,), eps of each row over all its releases so far; of its person, where the
            manifest has a unit.
        manifest: mechanism, parameters, eps, classes.
    """

    messages: Tensor
    row_ids: NDArray
    spent: NDArray[np.float64]
    manifest: Manifest

    def __post_init__(self) -> None:
        if not len(self.messages) == len(self.row_ids) == len(self.spent):
            raise InputError("a release needs an output, a row id and a cost for each row")

    def __repr__(self) -> str:
        return (f"<Release of {len(self):,} labels by {self.mechanism}, eps={self.eps:g}, "
                f"eps_spent={self.eps_spent:g}>")  # fmt: skip

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def mechanism(self) -> str:
        """The mechanism's name on the command line."""
        return self.manifest.mechanism

    @property
    def eps(self) -> float:
        """What this release cost a label; a person, where the manifest has a unit."""
        return self.manifest.eps

    @property
    def classes(self) -> list[ClassName]:
        """The classes in the order of the likelihood's columns; empty for numbers."""
        return list(self.manifest.classes)

    @property
    def eps_spent(self) -> float:
        """What the worst-off label, or person, has spent over all releases of it so far."""
        return float(self.spent.max()) if len(self) else 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K) for classes, (N,) for numbers; scikit-learn asks for it."""
        return (len(self), len(self.classes)) if self.classes else (len(self),)

    def __getitem__(self, rows: object) -> "Release":
        """Returns the release of the chosen rows: positions, truth values or a slice."""
        if isinstance(rows, tuple):  # scikit-learn writes y[indices, ...]
            rows = rows[0]
        if not isinstance(rows, slice) or (rows.step or 1) < 0:
            rows = np.ascontiguousarray(np.arange(len(self))[rows])  # type: ignore[call-overload]
        return replace(
            self,
            messages=self.messages[rows],
            row_ids=self.row_ids[rows],
            spent=self.spent[rows],
        )

    def batches(self, size: int) -> Iterator["Release"]:
        """Yields the release in parts of at most `size` rows, in order."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray:
        """Returns the posterior under equally frequent classes, float64 (N, K); numbers as drawn.

        No estimator takes it for labels: its rows are shares.
        """
        if not self.classes:
            return self.unbiased_values().astype(dtype or np.float64)  # type: ignore[call-overload]
        shares = self.stored.centred_log_likelihood.double().softmax(1).numpy()
        return shares.astype(dtype or np.float64)  # type: ignore[call-overload]

    @cached_property
    def outputs(self) -> Tensor:
        """What the mechanism gave: int64 labels (N,), uint8 bits (N, K) or float32 reals (N, K)."""
        return self.manifest.encoding().outputs(self.messages) if self.classes else self.messages

    @cached_property
    def stored(self) -> StoredRelease:
        """The same as learners of the benchmark take it; positions count from 0."""
        self._needs_classes("losses")
        return StoredRelease(
            torch.arange(len(self)), self.outputs, self.manifest.class_mechanism(),
            len(self.classes),
        )  # fmt: skip

    def log_likelihood(self) -> NDArray[np.float64]:
        """Returns log P(what was released | class), exact, float64 (N, K)."""
        return self.stored.log_likelihood.numpy()

    def unbiased_values(self) -> NDArray[np.float64]:
        """Returns a number for each row whose mean, over the noise, is the true one, (N,)."""
        if self.manifest.bounds is None:
            raise InputError("this is a release of classes, not of numbers")
        low, high = self.manifest.bounds
        return (low + high) / 2 + (high - low) / 2 * self.outputs.numpy()

    def summary(self) -> str:
        """Returns what a person wants to know of the release, in a few lines."""
        return summary_of(self.manifest, len(self), self.eps_spent)

    def save(self, path: str | Path) -> None:
        """Writes a Parquet file with row ids, what was released, what was spent, the manifest.

        Args:
            path: ends in .parquet.

        Raises:
            InputError: another ending; or the file holds another release, or more rows of this one.
            CannotWrite: the folder is not there, cannot be written to, or is full.
        """
        path = Path(path)
        if path.suffix != ".parquet":
            raise InputError(f"a release is saved as a Parquet file, whose name must end in "
                             f".parquet, got {path}")  # fmt: skip
        check_replaces(path, self.row_ids, self.manifest)
        width = self.messages[0].nbytes if len(self) else 1
        rows = max(1, AT_ONCE // max(1, width))
        parts = self.batches(rows) if len(self) else iter([self])
        with replacing(path) as partial:
            write_parts(
                partial,
                (
                    part_of(part.messages.numpy(), part.row_ids, part.spent, part.manifest)
                    for part in parts
                ),
            )

    @classmethod
    def of_reports(
        cls, manifest: Manifest, row_ids: Sequence[int | str], reports: ArrayLike
    ) -> "Release":
        """Returns the release that clients drew one by one, each on a device of its own.

        Args:
            manifest: that the clients had.
            row_ids: N distinct ones.
            reports: what they drew: class numbers (N,), or bits (N, K).

        Raises:
            InputError: a report that the mechanism cannot have drawn.
        """
        try:
            given = np.asarray(reports)
        except ValueError:  # lists of several lengths
            given = np.array("")
        if given.dtype.kind not in "biuf" or given.ndim not in (1, 2):
            raise InputError(
                "reports must be what clients draw: class numbers (N,), or bits (N, K)"
            )
        are_bits = given.ndim == 2 and bool(np.isin(given, (0, 1)).all())
        are_labels = given.ndim == 1 and given.dtype.kind != "f"
        kind = np.uint8 if are_bits else np.int64 if are_labels else np.float32
        ids = checked_row_ids(row_ids, len(given))
        spent = np.full(len(given), manifest.eps)
        own = replace(manifest, release=Manifest("", {}, 1.0).release, row_id=GIVEN)
        release = cls(torch.from_numpy(given.astype(kind)), ids, spent, own)
        try:
            possible = (release.log_likelihood() > -np.inf).any(1)
        except InputError as error:
            raise InputError(f"reports do not fit {manifest.mechanism}: {error}") from None
        numbers = np.isfinite(given).reshape(len(given), -1).all(1)
        impossible = np.flatnonzero(~(possible & numbers))
        if len(impossible):
            raise InputError(
                f"report {impossible[0]} cannot come from {manifest.mechanism} "
                "(was it drawn by another manifest?)"
            )
        return release

    @classmethod
    def joined(cls, parts: Sequence["Release"]) -> "Release":
        """Returns several releases of different rows, made alike, as one.

        Parts do not say whose rows they hold, so where they count persons, each row counts what
        the worst-off person of every other draw has spent too: never too little.

        Raises:
            InputError: none, a row twice, or manifests that differ.
        """
        if not parts:
            raise InputError("there is no release to join")
        first = parts[0].manifest
        if len({part.manifest.stored for part in parts}) > 1:
            first = replace(first, stored=AsReleased.name)
            parts = [replace(part, messages=part.outputs, manifest=first) for part in parts]
        if not all(part.manifest.like(first) for part in parts):
            raise InputError("releases to be joined must have the same mechanism, eps and classes")
        worst = {part.manifest.release: 0.0 for part in parts}
        if first.unit:
            for part in parts:
                name = part.manifest.release
                worst[name] = max(worst[name], part.eps_spent)
        fresh = Manifest("", {}, 1.0)
        counted = set(worst).union(*(part.manifest.counted for part in parts))
        if len(worst) == 1:  # parts of one draw
            fresh, counted = replace(fresh, release=first.release), set(first.counted)
        row_ids = {part.manifest.row_id for part in parts}
        total = sum(len(part) for part in parts)
        return cls(
            joined([part.messages for part in parts]),
            checked_row_ids(np.concatenate([part.row_ids for part in parts]), total),
            np.concatenate(
                [part.spent + sum(worst.values()) - worst[part.manifest.release] for part in parts]
            ),
            replace(
                first,
                identity=fresh.identity,
                release=fresh.release,
                counted=tuple(sorted(counted)),
                row_id=first.row_id if len(row_ids) == 1 else None,
            ),
        )

    def _needs_classes(self, what: str) -> None:
        if not self.classes:
            raise InputError(f"{what} need a release of classes, and this is one of numbers")


def load_release(path: str | Path) -> Release:
    """Returns the release that `Release.save` wrote.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    messages, row_ids, spent, manifest = read_parts(Path(path))
    try:
        ids = checked_row_ids(row_ids, len(messages))
        release = Release(torch.from_numpy(messages), ids, spent, manifest)
        _check(release)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError, IndexError, RuntimeError) as error:  # columns of other types
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path} holds no release: {reason}") from None
    return release


def _check(release: Release) -> None:
    """Refuses what the mechanism cannot have drawn; some rows at a time."""
    if not release.classes:
        return
    form, count = release.manifest.encoding(), len(release.classes)
    form.checked(release.messages)
    if form.name == AsReleased.name:
        for rows in release.batches(max(1, ENTRIES // count)):
            if np.isnan(rows.log_likelihood()).any():
                raise InputError("an output is not a number")


KEY = b"labeldp"
MAGIC = b"PAR1"
"""Begins every Parquet file."""
COLUMNS = ["row", "released", "eps_spent"]


def part_of(
    messages: NDArray, row_ids: NDArray, spent: NDArray[np.float64], manifest: Manifest
) -> pa.Table:
    """Returns some rows of a release as a table.

    Args:
        messages: whole numbers or reals (n,); bytes, uint8 (n, w); lists of whole numbers that end
            before the first -1, int32 (n, w); reals (n, K).
        row_ids: numbers or texts, (n,).
        spent: eps of each row, or of its person where the manifest has a unit, (n,).
        manifest: goes into the head of the file.
    """
    columns = [pa.array(row_ids), _column(messages, manifest), pa.array(spent)]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    return table.replace_schema_metadata({KEY: manifest.to_json().encode()})


def write_parts(path: Path, parts: Iterable[pa.Table]) -> None:
    """Writes tables of rows, one after the other, as one file."""
    with contextlib.ExitStack() as opened:
        writer = None
        for part in parts:
            if writer is None:
                writer = opened.enter_context(pq.ParquetWriter(path, part.schema))
            writer.write_table(part)


def read_parts(path: Path) -> tuple[NDArray, NDArray, NDArray, Manifest]:
    """Returns messages, row ids, costs and manifest.

    Raises:
        InputError: there is no such file, it is not a Parquet file, or it holds no release.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError):
        raise InputError(f"{path} is not a Parquet file") from None
    metadata = table.schema.metadata or {}
    if KEY not in metadata or table.column_names != COLUMNS:
        raise InputError(f"{path} holds no release (write one by `labeldp release`)")
    try:
        manifest = Manifest.from_json(metadata[KEY].decode(errors="replace"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name in COLUMNS[1:]:
        kind = table.schema.field(name).type
        is_list = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind)
        values = kind.value_type if is_list and name == "released" else kind
        is_number = pa.types.is_integer(values) or pa.types.is_floating(values)
        is_bytes = pa.types.is_fixed_size_binary(kind) and name == "released"
        if not (is_number or is_bytes) or table[name].null_count:
            raise InputError(f"{path} holds no release: its column {name} is not all numbers")
    # Arrow's memory may not be written to.
    parts = (
        _array(table["released"], len(manifest.classes)),
        table["row"].to_numpy(),
        table["eps_spent"].to_numpy(),
    )
    messages, row_ids, spent = (np.array(part) for part in parts)
    return messages, row_ids, *_named(path, spent, manifest)


def read_rows(path: Path) -> tuple[NDArray, NDArray[np.float64], Manifest]:
    """Returns row ids, costs and manifest of a release, without what was released.

    Raises:
        InputError: the file holds no release.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        manifest = Manifest.from_json(metadata[KEY].decode(errors="replace"))
        table = pq.read_table(path, columns=[COLUMNS[0], COLUMNS[2]], partitioning=None)
        spent = np.asarray(table["eps_spent"].to_numpy(), dtype=np.float64)
        return table["row"].to_numpy(), *_named(path, spent, manifest)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path} holds no release: {reason}") from None


def _named(
    path: Path, spent: NDArray[np.float64], manifest: Manifest
) -> tuple[NDArray[np.float64], Manifest]:
    """Returns costs and manifest as of now for a file of an older version, which names no release.

    Such files hold what a row has spent, not its person.
    """
    if manifest.release:
        return spent, manifest
    with path.open("rb") as file:  # a name that copies share
        name = hashlib.file_digest(file, "sha256").hexdigest()[:32]
    most = manifest.unit.most_rows if manifest.unit else 1
    return spent * most, replace(manifest, release=name, counted=(BEFORE + name,))


def holds_release(path: Path) -> bool:
    """Returns whether a file, of whatever name, is a release; reads no more than its end.

    Raises:
        InputError: it may not be read, or is damaged: it may be an earlier release.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
        return KEY in (pq.read_schema(path).metadata or {})
    except PermissionError:
        if path.suffix.lower() != ".parquet":
            return False
        what, remedy = "may not be read", "see who may read it"
    except (OSError, pa.ArrowInvalid):
        what, remedy = "is no whole Parquet file", "copy it again"
    raise InputError(
        f"{path} {what}, and may hold an earlier release ({remedy}, or write to another folder)"
    )


def check_replaces(path: Path, row_ids: NDArray, manifest: Manifest) -> None:
    """Refuses to write a release over another one, or over more rows of the same one.

    Raises:
        InputError: what would be lost.
    """
    if not path.exists() or not holds_release(path):
        return
    ids, _, earlier = read_rows(path)
    lost = int((~np.isin(ids.astype(str), row_ids.astype(str))).sum())
    if earlier.release == manifest.release and not lost:
        return
    what = "another release"
    if earlier.release == manifest.release:
        what = f"{lost:,} rows of this release that are not here"
    raise InputError(f"{path} holds {what} (save under another name)")


def _column(messages: NDArray, manifest: Manifest) -> pa.Array:
    """Returns messages as a column; outputs of old releases, (n, K), stay lists of numbers."""
    size = len(messages)
    if messages.ndim == 1:
        return pa.array(messages)
    width = messages.shape[1]
    if manifest.stored == "outputs":
        return pa.FixedSizeListArray.from_arrays(pa.array(messages.ravel()), width)
    if messages.dtype == np.uint8:
        raw = pa.py_buffer(np.ascontiguousarray(messages))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, raw])
    kept = messages >= 0
    ends = np.concatenate([[0], kept.sum(1).cumsum()]).astype(np.int32)
    return pa.ListArray.from_arrays(ends, messages[kept])


def _array(column: pa.ChunkedArray, most: int) -> NDArray:
    """Returns a column as the array that `_column` was given; a list has at most `most` entries."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return column.combine_chunks().flatten().to_numpy().reshape(-1, kind.list_size)
    if pa.types.is_fixed_size_binary(kind):
        chunks = [np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, kind.byte_width)[
            chunk.offset : chunk.offset + len(chunk)] for chunk in column.chunks]  # fmt: skip
        return np.concatenate(chunks) if chunks else np.empty((0, kind.byte_width), np.uint8)
    if pa.types.is_list(kind):
        counts = np.concatenate([np.zeros(0, np.int64), *(
            chunk.value_lengths().to_numpy() for chunk in column.chunks)])  # fmt: skip
        if counts.max(initial=0) > most:  # before it fills the memory
            raise InputError(f"a list of the release has more than {most} entries")
        found = np.full((len(counts), int(counts.max(initial=0))), -1, np.int32)
        values = [chunk.flatten().to_numpy() for chunk in column.chunks]
        found[np.arange(found.shape[1]) < counts[:, None]] = np.concatenate(values)
        return found
    return column.to_numpy()
