"""What the releases of a ledger cost some rows, or the persons whose rows they are."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from labeldp.manifest import GIVEN_IN_PYTHON, Manifest
from labeldp.names import CONTROL, spellings
from labeldp.store import BudgetError
from labeldp.support.validate import InputError

PLACE, ROW, PERSON = "place", "row", "person"
"""Who pays: the row in this place of the file, the row of this id, the person of this name."""
SAME_ORDER, SAME_COUNTS = 1e-6, 0.05
"""Largest chance of an agreement, in order or in counts, that is taken for the same labels."""
HASH_BYTES = 16
"""Bytes of a keyed hash."""
COMMAND = {
    "again": "--again", "row_id": "--row-id {}", "unit": "--unit {}", "ledger": "--ledger PATH",
}  # fmt: skip
PYTHON = {
    "again": "again=True", "row_id": "row_ids=", "unit": "persons= and persons_column={!r}",
    "ledger": "ledger=",
}  # fmt: skip
"""How a message calls an option; {} is the column."""


class ColumnDigest:
    """Digest of a column of texts that comes in parts: in its order, and in any order."""

    def __init__(self) -> None:
        self.size = 0
        self._in_order, self._counts = hashlib.sha256(), Counter[str]()

    def add(self, texts: Sequence[str]) -> "ColumnDigest":
        """Adds the next cells, and returns the digest itself."""
        self._in_order.update("\x1f".join([*texts, ""]).encode(errors="surrogatepass"))
        self._counts.update(texts)
        self.size += len(texts)
        return self

    def in_order(self) -> bytes:
        """Returns 32 bytes that columns with the same cells in the same order share."""
        return self._in_order.digest()

    def any_order(self) -> bytes:
        """Returns 32 bytes that columns share whose cells are equal once they are sorted."""
        counts = "".join(f"{text}\x1f{count}\x1e" for text, count in sorted(self._counts.items()))
        return hashlib.sha256(counts.encode(errors="surrogatepass")).digest()

    def chance(self, any_order: bool) -> float:
        """Returns how likely other rows of the same shares have the same cells, or as many of each.

        It is 1 for a single row, and for a column that says the same everywhere.
        """
        counts = np.array(list(self._counts.values()), dtype=float)
        chance = (counts * np.log(counts / self.size)).sum()
        if any_order:
            chance += scipy.special.gammaln(self.size + 1) - scipy.special.gammaln(counts + 1).sum()
        return float(np.exp(chance))


@dataclass(frozen=True)
class AccountedRows:
    """Rows that are about to be released, and whose they are.

    Attributes:
        size: N.
        digest_of: returns the digest of a whole column of the same file, or None if there is no
            such column.
        label: the column that is released.
        ids: (N,), names of the rows; None: they are counted.
        row_id: the column of the ids; `GIVEN_IN_PYTHON`: not known; empty: none.
        persons: (N,), names of persons; None: each row is a person of its own.
        unit: the column of the persons; empty: none.
    """

    size: int
    digest_of: Callable[[str], ColumnDigest | None]
    label: str = ""
    ids: NDArray | None = None
    row_id: str | None = ""
    persons: NDArray | None = None
    unit: str = ""

    @property
    def kind(self) -> str:
        """Who pays."""
        return PERSON if self.persons is not None else PLACE if self.ids is None else ROW

    def of_release(self, manifest: Manifest, ids: NDArray, file: Path) -> "AccountedRows":
        """Returns those of these rows that were in a release.

        Raises:
            InputError: it counts persons, and these rows do not say who they are.
        """
        label = self.label
        if manifest.source and self.digest_of(manifest.source) is not None:
            label = manifest.source
        if is_counted(manifest, ids):
            some = AccountedRows(int(ids.max(initial=-1)) + 1, self.digest_of, label)
            places = np.where(ids < self.size, ids, -1)
        else:
            known = [] if self.ids is None else spellings(self.ids).tolist()
            place = {name: row for row, name in enumerate(known)}
            places = np.array([place.get(name, -1) for name in spellings(ids).tolist()], np.int64)
            is_whole = len(ids) == self.size and (places >= 0).all()
            digest_of = self.digest_of if is_whole else lambda column: None
            some = AccountedRows(len(ids), digest_of, label, ids, manifest.row_id)
        if manifest.unit is None:
            return some
        if self.persons is None or (places < 0).any():
            raise InputError(
                f"{file} counts each {manifest.unit.column}, and does not say whose rows it holds "
                f"(give the file that was released, --unit {manifest.unit.column} and its --row-id)"
            )
        return replace(some, persons=np.asarray(self.persons)[places], unit=manifest.unit.column)


class Entry(NamedTuple):
    """One release in the ledger; the fields are the columns of its table.

    Attributes:
        name: `Manifest.release`; with a digest of its rows if it was booked from a file, which may
            hold a part of the draw.
        identity: `Manifest.identity`.
        eps: what it cost each payer.
        label: the column that was released.
        time: when, in UTC.
        file: of the release; empty in Python.
        partial: the name that the file has until it is whole; empty from then on.
        kind: who paid.
        named_by: the column that names the payers.
        size: how many payers; in memory how many rows.
        keys: keyed hashes of their names, sorted; empty for places, which are 0 to size - 1.
        digest: keyed digest of the whole label column in its order; empty if it is not known.
        row_id: the column that names the rows; empty: their places; None: not known.
        any_order: keyed digest of the whole label column in any order; empty if it is not known.
        row_keys: in memory, where persons pay: keyed hashes of the names of their rows.
    """

    name: str
    identity: str
    eps: float
    label: str
    time: str
    file: str
    partial: str
    kind: str
    named_by: str
    size: int
    keys: bytes
    digest: bytes
    row_id: str | None
    any_order: bytes
    row_keys: bytes

    @property
    def release(self) -> str:
        """`Manifest.release`."""
        return self.name.partition(" ")[0]

    @property
    def unit(self) -> str:
        """The column of persons; empty: rows are counted."""
        return self.named_by if self.kind == PERSON else ""

    def is_sound(self) -> bool:
        """Returns whether every value is of the kind that it should be."""
        texts = (self.name, self.identity, self.label, self.time, self.file, self.partial,
                 self.named_by, self.row_id or "")  # fmt: skip
        hashes = (self.keys, self.digest, self.any_order, self.row_keys)
        return (
            all(isinstance(text, str) and not CONTROL.search(text) for text in texts)
            and all(isinstance(each, bytes) and len(each) % HASH_BYTES == 0 for each in hashes)
            and isinstance(self.eps, float)
            and self.eps > 0
            and isinstance(self.size, int)
            and self.size >= 0
            and self.kind in (PLACE, ROW, PERSON)
            and len(self.keys) == (0 if self.kind == PLACE else HASH_BYTES * self.size)
        )


@dataclass(frozen=True)
class Before:
    """What rows had spent before a release.

    Attributes:
        eps: of each row, or of its person, float64 (N,).
        entries: the releases that are in it.
        notes: what a user must know of it.
    """

    eps: NDArray[np.float64]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]

    def added_to(self, manifest: Manifest) -> Manifest:
        """Returns the manifest of one more release: it names these, and shares their identity."""
        if not self.entries:
            return manifest
        counted = tuple(sorted(each.name for each in self.entries))
        return replace(manifest, counted=counted, identity=self.entries[0].identity)


class RowAccount:
    """What the releases so far cost some rows; messages name the options of Python or the command.

    Whether labels are equal decides what is refused, never the cost that a release states: readers
    of the release would learn it.

    Args:
        known: the releases so far.
        key: of the hashes.
        rows: that are about to be released.
        options: `COMMAND` or `PYTHON`.
        path: of the ledger; None: in memory, where tables of many namings are.

    Attributes:
        row_keys: keyed hashes of the names of rows, (N,); empty where none is compared.
        payers: keyed hash of each row's payer, (N,); empty where payers have no name.
    """

    def __init__(
        self, known: Sequence[Entry], key: bytes, rows: AccountedRows, options: dict[str, str],
        path: Path | None,
    ) -> None:  # fmt: skip
        self.known, self.key = known, key
        self.rows, self.options, self.path = rows, options, path
        if path is not None:
            for each in self.known:
                check_naming(str(path), (each.row_id, each.unit), (rows.row_id, rows.unit), options)
        # No cached_property: in Python 3.11 it has a lock, which a forked process never gets.
        self.row_keys = self.payers = _array(b"")
        if rows.ids is not None and (rows.persons is None or path is None):
            self.row_keys = self.payers = _keys(key, spellings(rows.ids))
        if rows.persons is not None:
            names, places = np.unique(spellings(rows.persons), return_inverse=True)
            self.payers = _keys(key, names)[places]

    def paid_by_all(self) -> set[str]:
        """Returns the releases that all payers of these rows paid for, by `Manifest.release`."""
        return {
            each.release
            for each in self.known
            if (each.size >= self.rows.size if self.rows.kind == PLACE
                else _among(self.payers, _array(each.keys)).all())
        }  # fmt: skip

    def before(self, again: bool) -> Before:
        """Returns what the payers have spent on all releases in the ledger."""
        total, entries, notes = np.zeros(self.rows.size), [], []
        for each in self.known:
            costs = self._costs(each, again)
            if costs.any():
                total += costs
                entries.append(each)
        if self.known and not entries and self.path is not None:
            notes.append(
                f"{self.path} holds none of these rows: if they were released under other names, "
                "their true eps is larger than stated"
            )
        return Before(total, tuple(entries), tuple(notes))

    def _costs(self, each: Entry, again: bool) -> NDArray[np.float64]:
        """Returns what each row's payer spent on an entry, (N,)."""
        kind = self.rows.kind
        if {each.kind, kind} == {ROW, PERSON} and self.rows.ids is not None:
            what = "row by row" if each.kind == ROW else "and persons were counted"
            if _among(self.row_keys, _array(each.keys if kind == PERSON else each.row_keys)).any():
                raise self._refused(each, what, each.kind)
        if each.kind == kind != PLACE:
            paid = _among(self.payers, _array(each.keys))
            if not paid.any() and self._has_labels_of(each):
                raise self._refused(each, "under other names", kind)
            return np.where(paid, each.eps, 0.0)
        # Without names a table is known by all its labels together. Of a file that has one naming,
        # nothing but that can be; in the memory of a program there are many tables.
        is_same = self._has_labels_of(each, in_place=each.kind == kind)
        if each.kind == PERSON:
            if is_same:
                raise self._refused(each, "and persons were counted", PERSON)
            return np.zeros(self.rows.size)
        if self.path is not None and not is_same:
            raise InputError(
                f"{self.path} knows rows by their places, and column {each.label} is not what it "
                "was when it was released: rows may have moved (release the file as it was; "
                f"{self.options['ledger']} is for really other rows)"
            )
        is_counted = is_same or (again and each.size == self.rows.size)
        costs = np.where(is_counted & (np.arange(self.rows.size) < each.size), each.eps, 0.0)
        if kind != PERSON:
            return costs
        who = np.unique(self.payers, return_inverse=True)[1]  # a person of several rows
        return np.bincount(who, costs)[who].astype(np.float64)

    def _has_labels_of(self, each: Entry, *, in_place: bool = False) -> bool:
        """Returns whether the file has the column that was released, and not by chance.

        In place, in the same order; else in any order.
        """
        for column in {self.rows.label, each.label} if each.digest else ():
            if (digest := self.rows.digest_of(column)) is None:
                continue
            if digest.chance(any_order=False) <= (1 if in_place else SAME_ORDER) and (
                self._keyed(digest.in_order()) == each.digest
            ):
                return True
            if (
                not in_place
                and digest.chance(any_order=True) <= SAME_COUNTS
                and (self._keyed(digest.any_order()) == each.any_order)
            ):
                return True
        return False

    def _refused(self, each: Entry, what: str, kind: str) -> BudgetError:
        option = self.options["unit" if kind == PERSON else "row_id"].format(each.named_by)
        return BudgetError(
            f"these labels were released before {what}, at eps={each.eps:g}"
            f"{f', says {self.path}' if self.path else ''} (give {option} as it was then; "
            f"{self.options['ledger']} is for really other rows)"
        )

    def _keyed(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, digest_size=HASH_BYTES, key=self.key).digest()

    def entry(self, manifest: Manifest) -> Entry:
        """Returns the entry of a release of all payers."""
        rows, digest = self.rows, self.rows.digest_of(self.rows.label)
        keys = b"" if rows.kind == PLACE else _different(self.payers).tobytes()
        has_rows = self.path is None and rows.kind == PERSON and rows.ids is not None
        return Entry(
            manifest.release,
            manifest.identity,
            manifest.eps,
            rows.label,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            file="",
            partial="",
            kind=rows.kind,
            named_by=rows.unit or rows.row_id or "",
            size=rows.size if self.path is None else len(keys) // HASH_BYTES or rows.size,
            keys=keys,
            digest=self._keyed(digest.in_order()) if digest else b"",
            row_id=rows.row_id,
            any_order=self._keyed(digest.any_order()) if digest else b"",
            row_keys=_different(self.row_keys).tobytes() if has_rows else b"",
        )


def check_naming(
    holder: str, old: tuple[str | None, str], new: tuple[str | None, str], options: dict[str, str]
) -> None:
    """Refuses rows that are named, or counted, in another way than `holder` has them.

    Args:
        holder: a ledger or a release, for the message.
        old: its column of row ids (empty: places; None: not known), its column of persons.
        new: those of the rows.
        options: `COMMAND` or `PYTHON`.
    """
    is_known = None not in (old[0], new[0]) and not (
        GIVEN_IN_PYTHON in (old[0], new[0]) and old[0] and new[0]
    )
    for key, was, is_now in zip(("row_id", "unit"), old, new, strict=True):
        if was == is_now or (key == "row_id" and not is_known):
            continue
        option = options[key]
        remedy = f"give {option.format(was)}" if was else f"leave {option.partition(' ')[0]} out"
        said = {
            "row_id": [f"knows rows by {'column ' * bool(column)}{column or 'their places'}"
                       for column in (was, is_now)],
            "unit": [f"counts each {column or 'row'}" for column in (was, is_now)],
        }[key]  # fmt: skip
        raise InputError(
            f"{holder} {said[0]}, and this release {said[1]} ({remedy}; "
            f"{options['ledger']} is for really other rows)"
        )


def name_of_part(manifest: Manifest, ids: NDArray) -> str:
    """Returns the name of the entry of a release that was booked from a file with these rows."""
    rows = hashlib.sha256("\n".join(sorted(ids.astype(str))).encode()).hexdigest()
    return f"{manifest.release} {rows[:32]}"


def is_counted(manifest: Manifest, ids: NDArray) -> bool:
    """Returns whether the rows of a release were counted; an older version did not say."""
    if manifest.row_id is None:
        return ids.dtype.kind in "iu" and 0 in ids
    return manifest.row_id == ""


def refusal(before: Before, eps: float, again: str, path: Path | None) -> str:
    """Returns what to say of rows that have spent something before."""
    spent, last = before.eps.max(), before.entries[-1]
    what = f"of column {last.label}, " if last.label else ""
    return (
        f"these labels were released before, {what}and spent eps={spent:g}"
        f"{f' says {path}' if path else ''} (use that release; or give {again}, which adds "
        f"eps={eps:g} to it: {spent + eps:g} in total)"
    )


def _keys(key: bytes, texts: NDArray) -> NDArray:
    """Returns keyed hashes of names in their one spelling, `HASH_BYTES` bytes each, (n,)."""
    keyed = hashlib.blake2b(digest_size=HASH_BYTES, key=key)
    hashes = []
    for text in texts.tolist():
        own = keyed.copy()
        own.update(text.encode())
        hashes.append(own.digest())
    return _array(b"".join(hashes))


def _array(keys: bytes) -> NDArray:
    return np.frombuffer(keys, f"S{HASH_BYTES}")


def _different(keys: NDArray) -> NDArray:
    """Returns the different keys, sorted; `np.unique` of texts takes ten times as long."""
    found = np.sort(keys)
    return found[np.append(True, found[1:] != found[:-1])]


def _among(keys: NDArray, known: NDArray) -> NDArray[np.bool_]:
    """Returns which keys are known, bool (n,); by their first 64 bits, as whole numbers.

    Those of a million names agree with another million's by chance once in 10^7 ledgers, and then a
    row counts what it did not spend.
    """
    if not len(known):
        return np.zeros(len(keys), bool)
    first, second = (each.view(np.uint64)[::2] for each in (keys, known))
    second = np.sort(second)  # np.isin makes both different first, which takes ten times as long
    return second[np.searchsorted(second, first).clip(max=len(second) - 1)] == first
