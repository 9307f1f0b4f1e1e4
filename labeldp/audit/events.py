"""Events that may tell two inputs apart, chosen from a few draws."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_VALUES = 256
"""A vector of outputs with no more distinct values is taken as discrete."""
MOST_COLUMNS = 48
FEW_ENTRIES = 4
TAILS = torch.tensor([0.01, 0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.99])


@dataclass(frozen=True)
class Literals:
    """Statements about one output, such as `entry 3 >= 0.7`; each is true or false of it.

    An event is one of them, the opposite of one, or one together with the opposite of another:
    `entry 3 >= 1 and not entry 5 >= 1`, or an interval.

    Attributes:
        columns: int64 (C,), the entry that each is about.
        thresholds: float64 (C,).
        is_value: whether it says `=` in place of `>=`.
        inputs: how many more there are, if the law is known: `input i explains the output best`.
    """

    columns: Tensor
    thresholds: Tensor
    is_value: bool
    inputs: int

    def __call__(self, outputs: Tensor, law: Tensor | None) -> Tensor:
        """Returns which statements hold, float32 (n, C + inputs)."""
        flat = outputs.reshape(len(outputs), -1)[:, self.columns].double()
        holds = flat == self.thresholds if self.is_value else flat >= self.thresholds
        if law is not None:
            holds = torch.cat([holds, law >= law.amax(1, keepdim=True) - 1e-9], 1)
        return holds.float()

    def spell(self, event: tuple[int, int]) -> str:
        """Returns the event in words."""
        high, low = event
        parts = [self._one(high)] if high < self.count else []
        parts += [f"not ({self._one(low)})"] if low < self.count else []
        return " and ".join(parts) or "anything"

    @property
    def count(self) -> int:
        """How many statements there are."""
        return len(self.columns) + self.inputs

    def _one(self, number: int) -> str:
        if number >= len(self.columns):
            return f"input {number - len(self.columns)} explains it best"
        sign = "=" if self.is_value else ">="
        return f"entry {int(self.columns[number])} {sign} {float(self.thresholds[number]):.4g}"


def choose_literals(pilot: list[Tensor], has_law: bool) -> Literals:
    """Returns statements that may differ between inputs, from a few draws of each.

    Args:
        pilot: outputs of each input, (n,) or (n, D).
        has_law: whether the claimed law is known.
    """
    inputs = len(pilot) if has_law else 0
    rows = [part.reshape(len(part), -1).double() for part in pilot]
    pooled = torch.cat(rows)
    if pooled.shape[1] == 1:
        values = pooled.unique()
        if len(values) <= MOST_VALUES:
            shares = torch.stack([(part == values).double().mean(0) for part in rows])
            chosen = values[_widest(shares, MOST_COLUMNS)]
            return Literals(torch.zeros(len(chosen), dtype=torch.int64), chosen, True, inputs)
        thresholds = pooled[:, 0].quantile(torch.linspace(0.005, 0.995, 32).double())
        return Literals(torch.zeros(32, dtype=torch.int64), thresholds, False, inputs)
    # In each entry, where one input's outputs lie in the middle: noise of any symmetric law tells
    # most beyond both middles. Bits have the middle between 0 and 1.
    is_bits = bool(((pooled == 0) | (pooled == 1)).all())
    centres = torch.stack([part.mean(0) if is_bits else part.median(0).values for part in rows])
    columns = _widest(centres, MOST_COLUMNS // 2)
    if is_bits:
        return Literals(columns, torch.full((len(columns),), 0.5).double(), False, inputs)
    low, high = centres.amin(0)[columns], centres.amax(0)[columns]
    above = low + 1e-9 * (1 + low.abs())  # so that the opposite says `<= low`
    thresholds = torch.stack([high, above])
    if (
        len(columns) <= FEW_ENTRIES and not has_law
    ):  # noise that is not Laplace's tells more in its tails
        thresholds = torch.cat([thresholds, pooled[:, columns].quantile(TAILS.double(), dim=0)])
    everywhere = columns.repeat(len(thresholds))
    return Literals(everywhere, thresholds.flatten(), False, inputs)


def _widest(shares: Tensor, most: int) -> Tensor:
    """Returns the columns of (I, C) that differ most between rows, at most `most`, rising."""
    spread = shares.amax(0) - shares.amin(0)
    return spread.argsort(descending=True)[:most].sort().values


def event_counts(holds: Tensor) -> Tensor:
    """Returns how often each event happened, float64 (C + 1, C + 1), from statements (n, C).

    Entry (i, j): i holds and j does not. The last row and column leave that part out.
    """
    always = torch.ones((len(holds), 1))
    high, low = torch.cat([holds, always], 1), torch.cat([1 - holds, always], 1)
    return (high.T @ low).to(torch.float64)


def choose_event(table: Tensor, offset: float = 0.0) -> tuple[int, int, tuple[int, int]]:
    """Returns two different inputs and the event whose ratio stays largest under sampling error.

    Args:
        table: counts per input and event, float64 (I, C + 1, C + 1), of equally many draws; I >= 2.
        offset: what delta allows for, taken off the likelier input's counts: delta times draws.
    """
    # Two standard errors off each side, so that a rare event does not win by luck.
    error = 2 / (table + 1).sqrt()
    least, most = (table + 1).log() - error, (table + 1).log() + error
    if offset:
        least = (least.exp() - offset).clamp_min(1e-300).log()
    top, bottom = least.max(0), most.min(0)
    # Where the inputs do not differ, one of them may be both: then the next one stands in for it.
    next_top = least.scatter(0, top.indices[None], -torch.inf).max(0)
    next_bottom = most.scatter(0, bottom.indices[None], torch.inf).min(0)
    pairs = [(top, bottom), (top, next_bottom), (next_top, bottom)]
    gaps = torch.stack([high.values - low.values for high, low in pairs])
    for gap, (high, low) in zip(gaps, pairs, strict=True):
        gap.masked_fill_(high.indices == low.indices, -torch.inf)
    pair, first, second = (int(each) for each in torch.unravel_index(gaps.argmax(), gaps.shape))
    high, low = pairs[pair]
    return int(high.indices[first, second]), int(low.indices[first, second]), (first, second)


def shares_of(
    outputs: list[Tensor], most: int
) -> tuple[NDArray[np.float64] | None, tuple[float, ...]]:
    """Returns the share of each output for each label, where both are at most so many."""
    if outputs[0].dim() != 1 or len(outputs) > most:
        return None, ()
    values = torch.cat([part[:10_000] for part in outputs]).unique()
    if len(values) > most:
        return None, ()
    shares = [[float((part == value).double().mean()) for value in values] for part in outputs]
    return np.array(shares), tuple(values.tolist())
