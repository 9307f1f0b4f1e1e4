"""The audit of somebody else's randomiser."""

import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from labeldp.audit import statistics
from labeldp.audit.exact import exact_epsilon
from labeldp.audit.guesses import CHOOSING, Guesser, Guesses, Outputs, rarest
from labeldp.audit.same_noise import same_noise
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.noise import SUM_TOLERANCE
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_eps, check_integer, check_number

CONFIDENCE = 0.99
"""That all bounds of an audit hold together; half of the error is that of the first bound."""
TOLERANCE = 1e-9
MEASURED_CALLS = 3
"""Calls whose joint leak is measured; beyond them composition says what is possible."""
TABLE = 12
"""A table with more rows or columns is not printed."""
PROBE = 4096
"""Labels of the first two calls, at most, and of those that only make `MANY` full."""
SIZES = tuple(2**power for power in range(13))
"""Of small calls."""
WITHOUT_REPEATS = 100
"""Labels of a call that are hardly ever drawn twice; outputs that are kept need as many."""
MOST_CALLS = 600
"""Of one size."""
ENDS = (1, 64)
"""How many rows count as the first, or the last, of a call."""
LARGE = 500
"""Labels of a call whose first and last rows are looked at."""
FEW_LABELS = 4
"""Classes that small calls hold: more would leave too few rows of each."""
NEIGHBOURS = ((2, 0), (60, 0), (60, 30), (250, 249))
"""Labels of a call, and the place of the only one that changes between calls."""
NEIGHBOUR_CALLS = 240
ROUNDS = 200
"""Calls of one class, of each size."""
MANY = 2**20 + PROBE
"""Labels in total after which calls are looked at once more."""
PATIENCE = 10.0
"""Seconds for one class and for `MANY`, or as many as the randomiser took for all before."""
GENERATORS = ("generator", "gen", "rng", "random_state", "stream")
"""What a second argument is called that takes a NumPy Generator."""

Randomiser = Callable[[NDArray[np.int64]], ArrayLike]
Elsewhere = Callable[[NDArray[np.int64], bool], ArrayLike]
Pair = tuple[Outputs, NDArray[np.int64]]
"""Outputs, and the labels that they may tell."""
Answer = tuple[int, NDArray]
"""The number of an answer's type and form, and its rows, (n, D)."""
Look = tuple[str, Outputs, NDArray[np.int64]]
"""The same, and where they come from."""


class Leak(NamedTuple):
    """Which outputs were looked at, and what eps of one call is at least by them."""

    where: str
    bound: float


@dataclass(frozen=True)
class VerifiedClaim:
    """What was found of a randomiser.

    Attributes:
        claimed: eps, for all calls together.
        delta: of the claim.
        num_classes: K.
        calls: how often a label is asked for, such as once in each epoch.
        exact: the worst log ratio of the table or formula, or the least eps of the table at
            `delta`; None where the object is a function, or a formula is claimed with delta.
        table: shares of outputs, float64 (K, V), exact or estimated, if there are few of them.
        values: the V outputs of the table.
        bound: eps of one call is at least this, from outputs of large calls; 0 for a table.
        bound_of_calls: the same for up to `MEASURED_CALLS` calls on the same labels.
        looks: bounds from small calls, first and last rows, neighbouring data sets and others; all
            bounds hold together at `CONFIDENCE`.
        power: the smallest true eps of one call that 90 of 100 such audits would find.
        rarity: an output that names its label is found from this probability on.
        draws: labels given in total.
        made: calls in total.
        seconds: that the audit took.
        noise: `fresh` (drawn anew on every call), `kept` (equal on every call, as documented),
            `repeated` (equal on every call), `fixed` (equal in another process), `none` (the same
            label always gives the same output) or `table`.
        apart: p-value of the largest correlation between rows of one call, see
            `row_independence_test`.
        faults: what the same noise on neighbouring labels contradicts, see `same_noise`.
        notes: what else the reader must know, a line each.
        unseen: faults that nothing here would have shown, a line each.
    """

    claimed: float
    delta: float
    num_classes: int
    calls: int
    exact: float | None
    table: NDArray[np.float64] | None
    values: tuple[float, ...]
    bound: float = 0.0
    bound_of_calls: float = 0.0
    looks: tuple[Leak, ...] = ()
    power: float = 0.0
    rarity: float = 0.0
    draws: int = 0
    made: int = 0
    seconds: float = 0.0
    noise: str = "table"
    apart: float = 1.0
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether nothing was drawn, as the object is a table."""
        return self.noise == "table"

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """The looks that contradict the claim."""
        return tuple(look for look in self.looks if look.bound > self.claimed)

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim; only of a table does that prove it."""
        if self.exact is not None and self.calls * self.exact > self.claimed + TOLERANCE:
            return False
        if self.leaks or self.faults or self.apart < statistics.LEVEL:
            return False
        is_own = self.noise in ("table", "fresh", "kept")
        return is_own and max(self.bound, self.bound_of_calls) <= self.claimed

    @property
    def verdict(self) -> str:
        """`holds` (exactly, of a table), `no fault found` (by draws) or `does not hold`."""
        if not self.holds:
            return "does not hold"
        return "holds" if self.is_table else "no fault found"

    def as_json(self) -> dict[str, Any]:
        """Returns what a program needs, as JSON's own types; infinity is the text "inf"."""
        found = {"verdict": self.verdict, "holds": self.holds} | vars(self)
        del found["table"], found["values"]
        found["looks"] = [look._asdict() for look in self.looks]
        return {key: "inf" if value == math.inf else value for key, value in found.items()}

    def lines(self) -> list[str]:
        """Returns one page of text, a line each."""
        times = "" if self.calls == 1 else f" for {self.calls} calls together"
        tail = f", delta = {self.delta:g}" if self.delta else ""
        lines = [f"claimed    eps = {self.claimed:g}{tail}{times}, {self.num_classes} classes"]
        if self.exact is not None:
            source = "table" if self.is_table else "formula"
            lines.append(
                f"found      eps = {self.exact:.9g}{tail} for one call, exactly, from the {source}"
            )
        if not self.is_table:
            lines += self._sampled()
        lines += self._table()
        if self.verdict == "no fault found":
            lines += [f"not seen   {self.unseen[0]}", *(f"           {e}" for e in self.unseen[1:])]
        return [*lines, f"verdict    {self._verdict()}"]

    def _sampled(self) -> list[str]:
        seen = f"{'' if self.bound else 'no loss seen: '}eps >= {self.bound:.4g} for one call"
        lines = [f"found      {seen}, with {CONFIDENCE:.0%} confidence"]
        leaks = sorted(self.leaks, key=lambda each: -each.bound)
        for look in leaks[:3]:
            lines.append(f"           LEAK: eps >= {look.bound:.4g} in {look.where}")
        power = "too few guesses to find any eps"
        if math.isfinite(self.power):
            power = f"a true eps of {self.power:.3g} or more is found 90 times in 100"
        lines += [
            f"           {len(leaks) or 'no'} leaks in {len(self.looks)} more looks: first call, "
            "small calls,\n           calls of one class, first and last rows, neighbouring data "
            "sets, calls before",
            f"looked at  {self.draws:,} labels in {self.made:,} calls, {self.seconds:.0f} s",
            f"power      {power}",
            f"noise      {self._noise()}",
        ]
        if self.apart < statistics.LEVEL:
            lines.append(
                "rows       NOT APART: an output depends on the label of another row, or "
                f"shares its noise\n           (p = {self.apart:.1g})"
            )
        if self.calls > 1 and self.noise == "fresh":
            together = min(self.calls, MEASURED_CALLS)
            rest = f" (of {self.calls}; more are not measured)" if together < self.calls else ""
            lines.append(
                f"           {together} calls{rest}: eps >= {self.bound_of_calls:.4g} measured"
            )
        lines += [f"same noise {fault.upper()}" for fault in self.faults]
        return lines + [f"note       {note}" for note in self.notes]

    def _noise(self) -> str:
        advice = "calls says how many" if self.calls == 1 else f"here {self.calls} times"
        return {
            "fresh": "drawn anew on every call: this eps is for ONE call on the same labels,\n"
            f"           T epochs that call again cost up to T times as much ({advice})",
            "kept": "same answer on repetition, as documented: further calls cost nothing,\n"
            "           if outputs are kept by example and not by a seed that others know",
            "repeated": "THE SAME on every call: it follows from a seed, the labels or a memory\n"
            "           (a documented memory: memoised)",
            "fixed": "THE SAME in another process: it follows from a seed or from the labels,\n"
            "           and whoever has the code can remove it",
            "none": "NONE: the output follows from the label alone",
        }[self.noise]

    def _table(self) -> list[str]:
        if self.table is None:
            return []
        kind = "exact" if self.is_table else "estimated"
        rows = [" ".join(f"{value:>7g}" for value in self.values)]
        rows += [" ".join(f"{share:7.4f}" for share in row) for row in self.table]
        heads = ["output", *[f"label {label}" for label in range(len(self.table))]]
        body = [f"           {head:9s}{row}" for head, row in zip(heads, rows, strict=True)]
        return [f"table      {kind} share of each output", *body]

    def _verdict(self) -> str:
        if not self.holds:
            return "the claim DOES NOT HOLD"
        if self.is_table:
            return "the claim holds"
        found = "no fault found" if self.exact is None else "the formula holds; no fault in draws"
        if self.calls == 1 or self.noise != "fresh":
            return f"{found} (draws can refute a claim, never prove it)"
        needed = (
            f"eps = {self.claimed / self.calls:.4g} for each of {self.calls} calls, and one call "
            f"shows {self.bound:.4g}"
        )
        if self.calls * self.bound > self.claimed and not self.delta:
            return f"the claim can hold only if calls share noise: independent ones need {needed}"
        return f"{found}; the claim needs {needed}"


def verify(
    randomiser: Callable[..., ArrayLike] | ClassMechanism | ArrayLike,
    num_classes: int,
    eps: float,
    *,
    draws: int = 1_000_000,
    calls: int = 1,
    delta: float = 0.0,
    memoised: bool = False,
    elsewhere: Elsewhere | None = None,
    seed: int = 0,
) -> VerifiedClaim:
    """Returns whether a randomiser can have the eps that it claims.

    A function is called with NumPy labels, int64 (n,), and returns n outputs, (n,) or (n, D), in
    the same order: labels, bits or reals. It is drawn from: one half of the outputs teaches how to
    guess labels, guesses on the other half bound eps (`one_run_bound`). A function of one label is
    called label by label. A second argument named like a generator gets a fresh NumPy Generator,
    and the same noise is tried on neighbouring labels (`same_noise`).
    A table of probabilities is calculated exactly instead. Of a mechanism the formula is, which
    says nothing of its sampler: so that is drawn from too.

    Args:
        randomiser: a function, a `ClassMechanism`, or probabilities (K, V), row = true label.
        num_classes: K >= 2.
        eps: claimed, > 0 and finite.
        draws: labels whose outputs are looked at, about; before the last ones it is given others,
            until there are a million or `PATIENCE` ends.
        calls: how often it is called on the same labels, such as epochs; the claim covers all.
        delta: of the claim, in [0, 1).
        memoised: whether it is documented that the same labels get the same outputs again.
        elsewhere: (labels, whether the function is of one label) -> its outputs in a new process;
            two processes must differ.
        seed: of the order of the labels.

    Raises:
        InputError: a bad argument; or the function fails, or returns another number of outputs.
    """
    check_request(num_classes, eps, draws, calls)
    check_number("delta", delta, low=0.0, high=1.0)
    if isinstance(randomiser, ClassMechanism):
        noise = seeding.generator(seed, "verify", "noise")

        def sampler(labels: NDArray[np.int64]) -> ArrayLike:
            return randomiser.release(torch.from_numpy(labels), num_classes, noise).numpy()

        found = _sampled(_Asked(sampler, num_classes, seed), eps, draws, calls, delta)
        exact = None if delta else exact_epsilon(randomiser, num_classes)  # of pure eps
        return replace(found, exact=exact)
    if not callable(randomiser):
        if delta and calls > 1:
            raise InputError("of a table, delta is for one call, got calls > 1 (leave calls out)")
        exact, table = _exact(randomiser, num_classes, delta)
        values = tuple(range(table.shape[1])) if table is not None else ()
        return VerifiedClaim(eps, delta, num_classes, calls, exact, table, values)
    asked = _Asked(randomiser, num_classes, seed, memoised, elsewhere)
    found = _sampled(asked, eps, draws, calls, delta)
    if not takes_generator(randomiser):
        return found
    faults, looks = same_noise(randomiser, num_classes, asked.order, asked.is_of_one)
    notes = (*found.notes, *(f"look at this: {look}" for look in looks))
    return replace(found, faults=tuple(faults), notes=notes)


def check_request(num_classes: int, eps: float, draws: int, calls: int, before: str = "") -> None:
    """Refuses wrong arguments of `verify`; `before` precedes their names, such as `--`."""
    check_integer(f"{before}classes", num_classes, low=2)
    if not math.isfinite(check_eps(eps, f"{before}eps")):
        raise InputError(f"{before}eps must be finite: {before}eps=inf claims nothing")
    check_integer(f"{before}calls", calls, low=1)
    check_integer(f"{before}draws", draws, low=100 * num_classes)


def _exact(
    source: ArrayLike, num_classes: int, delta: float
) -> tuple[float, NDArray[np.float64] | None]:
    """Returns the least eps that a table has at `delta`, and the table if it is to be printed."""
    try:
        table = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"OBJECT must be a function labels -> outputs or a table (classes, outputs) of "
            f"probabilities, got {type(source).__name__}"
        ) from error
    if table.ndim != 2 or len(table) != num_classes:
        raise InputError(f"a table must have {num_classes} rows, one per label, got {table.shape}")
    if (table < 0).any() or not np.allclose(table.sum(1), 1, rtol=0, atol=SUM_TOLERANCE):
        raise InputError("the rows of a table must be probabilities that sum to 1")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table[:, table.max(0) > 0])
        exact = float((logs.max(0) - logs.min(0)).max())
    if delta:
        exact = max(_epsilon_at(delta, row, table) for row in table)
    return exact, table if max(table.shape) <= TABLE else None


def _epsilon_at(delta: float, own: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Returns the least eps >= 0 with P(S | own) <= e^eps P(S | other) + delta for all S.

    The worst S holds the outputs with the largest ratios: all of the first m are tried.

    Args:
        delta: > 0.
        own: distribution of the outputs, (V,).
        others: of the other labels, (K, V).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-(own / others), axis=1, kind="stable")  # 0 / 0, which is NaN, last
        more = own[order].cumsum(1) - delta
        ratio = np.where(more > 0, more / np.take_along_axis(others, order, 1).cumsum(1), 0.0)
        return float(max(0.0, np.log(ratio).max()))


class _Asked:
    """A randomiser, how often it was asked, and what its answers looked like.

    Attributes:
        order: of the labels that it is given.
        labels, made: given and calls made in total.
        seconds: that it took.
        notes: what was noticed of the function.
    """

    def __init__(
        self,
        randomiser: Callable[..., ArrayLike],
        num_classes: int,
        seed: int,
        memoised: bool = False,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.num_classes, self.memoised, self.elsewhere = num_classes, memoised, elsewhere
        self.order = np.random.Generator(np.random.PCG64(seeding.derive(seed, "verify")))
        self.labels = self.made = 0
        self.seconds = 0.0
        self.notes: list[str] = []
        self._forms: dict[tuple, int] = {}
        self._width: int | None = None
        self._function, self.is_of_one = _of_labels(randomiser)
        if takes_generator(randomiser):
            self.elsewhere = None  # the generators are ours, and all of them new
        if self.is_of_one:
            self.notes.append("a function of one label: it is called label by label")

    def __call__(self, labels: NDArray[np.int64]) -> Outputs:
        """Returns the outputs, as `_joined` does."""
        return _joined([self.answer(labels)])

    def answer(self, labels: NDArray[np.int64]) -> Answer:
        """Returns the rows that the function gives for the labels."""
        started = time.perf_counter()
        answer = _answer(self._function, labels)
        self.seconds += time.perf_counter() - started
        self.labels, self.made = self.labels + len(labels), self.made + 1
        rows = np.array(answer)  # a copy: the function may fill the same array again
        form = (type(answer).__name__, rows.dtype.str, rows.ndim)
        rows = rows.reshape(len(labels), -1)
        if self._width not in (None, rows.shape[1]):
            raise InputError(
                f"the randomiser must return rows of one length, got {self._width} and then "
                f"{rows.shape[1]} numbers"
            )
        self._width = rows.shape[1]
        if rows.dtype.kind not in "biuf":
            rows = rows.astype(np.float64)
        return self._forms.setdefault(form, len(self._forms)), rows

    def drawn(self, *shape: int) -> NDArray[np.int64]:
        """Returns labels to ask for, each equally likely."""
        return self.order.integers(0, self.num_classes, shape)

    def each(self, calls: NDArray[np.int64]) -> list[Answer]:
        """Returns the answers to small calls; none if one fails."""
        try:
            return [self.answer(labels) for labels in calls]
        except InputError:
            note = f"a call of {calls.shape[1]:,} labels fails: such calls are not looked at"
            self.notes += [note] if note not in self.notes else []
            return []


def _joined(answers: list[Answer]) -> Outputs:
    """Returns all rows of answers, whose last column says of what type and form they were."""
    parts = []
    for code, alike in itertools.groupby(answers, itemgetter(0)):
        rows = np.concatenate([rows for _, rows in alike])
        parts.append(Outputs.of(rows).beside(Outputs.of(np.full((len(rows), 1), code))))
    return Outputs.joined(parts)


def _of_labels(randomiser: Callable[..., ArrayLike]) -> tuple[Randomiser, bool]:
    """Returns the function of an array of labels alone, and whether it was one of a single label.

    A generator that it takes is new in each call.
    """
    function = randomiser
    if takes_generator(randomiser):

        def function(labels: NDArray[np.int64]) -> ArrayLike:
            return randomiser(labels, np.random.default_rng())

    if _is_of_one_label(function):
        return lambda labels: np.array([function(int(label)) for label in labels]), True
    return function, False


def takes_generator(randomiser: Callable[..., ArrayLike]) -> bool:
    """Returns whether the second argument is a generator, by its name."""
    try:
        names = list(inspect.signature(randomiser).parameters)
    except (TypeError, ValueError):  # some functions in C have no signature
        return False
    return len(names) > 1 and names[1] in GENERATORS


def _is_of_one_label(function: Callable[..., ArrayLike]) -> bool:
    """Returns whether a function is one of a single label: its noise is one number a call.

    Given an array it may fail, or return something else than n outputs, or add one and the same
    noise to all labels. Then it is of one label if it takes an int.
    """
    zeros = np.zeros(64, dtype=np.int64)
    try:
        answers = [np.asarray(_answer(function, zeros)) for _ in range(20)]
        alike = all((answer == answer[0]).all() for answer in answers)
        if not alike or len({answer[0].tobytes() for answer in answers}) == 1:
            return False
    except InputError:
        pass
    try:
        rows = [np.asarray(function(label), dtype=np.float64) for label in (0, 1, 0)]
    except (Exception, SystemExit):
        return False
    return rows[0].ndim <= 1 and all(row.shape == rows[0].shape for row in rows)


def _answer(function: Randomiser, labels: NDArray[np.int64]) -> ArrayLike:
    """Returns what a randomiser gives for labels, which is numbers, n of them or n rows."""
    try:
        found = function(labels.copy())
    except (Exception, SystemExit) as error:  # somebody else's code: all that it raises is one line
        raise InputError(
            f"the randomiser failed on int64 labels of shape ({len(labels)},): "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
    try:
        outputs = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the randomiser must return numbers, got {type(found).__name__} that cannot be read"
        ) from error
    if outputs.ndim not in (1, 2) or len(outputs) != len(labels) or not outputs.size:
        raise InputError(
            f"the randomiser must return {len(labels)} outputs for {len(labels)} labels, got shape "
            f"{outputs.shape}"
        )
    if not np.isfinite(outputs).all():
        raise InputError("the randomiser returned NaN or infinity")
    return found


def _sampled(asked: _Asked, eps: float, draws: int, calls: int, delta: float) -> VerifiedClaim:
    started, order = time.perf_counter(), asked.order
    probe = asked.drawn(min(PROBE, draws // 20))
    first = asked(probe)
    noise = _noise(asked, first, probe)
    is_fresh = noise == "fresh"
    learned, learned_labels = _large(asked, draws // 5)
    guesser = Guesser(learned, learned_labels, order, delta=delta)
    others, other_labels = _large(asked, 3 * draws // 10)
    guesses = guesser.guess(others, other_labels, order)
    level = 1 - (1 - CONFIDENCE) / 2
    bound_of_calls = 0.0
    if calls > 1:
        level = 1 - (1 - CONFIDENCE) / 4
        played = _played(*_together(asked, draws // 4, calls), order, delta)
        bound_of_calls = played.bound(level, delta)
    groups = [("the first call", first, probe), *_small_calls(asked, draws // 6, is_fresh)]
    groups += _neighbours(asked, draws // 10) if is_fresh else []
    apart = _apart(asked, min(statistics.ROWS, draws // 10), is_fresh)
    end = time.perf_counter() + max(PATIENCE, asked.seconds)
    groups += _one_class(asked, end) if is_fresh else []
    groups += _late(asked, len(probe), end)
    each = 1 - (1 - CONFIDENCE) / 2 / len(groups)
    looks = tuple(
        Leak(where, _played(outputs, labels, order, delta).bound(each, delta))
        for where, outputs, labels in groups
    )
    bound = guesses.bound(level, delta)
    rarity = max(  # it must be seen while the guesser learns, too
        rarest(eps, len(learned), CHOOSING, delta), rarest(eps, len(others), level, delta)
    )
    return VerifiedClaim(
        *(eps, delta, asked.num_classes, calls, None),
        *_shares(learned, learned_labels, asked.num_classes),
        bound=bound,
        bound_of_calls=max(bound, bound_of_calls),
        looks=looks,
        power=guesses.flagged_from(eps, level, delta),
        rarity=rarity,
        draws=asked.labels,
        made=asked.made,
        seconds=time.perf_counter() - started,
        noise=noise,
        apart=apart,
        notes=tuple(asked.notes),
        unseen=(
            f"an output that names its label in fewer than 1 of {1 / rarity:,.0f} draws",
            "other sizes of calls than 1, 2, 4 to 4,096 and a few large ones",
            "calls of one class"
            + (", but for a few classes" if is_fresh else " (outputs are kept)"),
            f"what begins after {asked.labels:,} labels or {asked.made:,} calls, or on some day",
            "columns that tell a label only together, and the last bits of real noise",
            "noise that others can predict, and what time, memory or files tell",
        ),
    )


def _noise(asked: _Asked, first: Outputs, probe: NDArray[np.int64]) -> str:
    """Returns whether further calls, here and in another process, have other noise."""
    if asked.elsewhere is not None and not _is_constant(first, probe):
        one, other = (asked.elsewhere(probe, asked.is_of_one) for _ in range(2))
        if np.array_equal(one, other):
            return "fixed"
    again = asked(probe)
    if (again.keys != first.keys).any():
        return "fresh"
    if _is_constant(first, probe):
        return "none" if len(np.unique(first.keys)) > 1 else "fresh"  # always one output
    return "kept" if asked.memoised else "repeated"


def _is_constant(outputs: Outputs, labels: NDArray[np.int64]) -> bool:
    """Returns whether each label has one output."""
    return all(len(np.unique(outputs.keys[labels == label])) == 1 for label in np.unique(labels))


def _large(asked: _Asked, size: int) -> Pair:
    """Returns the outputs of a few calls of different sizes, and their labels."""
    labels = asked.drawn(size)
    ends = (np.array([0.4, 0.7, 0.9]) * size).astype(int)
    return Outputs.joined([asked(part) for part in np.split(labels, ends)]), labels


def _together(asked: _Asked, size: int, calls: int) -> Pair:
    """Returns the outputs of several calls on the same labels, in one row each."""
    count = min(calls, MEASURED_CALLS)
    labels = asked.drawn(size // count)
    return reduce(Outputs.beside, [asked(labels) for _ in range(count)]), labels


def _small_calls(asked: _Asked, budget: int, is_fresh: bool) -> Iterator[Look]:
    """Yields the rows of small calls by size, first and last rows, and rows after other labels."""
    classes = asked.order.permutation(asked.num_classes)[:FEW_LABELS]
    large, before = list[Pair](), list[Pair]()
    for size in SIZES if is_fresh else [size for size in SIZES if size >= WITHOUT_REPEATS]:
        count = min(MOST_CALLS, max(2, budget // len(SIZES) // size))
        labels = classes[asked.order.integers(0, len(classes), (count, size))]
        if answers := asked.each(labels):
            outputs = _joined(answers)
            yield f"calls of {size:,} labels", outputs, labels.ravel()
            before.append((outputs[size:], labels[:-1].ravel()))
            if size >= LARGE:
                large.append((outputs, labels))
    for count in ENDS:
        for which, rows in (("first", slice(count)), ("last", slice(-count, None))):
            ends = list[Pair]()
            for outputs, labels in large:
                places = np.arange(labels.size).reshape(labels.shape)[:, rows].ravel()
                ends.append((outputs[places], labels.ravel()[places]))
            yield from _look(f"the {which} {count} rows of a call", ends)
    yield from _look("the labels of the call before", before)


def _one_class(asked: _Asked, end: float) -> Iterator[Look]:
    """Yields a row of calls in which all the others are of one class, as that row often is.

    Of each call one row only: a mechanism may learn from all of them together what they are.
    """
    others = 1 + asked.order.permutation(asked.num_classes - 1)[: FEW_LABELS - 1]
    for number, label in enumerate(np.resize([*others, 0], FEW_LABELS).tolist()):
        where = f"calls of class {label} only"
        rows, sizes, coins = list[Answer](), list[int](), list[int]()
        for size in SIZES[1 + number :: FEW_LABELS] * ROUNDS:
            place, coin = asked.order.integers(size), asked.order.integers(2)
            labels = np.full((1, size), label)
            labels[0, place] = (label + coin) % asked.num_classes
            answers = asked.each(labels)
            if not answers or time.perf_counter() > end:
                asked.notes.append(f"no more than {len(rows):,} {where} were made")
                break
            rows += [(code, answer[place : place + 1].copy()) for code, answer in answers]
            sizes.append(size)
            coins.append(int(coin))
        if rows:
            yield where, _joined(rows).beside(Outputs.of(np.c_[sizes])), np.array(coins)


def _late(asked: _Asked, size: int, end: float) -> Iterator[Look]:
    """Yields the rows of two more calls, after a million labels if there is time for them."""
    while asked.labels < MANY and time.perf_counter() < end:
        asked.answer(asked.drawn(PROBE))
    where, labels = f"calls after {asked.labels:,} labels", asked.drawn(2, size)
    if answers := asked.each(labels):
        yield where, _joined(answers), labels.ravel()


def _look(where: str, pairs: list[Pair]) -> Iterator[Look]:
    if pairs:
        outputs, labels = zip(*pairs, strict=True)
        yield where, Outputs.joined(outputs), np.concatenate(labels)


def _neighbours(asked: _Asked, budget: int) -> Iterator[Look]:
    """Yields all outputs of a call as one row, on data sets that differ in a single label."""
    for size, place in NEIGHBOURS:
        coins = asked.order.integers(0, 2, min(NEIGHBOUR_CALLS, budget // len(NEIGHBOURS) // size))
        labels = asked.drawn(size)[None].repeat(len(coins), 0)
        labels[:, place] = asked.order.permutation(asked.num_classes)[coins]
        answers = asked.each(labels)
        if len(answers) > 4:
            rows = _joined(answers)
            outputs = Outputs(rows.values.reshape(len(coins), -1), rows.keys[::size])
            yield f"all rows of a call of {size} labels of which one changes", outputs, coins
            yield f"the call after one of {size} labels", outputs[1:], coins[:-1]


def _played(
    outputs: Outputs, labels: NDArray[np.int64], order: np.random.Generator, delta: float
) -> Guesses:
    """Returns guesses on one half of the rows, after the other half was learned from."""
    rows = order.permutation(len(labels))
    half = len(rows) // 2
    if half < 4 or len(np.unique(labels[rows[:half]])) < 2:
        return Guesses(0, 0, 0)
    columns = 8 if len(labels) < 1000 else 48
    guesser = Guesser(outputs[rows[:half]], labels[rows[:half]], order, columns, delta)
    known = np.isin(labels[rows[half:]], labels[rows[:half]])
    rest = rows[half:][known]
    return guesser.guess(outputs[rest], labels[rest], order)


def _shares(
    outputs: Outputs, labels: NDArray[np.int64], num_classes: int
) -> tuple[NDArray[np.float64] | None, tuple[float, ...]]:
    """Returns the share of each output for each label, where both are at most `TABLE`."""
    if outputs.values.shape[1] != 2 or num_classes > TABLE:  # the last column is the form
        return None, ()
    values = np.unique(outputs.values[:, 0])
    if len(values) > TABLE:
        return None, ()
    shares = [(outputs.values[labels == k, :1] == values).mean(0) for k in range(num_classes)]
    return np.array(shares), tuple(values.tolist())


def _apart(asked: _Asked, size: int, is_fresh: bool) -> float:
    """Returns whether rows of one call are drawn apart, as a p-value.

    Outputs that are kept show their noise only where labels change from call to call.
    """
    pair = asked.order.permutation(asked.num_classes)[:2]
    coins = asked.order.integers(0, 2, (2, size))
    if is_fresh:
        coins[1] = coins[0]
    calls = [asked(pair[coin]).values[:, :-1] for coin in coins]
    return statistics.row_independence_test(calls, [coin == 0 for coin in coins])
