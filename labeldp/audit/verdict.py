"""What a verification found, and the page that says it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.audit import rows

CONFIDENCE = 0.99
TOLERANCE = 1e-9
MEASURED_CALLS = 3
"""Calls whose joint leak is measured; beyond them composition says what is possible."""
TABLE = 12
"""A table with more rows or columns is not printed."""


@dataclass(frozen=True)
class Verdict:
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
        own = self.noise != "none" and self.apart >= rows.LEVEL
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
        if self.apart < rows.LEVEL:
            lines.append("rows       NOT APART: an output depends on the label of another row, or "
                         f"shares its noise\n           (p = {self.apart:.1g})")  # fmt: skip
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
