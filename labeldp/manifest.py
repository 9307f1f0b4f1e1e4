"""What a release says of itself, as data and in words."""

import json
import math
import re
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.information import information
from labeldp.mechanisms import ClassMechanism, RealMechanism
from labeldp.mechanisms.answers import AnswerTable
from labeldp.mechanisms.base import LabelMechanism
from labeldp.mechanisms.encodings import AsReleased, Encoding
from labeldp.named_mechanisms import (
    DESIGNS,
    class_mechanism,
    law_of,
    parameters_of,
    real_mechanism,
)
from labeldp.names import CONTROL, as_python, class_key, is_flat, printable
from labeldp.support.validate import InputError, check_integer, check_number

VERSION = 2
"""1: outputs are stored as they are. 2: in the small form that `stored` names."""
ClassName = str | int | float | bool
UNNAMED = "before "
"""Prefix, in `counted`, of the name of a file of an older version, which named no releases."""
GIVEN_IN_PYTHON = "row_ids"
"""Name of the column of row ids that were given in Python."""
MOST_NESTED = 20
"""Deepest nesting of brackets in a manifest's JSON."""
SMALLEST_WIDTH, LARGEST_WIDTH = 1e-300, 1e300
"""Smallest and largest high - low of bounds, so that numbers can be scaled to [-1, 1] and back."""


def random_name() -> str:
    """Returns a name that nothing else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Unit:
    """One person's rows: at most `most_rows` are released, each with an equal part of eps.

    Attributes:
        column: what names the person.
        most_rows: at least 1.
    """

    column: str
    most_rows: int

    @classmethod
    def of(
        cls, persons: NDArray | None, column: str, most_rows: int | None = None
    ) -> "tuple[Unit | None, NDArray[np.bool_] | slice]":
        """Returns the unit, and which rows are released, bool (N,) or all.

        The labels of one person may all change at once, and eps adds up over them (group privacy).
        So each of at most `most_rows` rows gets eps / most_rows. Later rows of a person are left
        out; the choice looks at persons only, which are public, never at labels.

        Args:
            persons: one spelling for each row's person, (N,); None: each row is one of its own.
            column: what names them.
            most_rows: >= 1; None: the largest number of rows that a person has.
        """
        if persons is None:
            return None, slice(None)
        seen: Counter[str] = Counter()
        before = np.empty(len(persons), np.int64)
        for row, name in enumerate(persons.tolist()):
            before[row] = seen[name]
            seen[name] += 1
        most = int(before.max(initial=0)) + 1 if most_rows is None else most_rows
        check_integer("most_rows", most, low=1)
        return cls(column, most), before < most


@dataclass(frozen=True)
class Manifest:
    """What was released, how, and at what cost. It holds no label and no seed.

    Attributes:
        name: of the mechanism on the command line.
        mechanism: that released each row, with the eps of a row.
        eps: of one label, or of one person where `unit` is given. Infinity is allowed.
        classes: in the order in which they were given, by which the file numbers them; empty for
            numbers. A `Release` has them sorted.
        bounds: (low, high) of numbers; None for classes.
        unit: whose rows share eps; None: every row is a person of its own.
        noise: `secret`, or `seeded`, which is for tests: anyone with the seed can remove it.
        source: the name of the column, if it had one.
        stored: what a file holds: `outputs` of the mechanism, or the name of its small form.
        identity: of the rows: a release after another one has the identity of that one. Random.
        release: name of this draw, random; empty in files of older versions.
        counted: names of the earlier releases that are in `eps_spent`, theirs included.
        row_id: the column that the row ids came from; empty: rows were counted from 0; None: an
            older version did not say.
        num_rows: how many rows the file had, with those that were left out; None: not known.
        date: of the draw, in UTC, such as 2026-11-29; empty: an older version did not say.
    """

    name: str
    mechanism: ClassMechanism | RealMechanism
    eps: float
    classes: tuple[ClassName, ...] = ()
    bounds: tuple[float, float] | None = None
    unit: Unit | None = None
    noise: str = "secret"
    source: str = ""
    stored: str = "outputs"
    identity: str = field(default_factory=random_name)
    release: str = field(default_factory=random_name)
    counted: tuple[str, ...] = ()
    row_id: str | None = None
    num_rows: int | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    @property
    def row_eps(self) -> float:
        """What the release of one row costs: eps, or its part where a person has several rows."""
        return self.eps / self.unit.most_rows if self.unit else self.eps

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The place among `classes` of each class of the sorted ones, (K,)."""
        names = self.classes
        return tuple(sorted(range(len(names)), key=lambda place: class_key(names[place])))

    def checked(self) -> "Manifest":
        """Returns the manifest itself if every value is of the kind that it should be.

        Raises:
            InputError: a value was edited.
        """
        texts = (self.name, self.noise, self.source, self.stored, self.identity, self.release,
                 *self.counted, self.row_id or "", self.date)  # fmt: skip
        unit, names = self.unit, self.classes
        given = (*texts, unit.column if unit else "", *names)
        right = {
            "text": all(isinstance(text, str) for text in texts),
            "name: a control sign": not any(
                isinstance(name, str) and CONTROL.search(name) for name in given
            ),
            "classes": not wrong_class_names(names) and len(set(names)) == len(names) != 1,
            "bounds": (self.bounds is None) == bool(names)
            and (self.bounds is None or [type(end) for end in self.bounds] == [float] * 2),
            "unit": unit is None
            or (
                isinstance(unit.column, str) and type(unit.most_rows) is int and unit.most_rows > 0
            ),
            "num_rows": self.num_rows is None or type(self.num_rows) is int,
        }
        for what, is_right in right.items():
            if not is_right:
                raise InputError(f"this is not the manifest of a release (wrong {what})")
        if names:
            _ = self.encoding
        return self

    @property
    def class_mechanism(self) -> ClassMechanism:
        """The mechanism of a release of classes.

        Raises:
            InputError: it is a release of numbers.
        """
        if isinstance(self.mechanism, RealMechanism):
            raise InputError("this needs a release of classes, and got one of numbers")
        return self.mechanism

    @cached_property
    def encoding(self) -> Encoding:
        """The form in which outputs are stored.

        Raises:
            InputError: the mechanism has no form of that name.
        """
        mechanism, count = self.class_mechanism, len(self.classes)
        forms = (AsReleased(mechanism, count), mechanism.encoding(count))
        for form in forms:
            if form.name == self.stored:
                return form
        known = " or ".join(form.name for form in forms)
        raise InputError(
            f"releases of {self.name} are stored as {known}, not as {self.stored[:40]!r}"
        )

    def to_json(self) -> str:
        """Returns the text in a file; `law` says how clients draw, and how to weigh a release."""
        # Older programs read what is stored as they stored it.
        version = 1 if self.stored == AsReleased.name else VERSION
        content: dict[str, Any] = {
            "mechanism": self.name,
            "parameters": parameters_of(self.mechanism),
        }
        content |= {each.name: getattr(self, each.name) for each in fields(self)[2:]}
        content |= {"unit": None if self.unit is None else asdict(self.unit)}
        content |= {"format": "labeldp release", "version": version}
        content |= {"eps": _text(self.eps), "row_eps": _text(self.row_eps)}
        if self.classes:
            content["law"] = law_of(self.class_mechanism, len(self.classes))
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Returns the manifest that `to_json` spelled.

        Raises:
            InputError: the text is not a manifest, or a newer version wrote it.
        """
        try:
            if _depth(text) > MOST_NESTED:
                raise ValueError(f"it is nested deeper than {MOST_NESTED}")
            content = json.loads(text)
            if content["format"] != "labeldp release":
                raise KeyError("format")
            if content["version"] > VERSION:
                raise InputError(
                    f"the release has format version {content['version']}, and this program "
                    f"reads up to {VERSION} (install a newer labeldp-bench)"
                )
            content.setdefault("stored", AsReleased.name)  # version 1
            older = {"release": "", "counted": (), "row_id": None, "num_rows": None, "date": ""}
            content = older | content  # until Nov 2026
            known = {each.name: content[each.name] for each in fields(cls)[2:]}
            if known["eps"] == "inf":
                known["eps"] = math.inf
            else:  # of a person with many rows, each of which the mechanism checks, it may be large
                known["eps"] = check_number("eps", known["eps"], above=0)
            known["classes"] = tuple(known["classes"])
            known["counted"] = tuple(known["counted"])
            known["bounds"] = None if known["bounds"] is None else tuple(known["bounds"])
            known["unit"] = None if known["unit"] is None else Unit(**known["unit"])
            build = class_mechanism if known["classes"] else real_mechanism
            row_eps = known["eps"] / (known["unit"].most_rows if known["unit"] else 1)
            made = build(content["mechanism"], row_eps, content["parameters"])
            return cls(content["mechanism"], made, **known).checked()
        except InputError as error:  # whose words may quote the file
            raise InputError(" ".join(str(error).split())) from None
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"this is not the manifest of a release ({reason})") from None


def _depth(text: str) -> int:
    """Returns how deep the brackets of a JSON text are nested."""
    brackets = np.array(list(re.sub(r'"(?:[^"\\]|\\.)*"|[^][{}"]', "", text)), dtype="U1")
    steps = np.isin(brackets, ["[", "{"]).astype(int) - np.isin(brackets, ["]", "}"])
    return int(steps.cumsum().max(initial=0))


def check_classes(classes: Sequence[Any] | None, option: str = "classes") -> tuple[ClassName, ...]:
    """Returns the class names as plain Python values, at least two and all different."""
    if classes is None or isinstance(classes, str) or not is_flat(classes):
        raise InputError(f"{option} must be a list of names, got {classes!r}")
    names = tuple(map(as_python, np.asarray(classes, dtype=object).tolist()))
    if wrong := wrong_class_names(names):
        raise InputError(
            f"{option} must be texts or finite numbers, got {wrong[0]!r} (for labels that are "
            "missing, name a class by a text, such as 'none', in labels and classes)"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{option} must be different, got {list(names)}")
    if len(names) < 2:
        commas = " (with commas between)" if option.startswith("--") else ""
        raise InputError(f"{option} must be at least two{commas}, got {list(names)}")
    return names


def check_bounds(bounds: tuple[float, float], option: str = "bounds") -> tuple[float, float]:
    """Returns the ends of the range of numbers."""
    try:
        low, high = (float(each) for each in bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not -math.inf < low < high < math.inf:
        raise InputError(f"{option} must be finite numbers (low, high), low < high, got {bounds!r}")
    if not SMALLEST_WIDTH < high - low < LARGEST_WIDTH or not abs(low + high) < LARGEST_WIDTH:
        raise InputError(
            f"{option} are too large or too near each other for the computer's numbers, got "
            f"{bounds!r} (release the numbers in another unit)"
        )
    return low, high


def wrong_class_names(names: Collection[object]) -> list[object]:
    """Returns those that cannot name a class: no text, no truth value and no finite number."""
    if set(map(type, names)) <= {str, int, bool}:  # a million names take no time
        return []
    return [
        name
        for name in names
        if not isinstance(name, ClassName) or (isinstance(name, float) and not math.isfinite(name))
    ]


def _text(eps: float) -> float | str:
    return "inf" if math.isinf(eps) else eps  # JSON has no infinity


SEEDED_NOISE = "the noise has a seed: for tests only, as anyone with the seed can remove the noise"


def summary_of(manifest: Manifest, size: int, eps_spent: float) -> str:
    """Returns the lines.

    Args:
        manifest: of the release.
        size: how many rows it has.
        eps_spent: what the worst-off label, or person, has spent on all releases so far.
    """
    each = f"eps={manifest.row_eps:g} each" if manifest.unit else f"eps={manifest.eps:g}"
    lines = [f"{size:,} labels released by {manifest.name}, {each}"]
    if (certain := _note_of_infinite_eps(manifest)) is not None:
        lines.append(certain)
    if manifest.classes and (certain is None or manifest.name in DESIGNS):
        mechanism = manifest.class_mechanism
        kept = information(mechanism, len(manifest.classes)).kept
        what = "each answer is kept" if isinstance(mechanism, LabelMechanism) else (
            "the best guess from a release is the true class"
        )  # fmt: skip
        changed = f"about {(1 - kept) * size:,.0f} of {size:,} are not"
        lines.append(f"{what} with probability {100 * kept:.0f} % ({changed})")
    if manifest.unit:
        lines.append(
            f"a {printable(manifest.unit.column)} has at most {manifest.unit.most_rows} "
            f"row{'s' if manifest.unit.most_rows > 1 else ''} here, and "
            f"spends at most eps={manifest.eps:g} on them"
        )
    if eps_spent > manifest.eps * (1 + 1e-9):
        lines.append(f"with earlier releases of the same rows: eps={eps_spent:g} spent")
    if manifest.noise != "secret":
        lines.append(SEEDED_NOISE)
    return "\n".join(lines)


def unprotected(manifest: Manifest) -> str | None:
    """Returns why eps protects nobody in this release; None if it protects."""
    return _note_of_infinite_eps(manifest) or (SEEDED_NOISE if manifest.noise != "secret" else None)


def _note_of_infinite_eps(manifest: Manifest) -> str | None:
    """Returns what an infinite eps gives away; None: eps is finite."""
    if not math.isinf(manifest.row_eps):
        return None
    mechanism = manifest.mechanism
    if isinstance(mechanism, AnswerTable) and (pair := mechanism.ruled_out()) is not None:
        answer, number = pair
        return (
            f"eps=inf: the answer {printable(answer)} rules out "
            f"{printable(manifest.classes[number])} for certain, so "
            "that nothing is promised to people who give it"
        )
    return "eps=inf is no privacy: the release holds the true labels (keep the file)"
