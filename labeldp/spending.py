"""What rows, or persons, have spent on the releases that there are, each release counted once.

A release says what its rows have spent in all, and which earlier releases are in that number. So
what is known is the sum of each release's own eps, and what a release counted whose file is not
here. The sum is never too small; where files leave open what they share, it may be too large.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.manifest import BEFORE, GIVEN, PARTS, Manifest
from labeldp.support.validate import InputError

UNSURE = (
    "{} does not say which earlier releases are in what it has spent, or their files are not here: "
    "all of it is added, so that the true eps may be smaller than what is said"
)
PLACES = (
    "earlier releases of these rows have {before:,} rows, and here are {now:,}: as rows have no "
    "names, each is taken for the one in its place, so that the true eps of some is larger than "
    "what is said unless only the last rows are new or gone ({option} names rows)"
)
WHOLE = re.compile(r"^\+?(-?)0*([0-9]+)(?:\.0*)?$")
"""A whole number as somebody may have written it: 7, +7, 007, 7.0."""
NUMBER = re.compile(r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")
MOMENT = re.compile(
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?(Z|[+-][0-9:]+)?$"
)
"""A date with a time, as pandas, NumPy or a database writes it."""
UNSEEN = (
    "{} does not say whose rows it counts: persons who have none of its rows here are taken for "
    "new ones, so that the true eps of some may be larger than what is said (keep a row of each)"
)
ROUNDING = 1e-9
"""Share of a sum below which a difference is none."""


@dataclass(frozen=True, eq=False)
class Earlier:
    """A release without what was released.

    Attributes:
        row_ids: (N,).
        spent: eps of each row, or of its person, over all its releases, (N,).
        manifest: of the release.
    """

    row_ids: NDArray
    spent: NDArray[np.float64]
    manifest: Manifest

    @property
    def counts(self) -> frozenset[str]:
        """The releases that are in `spent`, apart from this one."""
        return frozenset(self.manifest.counted)


@dataclass(frozen=True)
class PersonRows:
    """Rows that are released now, and whose they are.

    Attributes:
        names: their ids as texts, (N,).
        persons: number of each row's person, int64 (N,); None: each row is a person of its own.
    """

    names: pd.Index
    persons: NDArray[np.int64] | None

    @property
    def groups(self) -> int:
        """How many persons there are."""
        return len(self.names) if self.persons is None else int(self.persons.max(initial=-1)) + 1

    def total(self, values: NDArray) -> NDArray[np.float64]:
        """Returns the sum over each person's rows."""
        if self.persons is None:
            return values.astype(np.float64)
        return np.bincount(self.persons, values, self.groups).astype(np.float64)

    def most(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the largest over each person's rows, at least 0."""
        if self.persons is None:
            return values
        found = np.zeros(self.groups)
        np.maximum.at(found, self.persons, values)
        return found


class Spent:
    """What one release says of each person.

    Args:
        release: with the ids of its rows.
        rows: of now.
    """

    def __init__(self, release: Earlier, rows: PersonRows) -> None:
        self.manifest, self.counts, self.rows = release.manifest, release.counts, rows
        place = pd.Index(names_of(release.row_ids)).get_indexer(rows.names)
        self.has = place >= 0
        self.in_rows = rows.total(self.has)
        spent = np.zeros(len(place))
        spent[self.has] = release.spent[place[self.has]]
        by_person = rows.persons is not None and release.manifest.unit is not None
        self.spent = rows.most(spent) if by_person else rows.total(spent)
        self.own = self.eps_of(self.has)

    def eps_of(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Returns what this release alone cost each person, by the chosen ones of its rows."""
        # Without a unit, each row of a person costs eps; with one, all of them together do.
        each = np.where(chosen, self.manifest.eps, 0.0)
        return self.rows.most(each) if self.manifest.unit else self.rows.total(each)

    def beyond(self, others: Sequence["Spent"]) -> NDArray[np.float64]:
        """Returns what it counted of releases whose files are not here."""
        counted = [other for other in others if other.manifest.release in self.counts]
        all_here = len({other.manifest.release for other in counted}) == len(self.counts)
        # Whoever counted it may have had a table with fewer rows of a person. That is no matter if
        # all files are here; else only rows that both have are sure to be in the number.
        parts = [each.own if all_here else each.eps_of(each.has & self.has) for each in counted]
        with np.errstate(invalid="ignore"):  # inf - inf: the infinity is in the sum already
            left = np.nan_to_num(self.spent - self.own - sum(parts), nan=0.0, posinf=np.inf)
        finite = np.where(np.isfinite(self.spent), self.spent, 0.0)
        return np.where(left > ROUNDING * finite, left, 0.0)

    def is_within(self, other: "Spent") -> NDArray[np.bool_]:
        """Returns for which persons all that it counted is in the other one's number too."""
        if not self.counts <= other.counts:
            return np.zeros(len(self.in_rows), bool)
        shared = self.rows.total(self.has & other.has)
        return (shared > 0) if self.manifest.unit else (shared == self.in_rows)


class Spending:
    """What rows have spent before.

    Args:
        releases: all that are known; copies and parts of one release count once.
        row_ids: of the rows that are released now, (N,).
        persons: number of each row's person, from 0, (N,). Releases with a unit must have the same.

    Attributes:
        eps: of each row, or of its person, over all these releases, float64 (N,).
        counted: names of all that is in these numbers.
        unsure: names of releases that leave open whether `eps` is too large.
        unseen: names of releases of persons of which some may be here by other rows alone.
    """

    def __init__(
        self, releases: Sequence[Earlier], row_ids: NDArray, persons: NDArray[np.int64] | None
    ) -> None:
        rows = PersonRows(pd.Index(names_of(row_ids)), persons)
        found = [Spent(each, rows) for each in _once(releases)]
        total, self.unsure = np.zeros(rows.groups), set[str]()
        self.unseen = {
            each.manifest.release
            for each in found
            if persons is not None and each.manifest.unit and not each.in_rows.all()
        }
        beyond = [each.beyond(found) for each in found]
        for place, each in enumerate(found):
            own, left = beyond[place], beyond[place]
            for other, (rival, more) in enumerate(zip(found, beyond, strict=True)):
                is_first = rival.counts != each.counts or other < place
                if other != place:
                    covers = (more > own) | ((more == own) & is_first)
                    left = np.where(each.is_within(rival) & covers, 0.0, left)
            total += each.own + left
            if any(_may_share(each, left, rival) for rival in found if rival is not each):
                self.unsure.add(each.manifest.release)
        self.eps = total if persons is None else total[persons]
        names = [{each.manifest.release, *each.counts} for each in found if each.has.any()]
        self.counted = tuple(sorted(set[str]().union(*names)))


def names_of(row_ids: NDArray) -> NDArray:
    """Returns ids as texts, so that 10, 10.0, 1e1, '10' and '010' are the same row.

    So are one name with accents of their own and without, and a date at midnight and alone. Readers
    take a column of digits for numbers, and for texts as soon as one cell is none. Two rows of one
    table may so have one name; each then counts what either has spent.
    """
    ids = np.asarray(row_ids)
    texts = ids.astype(str).astype(object)
    if ids.dtype.kind in "iu":
        return texts
    found = np.empty(len(texts), object)
    found[:] = [_plain(text.strip()) for text in texts]
    return found


def check_names(names: NDArray, what: str) -> None:
    """Refuses names that are no texts: bytes that are no ASCII, such as UUIDs in Parquet; lists.

    And texts that no file can hold.

    Raises:
        InputError: there is one; `what` begins the message.
    """
    try:
        pd.Index(names)
    except UnicodeEncodeError:
        raise InputError(
            f"{what} must be texts that UTF-8 can write, got one with half a character (read them "
            "in the encoding of their file)"
        ) from None
    if names.dtype != object or pd.api.types.infer_dtype(names) == "string":
        return  # at once, as there may be many
    try:
        names.astype(str)
        pd.unique(names)
    except (TypeError, ValueError):
        raise InputError(
            f"{what} must be numbers or texts, got others, such as bytes (write them as texts)"
        ) from None


def _plain(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).strip()
    if text[:1].isalpha():  # most names, and the matches are slow
        return text.lower() if text in ("True", "False", "TRUE", "FALSE") else text
    if match := WHOLE.match(text):
        return "".join(match.groups())
    if NUMBER.match(text) and math.isfinite(number := float(text)):
        return str(int(number)) if number.is_integer() else repr(number)
    if match := MOMENT.match(text):
        day, minute, second, share, zone = match.groups(default="")
        share, zone = share.rstrip("0").rstrip("."), zone.replace("Z", "+00:00")
        time = f" {minute}{second or ':00'}{share}{zone}"
        return day if time == " 00:00:00" else day + time
    return text


def have_same_names(theirs: str | None, ours: str) -> bool | None:
    """Returns whether row ids come from the same column (`Manifest.row_id`); None: nobody knows."""
    if theirs is None:
        return None
    if not theirs or not ours:
        return theirs == ours
    return theirs == ours or GIVEN in (theirs, ours)


def moved_places(releases: Sequence[Earlier], size: int, option: str) -> str | None:
    """Returns what is to be said where rows that are counted may have moved; None: nothing.

    Args:
        releases: that count for rows of now.
        size: how many rows there are now.
        option: that names rows.
    """
    # Of persons the last rows may have been left out.
    manifests = [(each.row_ids, each.manifest) for each in releases]
    counted = [ids for ids, said in manifests if said.row_id == "" and said.unit is None]
    before = max((int(ids.max()) + 1 for ids in counted if len(ids)), default=size)
    return None if before == size else PLACES.format(before=before, now=size, option=option)


def share_rows(release: Earlier, row_ids: NDArray) -> bool:
    """Returns whether a release has one of these rows."""
    return bool(pd.Index(names_of(release.row_ids)).isin(names_of(row_ids)).any())


def _once(releases: Sequence[Earlier]) -> list[Earlier]:
    """Returns the releases, those of one draw (copies, parts) as one, each name there once."""
    same: dict[str, list[Earlier]] = {}
    for each in releases:
        same.setdefault(each.manifest.release, []).append(each)
    return [_merged(parts) for parts in same.values()]


def _merged(parts: list[Earlier]) -> Earlier:
    if len(parts) == 1 and pd.Index(names_of(parts[0].row_ids)).is_unique:
        return parts[0]
    spent = pd.concat([pd.Series(each.spent, names_of(each.row_ids)) for each in parts])
    spent = spent.groupby(level=0, sort=False).max()
    counted = reduce(frozenset.union, [each.counts for each in parts])
    manifest = replace(parts[0].manifest, counted=tuple(sorted(counted)))
    return Earlier(spent.index.to_numpy(), spent.to_numpy(), manifest)


def _may_share(one: Spent, left: NDArray[np.float64], other: Spent) -> bool:
    """Returns whether the sum may hold the same release twice, as neither says that it does not."""
    together = (one.in_rows > 0) & (other.in_rows > 0)
    if one.manifest.release in other.counts or not together.any():
        return False
    if PARTS + one.manifest.release in one.counts:
        return True
    is_open = BEFORE + one.manifest.release in one.counts or bool(one.counts & other.counts)
    return is_open and bool((left[together] > 0).any())
