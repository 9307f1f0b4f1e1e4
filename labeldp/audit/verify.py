"""The audit of somebody else's randomiser."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.audit import statistics
from labeldp.audit.exact import exact_epsilon
from labeldp.audit.statistics import (
    Literals,
    choose_event,
    choose_literals,
    eps_bound,
    event_counts,
    flagged_from,
    shares_of,
)
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.base import SUM_TOLERANCE
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_eps, check_integer, check_number

CONFIDENCE = 0.99
TOLERANCE = 1e-9
MEASURED_CALLS = 3
"""Calls whose joint leak is measured; beyond them composition says what is possible."""
TABLE = 12
"""A table with more rows or columns is not printed."""


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
        bound: eps of one call is at least this, at `CONFIDENCE`; 0 for a table.
        bound_of_calls: the same for up to `MEASURED_CALLS` calls on the same labels.
        power: the smallest true eps of one call that 90 of 100 such audits would find.
        draws: labels given in all.
        noise: `fresh` (drawn anew on every call), `kept` (equal on every call), `none` (the same
            label always gives the same output) or `table`.
        event: what tells two labels apart, in words.
        apart: p-value of the largest correlation between rows of one call, see
            `row_independence_test`.
    """

    claimed: float
    delta: float
    num_classes: int
    calls: int
    exact: float | None
    table: NDArray[np.float64] | None
    values: tuple[float, ...]
    bound: float
    bound_of_calls: float
    power: float
    draws: int
    noise: str
    event: str
    apart: float = 1.0

    @property
    def is_table(self) -> bool:
        """Whether nothing was drawn, as the object is a table."""
        return self.noise == "table"

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim."""
        if self.exact is not None and self.calls * self.exact > self.claimed + TOLERANCE:
            return False
        if self.is_table:
            return True
        own = self.noise != "none" and self.apart >= statistics.LEVEL
        return max(self.bound, self.bound_of_calls) <= self.claimed and own

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
        return [*lines, self._verdict()]

    def _sampled(self) -> list[str]:
        seen = "" if self.bound else "no loss seen: "
        finds = f"a true eps of {self.power:.3g} or more is found 90 times in 100"
        power = finds if math.isfinite(self.power) else "too small to find any eps (more draws)"
        lines = [
            f"found      {seen}eps >= {self.bound:.4g} for one call, with {CONFIDENCE:.0%} "
            f"confidence, from {self.draws:,} draws",
            f"           {self.event}",
            f"power      {power}",
        ]
        advice = "calls says how many" if self.calls == 1 else f"here {self.calls} times"
        noise = {
            "fresh": "drawn anew on every call: this eps is for ONE call on the same labels,\n"
            f"           T epochs that call again cost up to T times as much ({advice})",
            "kept": "the same labels gave the same outputs again: further calls cost nothing,\n"
            "           if outputs are kept by example and not by a seed that others know",
            "none": "NONE: the output follows from the label alone",
        }
        lines.append(f"noise      {noise[self.noise]}")
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
        return lines

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
            return "verdict    the claim DOES NOT HOLD"
        if self.is_table:
            return "verdict    the claim holds"
        if self.calls > 1 and self.noise == "fresh":
            needed = (
                f"eps = {self.claimed / self.calls:.4g} for each of {self.calls} calls, and one "
                f"call shows {self.bound:.4g}"
            )
            if self.calls * self.bound > self.claimed and not self.delta:
                return (
                    f"verdict    the claim can hold only if calls share noise: independent ones "
                    f"need {needed}"
                )
            return f"verdict    nothing contradicts the claim; it needs {needed}"
        return "verdict    nothing contradicts the claim (draws can refute it, never prove it)"


Randomiser = Callable[[NDArray[np.int64]], ArrayLike]


def verify(
    randomiser: Randomiser | ClassMechanism | ArrayLike,
    num_classes: int,
    eps: float,
    *,
    draws: int = 1_000_000,
    calls: int = 1,
    delta: float = 0.0,
    seed: int = 0,
) -> VerifiedClaim:
    """Returns whether a randomiser can have the eps that it claims.

    A function is called with NumPy labels, int64 (n,), and returns n outputs, (n,) or (n, D), in
    the same order: labels, bits or reals. It is drawn from: half of the draws choose two labels
    and an event, the other half gives Clopper-Pearson bounds. A table of probabilities is
    calculated exactly instead. Of a mechanism the formula is, which says nothing of its sampler: so
    that is drawn from too.

    Args:
        randomiser: a function, a `ClassMechanism`, or probabilities (K, V), row = true label.
        num_classes: K >= 2.
        eps: claimed, > 0 and finite.
        draws: labels given to the function in all.
        calls: how often it is called on the same labels, such as epochs; the claim covers all.
        delta: of the claim, in [0, 1).
        seed: of the order of the labels.

    Raises:
        InputError: a bad argument; or the function fails, or returns another number of outputs.
    """
    check_request(num_classes, eps, draws, calls)
    check_number("delta", delta, low=0.0, high=1.0)
    if isinstance(randomiser, ClassMechanism):
        exact = None if delta else exact_epsilon(randomiser, num_classes)  # of pure eps
        drawn = _draws_of(randomiser, num_classes, seed)
        return replace(_sampled(drawn, num_classes, eps, draws, calls, delta, seed), exact=exact)
    if not callable(randomiser):
        if delta and calls > 1:
            raise InputError("of a table, delta is for one call, got calls > 1 (leave calls out)")
        exact, table = _exact(randomiser, num_classes, delta)
        values = tuple(range(table.shape[1])) if table is not None else ()
        return VerifiedClaim(
            eps, delta, num_classes, calls, exact, table, values, 0.0, 0.0, eps, 0, "table", ""
        )
    return _sampled(randomiser, num_classes, eps, draws, calls, delta, seed)


def check_request(num_classes: int, eps: float, draws: int, calls: int, before: str = "") -> None:
    """Refuses wrong arguments of `verify`; `before` stands before their names, such as `--`."""
    check_integer(f"{before}classes", num_classes, low=2)
    if not math.isfinite(check_eps(eps, f"{before}eps")):
        raise InputError(f"{before}eps must be finite: {before}eps=inf claims nothing")
    check_integer(f"{before}calls", calls, low=1)
    check_integer(f"{before}draws", draws, low=100 * num_classes)


def _draws_of(mechanism: ClassMechanism, num_classes: int, seed: int) -> Randomiser:
    """Returns a mechanism's sampler as a function of labels alone."""
    noise = seeding.generator(seed, "verify", "noise")
    return lambda labels: mechanism.release(torch.from_numpy(labels), num_classes, noise).numpy()


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
        own: law of the outputs, (V,).
        others: of the other labels, (K, V).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-(own / others), axis=1, kind="stable")  # 0 / 0, which is NaN, last
        more = own[order].cumsum(1) - delta
        ratio = np.where(more > 0, more / np.take_along_axis(others, order, 1).cumsum(1), 0.0)
        return float(max(0.0, np.log(ratio).max()))


def _sampled(
    randomiser: Randomiser,
    num_classes: int,
    eps: float,
    draws: int,
    calls: int,
    delta: float,
    seed: int,
) -> VerifiedClaim:
    order = seeding.generator(seed, "verify")
    # Labels come mixed, as in a data set, in blocks: one block per stage of the audit.
    each = draws // 2 // num_classes
    pilot = _by_label(randomiser, min(1000, each), num_classes, order)
    literals = choose_literals(pilot, has_law=False)
    first = _by_label(randomiser, each, num_classes, order)
    counts = torch.stack([event_counts(literals(part, None)) for part in first])
    more, less, event = choose_event(counts, delta * each)
    # Only the two labels that were chosen, each half of the rest.
    rest = draws // 4
    labels = torch.cat([torch.full((rest,), more), torch.full((rest,), less)])
    labels = labels[torch.randperm(len(labels), generator=order)]
    outputs = [_call(randomiser, labels) for _ in range(max(2, min(calls, MEASURED_CALLS)))]
    hits = torch.stack([_happened(literals, output, event) for output in outputs])
    level = CONFIDENCE if calls == 1 else 1 - (1 - CONFIDENCE) / 2
    once = [int(hits[0][labels == label].sum()) for label in (more, less)]
    bound = bound_of_calls = eps_bound(once[0], once[1], rest, level, delta)
    if calls > 1:
        together = hits[: min(calls, MEASURED_CALLS)].all(0)
        all_hits = [int(together[labels == label].sum()) for label in (more, less)]
        bound_of_calls = eps_bound(all_hits[0], all_hits[1], rest, level, delta)
    table, values = shares_of(first, TABLE)
    mixed = statistics.two_inputs(min(statistics.ROWS, draws // 2), (more, less), order)
    return VerifiedClaim(
        claimed=eps,
        delta=delta,
        num_classes=num_classes,
        calls=calls,
        exact=None,
        table=table,
        values=values,
        bound=bound,
        bound_of_calls=bound_of_calls,
        power=flagged_from(eps, once[0] / rest, rest, level, delta=delta),
        draws=draws,
        noise=_noise(outputs, labels, (more, less)),
        event=f"label {more} against label {less}: {literals.spell(event)}",
        apart=statistics.row_independence_test(_call(randomiser, mixed), mixed == more),
    )


def _by_label(
    randomiser: Randomiser, each: int, num_classes: int, order: torch.Generator
) -> list[Tensor]:
    """Returns the outputs of `each` labels of each class, which are given mixed."""
    labels = torch.arange(num_classes).repeat(each)
    labels = labels[torch.randperm(len(labels), generator=order)]
    outputs = _call(randomiser, labels)
    return [outputs[labels == label] for label in range(num_classes)]


def _call(randomiser: Randomiser, labels: Tensor) -> Tensor:
    """Returns the outputs for labels, float64, (n,) or (n, D)."""
    try:
        found = randomiser(labels.numpy().copy())
    except (Exception, SystemExit) as error:  # somebody else's code: all that it raises is one line
        raise InputError(
            f"the randomiser failed on int64 labels of shape ({len(labels)},): "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
    try:
        outputs = torch.as_tensor(np.asarray(found, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the randomiser must return numbers, got {type(found).__name__} that cannot be read"
        ) from error
    if outputs.dim() not in (1, 2) or len(outputs) != len(labels) or not outputs.numel():
        raise InputError(
            f"the randomiser must return {len(labels)} outputs for {len(labels)} labels, got shape "
            f"{tuple(outputs.shape)}"
        )
    if not torch.isfinite(outputs).all():
        raise InputError("the randomiser returned NaN or infinity")
    return outputs


def _happened(literals: Literals, outputs: Tensor, event: tuple[int, int]) -> Tensor:
    holds = literals(outputs, None).bool()
    always = torch.ones((len(holds), 1), dtype=torch.bool)
    return torch.cat([holds, always], 1)[:, event[0]] & torch.cat([~holds, always], 1)[:, event[1]]


def _noise(outputs: list[Tensor], labels: Tensor, kinds: tuple[int, int]) -> str:
    """Returns whether two calls on the same labels differ, see `Verdict.noise`."""
    if not torch.equal(outputs[0], outputs[1]):
        return "fresh"
    parts = [outputs[0][labels == label] for label in kinds]
    if all(bool((part == part[0]).all()) for part in parts) and bool(
        (parts[0][0] != parts[1][0]).any()
    ):
        return "none"
    return "kept"
