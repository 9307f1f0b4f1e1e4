"""Events that tell two labels apart, bounds on eps, and a test that rows are independent."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom, norm, rankdata
from torch import Tensor

from labeldp.estimates import share_low
from labeldp.support.validate import check_number

MOST_EPS = 60.0
"""Where a search for eps ends; e^60 is beyond any number of draws."""
POWER = 0.9
"""Of audits: the share that find a leak which counts as found."""


def eps_bound(
    more: tuple[int, int], less: tuple[int, int], confidence: float, delta: float = 0.0
) -> float:
    """Returns a lower bound on eps from how often one event happened under two inputs.

    (eps, delta)-DP says P(event | a) <= e^eps P(event | b) + delta. Both Clopper-Pearson bounds
    hold together with at least `confidence` (Bonferroni: half of the error each).

    Args:
        more: hits and draws under the input that makes the event likelier.
        less: hits and draws under the other input.
        confidence: in (0, 1).
        delta: of the claim, in [0, 1).

    >>> round(eps_bound((7311, 10_000), (2689, 10_000), 0.99), 2)  # randomised response, K=2, eps=1
    0.94
    """
    level = (1 - check_number("confidence", confidence, above=0.0, high=1 - 1e-12)) / 2
    low = float(share_low(*more, level)) - delta
    high = 1 - float(share_low(less[1] - less[0], less[1], level))
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def flagged_from(
    eps: float, share: float, draws: int, confidence: float, delta: float = 0.0
) -> float:
    """Returns the smallest true eps that `eps_bound` would put above `eps` in 90 of 100 audits.

    For an event that keeps its probability `share` under the one input and gets rarer under the
    other. Infinity where no leak would be found: the event is too rare for so few draws.

    Args:
        eps: what is claimed.
        share: probability of the event under the input that makes it likelier.
        draws: for each of the two inputs.
        confidence: of the bound.
        delta: of the claim.
    """
    miss = (1 - POWER) / 2

    def is_found(true_eps: float) -> bool:
        more = int(binom.ppf(miss, draws, share))
        less = int(binom.ppf(1 - miss, draws, max(0.0, share - delta) * math.exp(-true_eps)))
        return eps_bound((more, draws), (less, draws), confidence, delta) > eps

    return least_found(eps, is_found, 1e-3)


def least_found(eps: float, is_found: Callable[[float], bool], width: float) -> float:
    """Returns the least true eps that is found, to within `width`; infinity if none is."""
    low, high = eps, eps + MOST_EPS
    if not is_found(high):
        return math.inf
    while high - low > width:
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


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
    # Not by torch.unravel_index, which imports sympy.
    pair, first, second = (int(each) for each in np.unravel_index(int(gaps.argmax()), gaps.shape))
    high, low = pairs[pair]
    return int(high.indices[first, second]), int(low.indices[first, second]), (first, second)


ROWS = 2**16
"""That are compared, at most."""
FEATURES = 4
LEVEL = 1e-6
"""A p-value below it says that rows are not apart."""
FEWEST = 400
"""Coincidences that must be expected, or a normal law is none of their number."""


def row_independence_test(calls: Sequence[NDArray], is_first: Sequence[NDArray]) -> float:
    """Returns the p-value of the largest correlation between different rows of one call.

    Correlated are outputs with the labels of other rows, and the noise of rows with that of others,
    at every distance, all numbered from the first row round to the last. The noise of a row is the
    difference of two calls where they have the same label there: what depends on the row's place
    alone cancels.

    Args:
        calls: outputs of two calls on as many rows, (n,) or (n, D) each.
        is_first: which of two labels each row has in each call, bool (n,); drawn by coins.
    """
    signs = [np.where(first, 1.0, -1.0) for first in is_first]
    if len(signs[0]) < 4 or any(abs(sign.sum()) == len(sign) for sign in signs):
        return 1.0
    alike = signs[0] == signs[1]
    found = []
    for feature in _features(
        np.concatenate([outputs.reshape(len(alike), -1) for outputs in calls])
    ):
        halves = feature[: len(alike)], feature[len(alike) :]
        noise = np.where(alike, halves[0] - halves[1], 0.0)
        pairs = list(zip(halves, signs, strict=True))
        if noise.std() > 1e-9 * feature.std():  # else the label and the place alone decide
            pairs += [(each, each) for each in (noise, noise * signs[0])]
        for one, other in pairs:
            found += _largest(one, other)
    return min(1.0, len(found) * min(found)) if found else 1.0


def _features(outputs: NDArray) -> list[NDArray[np.float64]]:
    """Returns a few numbers of each output, float64 (n,) each."""
    rows = outputs.reshape(len(outputs), -1).astype(np.float64)
    if rows.shape[1] == 1:
        values, counts = np.unique(rows, return_counts=True)
        if len(values) <= MOST_VALUES:
            often = values[np.argsort(-counts, kind="stable")[:FEATURES]]
            return [(rows[:, 0] == value).astype(np.float64) for value in often]
    widest = np.argsort(-rows.std(0), kind="stable")[:FEATURES]
    return [rankdata(rows[:, column]) for column in widest]  # long tails would hide the rest


def _largest(one: NDArray[np.float64], other: NDArray[np.float64]) -> list[float]:
    """Returns the p-value of the largest correlation at any distance but 0, if one can be told."""
    size, is_one = len(one), other is one
    one, other = one - one.mean(), other - other.mean()
    # How many rows there would be if all counted alike: few where an event is rare.
    squares = one**2, other**2
    weights = [part.sum() ** 2 / (part**2).sum() if part.any() else 0.0 for part in squares]
    if weights[0] * weights[1] / size < FEWEST:
        return []
    spectrum = np.fft.rfft(one)
    sums = np.fft.irfft(spectrum * (spectrum if is_one else np.fft.rfft(other)).conj(), size)[1:]
    spread = one.std() * other.std() * np.sqrt(size)
    return [float(min(1.0, 2 * norm.sf(np.abs(sums).max() / spread) * len(sums)))]


def two_inputs(count: int, either: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Returns one of two numbers for each of `count` rows, by a coin for each, int64."""
    return torch.tensor(either)[torch.randint(2, (count,), generator=generator)]
