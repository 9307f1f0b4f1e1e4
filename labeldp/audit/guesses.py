"""A lower bound on eps from guesses: which of two labels gave an output."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from labeldp.audit.statistics import (
    MOST_COLUMNS,
    MOST_EPS,
    MOST_VALUES,
    POWER,
    least_found,
)
from labeldp.estimates import share_low
from labeldp.support.validate import check_number

BULK = np.linspace(0.02, 0.98, 49)
CUTS = 80
CHOOSING = 0.999
"""Confidence of the bounds that a cut is chosen by."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Mixes the bits of a key."""
PRIOR_COUNT = 0.5
"""Added to every count, so that an output that was seen once proves little."""


def one_run_bound(
    right: int, guesses: int, confidence: float, rows: int = 0, delta: float = 0.0
) -> float:
    """Returns a lower bound on eps from right guesses between two equally likely labels.

    If the label of every row was drawn from two candidates by a fair coin, and all rows went
    through one run that is eps-label-DP, the number of right guesses is stochastically smaller
    than a binomial one with probability e^eps / (1 + e^eps), whatever the guesses depend on. The
    rows need not be independent after the run. Guesses may abstain.

    With delta, an (eps, delta)-DP answer reveals the label with probability delta and is eps-DP
    otherwise (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, theorem 3.3). So many guesses are taken
    off as are revealed among independent rows.

    Source: Steinke, Nasr, Jagielski (2023), "Privacy auditing with one (1) training run",
    arXiv:2305.08846, theorem 2.1 with delta = 0.

    Args:
        right: right guesses.
        guesses: right and wrong ones.
        confidence: in (0, 1).
        rows: guesses and abstentions; needed with delta only.
        delta: of the claim, in [0, 1).

    >>> round(one_run_bound(731, 1000, 0.95), 2)
    0.88
    """
    error = 1 - check_number("confidence", confidence, above=0.0, high=1 - 1e-12)
    return float(_bounds(np.array([right]), np.array([guesses]), error, rows, delta)[0])


def _bounds(
    right: NDArray[np.int64], guesses: NDArray[np.int64], error: float, rows: int, delta: float
) -> NDArray[np.float64]:
    """Returns `one_run_bound` for many; the largest p whose binomial tail is within the error."""
    if delta:
        error /= 2
        revealed = int(binom.isf(error, rows, delta))
        right, guesses = right - revealed, guesses - revealed
    least = share_low(right, guesses, error)
    with np.errstate(divide="ignore"):
        return np.log(least / (1 - least)).clip(0.0, MOST_EPS)


@dataclass(frozen=True)
class Guesses:
    """How often a guesser was right.

    Attributes:
        right: right guesses.
        count: right and wrong ones.
        rows: guesses and abstentions.
    """

    right: int
    count: int
    rows: int

    def bound(self, confidence: float, delta: float = 0.0) -> float:
        """Returns the lower bound on eps that they give."""
        return one_run_bound(self.right, self.count, confidence, self.rows, delta)

    def flagged_from(self, eps: float, confidence: float, delta: float = 0.0) -> float:
        """Returns the least true eps that 90 of 100 such audits would put above `eps`.

        For as many guesses as were made; infinity where they are too few.
        """

        def is_found(true_eps: float) -> bool:
            right = int(binom.ppf(1 - POWER, self.count, 1 / (1 + math.exp(-true_eps))))
            return one_run_bound(right, self.count, confidence, self.rows, delta) > eps

        return least_found(eps, is_found, 1e-9)


def rarest(eps: float, rows: int, confidence: float, delta: float = 0.0) -> float:
    """Returns the probability from which on an output that names its label is found.

    Nine times in ten, among so many rows, where nothing else is wrong; 1 where it never is.
    """
    least = math.log(1 - confidence) / -math.log1p(math.exp(-eps))  # right guesses, and none wrong
    least = (least + 1.3 * math.sqrt(least)) / rows + 2 * delta
    return min(1.0, least)


@dataclass(frozen=True)
class Outputs:
    """What a randomiser returned for some rows.

    Attributes:
        values: float64 (n, D).
        keys: uint64 (n,); equal where two rows are equal to the last bit.
    """

    values: NDArray[np.float64]
    keys: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: NDArray | slice) -> "Outputs":
        return Outputs(self.values[rows], self.keys[rows])

    @classmethod
    def of(cls, rows: NDArray) -> "Outputs":
        """Returns rows of numbers, any dtype, (n, D)."""
        raw = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
        padded = np.zeros((len(raw), -(-raw.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : raw.shape[1]] = raw
        words = padded.view(np.uint64)
        places = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
        odd = (places * GOLDEN * places) | np.uint64(1)
        mixed = (words ^ (words >> np.uint64(29))) * odd  # so that high bits count too
        return cls(rows.astype(np.float64), (mixed ^ (mixed >> np.uint64(32))).sum(1))

    @classmethod
    def joined(cls, parts: Sequence["Outputs"]) -> "Outputs":
        """Returns the rows of several."""
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.keys for part in parts]),
        )

    def beside(self, other: "Outputs") -> "Outputs":
        """Returns each row with the row of the other as one."""
        return Outputs(np.hstack([self.values, other.values]), self.keys * GOLDEN + other.keys)


class _Whole:
    """A row as a whole, to the last bit: for outputs that come again."""

    def __init__(self, learned: Outputs) -> None:
        keys, counts = np.unique(learned.keys, return_counts=True)
        self.known = keys[counts > 1]

    def __call__(self, outputs: Outputs) -> NDArray[np.int64]:
        if not len(self.known):
            return np.zeros((len(outputs), 0), dtype=np.int64)
        place = np.searchsorted(self.known, outputs.keys).clip(max=len(self.known) - 1)
        return np.where(self.known[place] == outputs.keys, place, -1)[:, None]


class _Columns:
    """The columns whose means differ most between labels, in bins that get finer at the ends."""

    def __init__(self, learned: Outputs, labels: NDArray[np.int64], most: int) -> None:
        values = learned.values
        means = np.stack([values[labels == label].mean(0) for label in np.unique(labels)])
        spread = np.ptp(means, axis=0) / (values.std(0) + 1e-12)
        self.columns = np.argsort(-spread, kind="stable")[:most]
        self.edges = [_edges(values[:, column]) for column in self.columns]

    def __call__(self, outputs: Outputs) -> NDArray[np.int64]:
        codes = [
            np.searchsorted(edges, outputs.values[:, column], side="right")
            for column, edges in zip(self.columns, self.edges, strict=True)
        ]
        return np.stack(codes, 1)


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns where bins begin: at each value, or at quantiles and ever rarer extremes."""
    distinct = np.unique(values)
    if len(distinct) <= MOST_VALUES:
        return distinct
    ranks = np.unique((4 * 1.5 ** np.arange(40)).astype(int))
    ranks = ranks[ranks < 0.02 * len(values)]
    ordered = np.sort(values)
    return np.unique(np.concatenate([ordered[ranks], np.quantile(ordered, BULK), ordered[-ranks]]))


class Guesser:
    """Guesses which of two labels gave an output, after it has seen outputs of known labels.

    It counts how often each row, and each bin of each column, came from each label. The score of
    two labels is the log ratio of their shares, summed over columns; it abstains below a cut.
    """

    def __init__(
        self,
        outputs: Outputs,
        labels: NDArray[np.int64],
        stream: np.random.Generator,
        most_columns: int = MOST_COLUMNS,
        delta: float = 0.0,
    ) -> None:
        self._totals = np.bincount(labels)
        self._present = self._totals.nonzero()[0]
        found = []
        for view in (_Whole(outputs), _Columns(outputs, labels, most_columns)):
            self._learn(view, outputs, labels)
            scores, is_right = self._scores(outputs, labels, stream, own=1)
            cut, bound = _best_cut(scores, is_right, delta)
            found.append((bound, cut, view))
        _, self._cut, best = max(found, key=lambda each: each[0])
        self._learn(best, outputs, labels)

    def guess(
        self, outputs: Outputs, labels: NDArray[np.int64], stream: np.random.Generator
    ) -> Guesses:
        """Returns the guesses on further outputs, each between its label and a random other one."""
        scores, is_right = self._scores(outputs, labels, stream, own=0)
        told = scores >= self._cut
        return Guesses(int(is_right[told].sum()), int(told.sum()), len(outputs))

    def _learn(self, view: _Whole | _Columns, outputs: Outputs, labels: NDArray[np.int64]) -> None:
        self._view = view
        codes = view(outputs)
        found = [
            np.unique(column * len(self._totals) + labels, return_counts=True) for column in codes.T
        ]
        self._keys = [keys for keys, _ in found]
        self._counts = [counts for _, counts in found]

    def _scores(
        self, outputs: Outputs, labels: NDArray[np.int64], stream: np.random.Generator, own: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns how sure each guess is, (n,), and which are right; `own`: counts of the row."""
        # Another label of those that were seen, each equally likely.
        if len(self._present) < 2:
            return np.zeros(len(labels)), np.zeros(len(labels), dtype=bool)
        place = np.searchsorted(self._present, labels)
        step = stream.integers(1, len(self._present), len(labels))
        others = self._present[(place + step) % len(self._present)]
        codes = self._view(outputs)
        score = np.zeros(len(labels))
        for number in range(codes.shape[1]):
            code = codes[:, number]
            first = self._count(number, code, labels) - own * (code >= 0) + PRIOR_COUNT
            second = self._count(number, code, others) + PRIOR_COUNT
            ratio = np.log(first / second)
            ratio -= np.log((self._totals[labels] - own + 1) / (self._totals[others] + 1))
            if isinstance(self._view, _Columns):  # the noise of many columns would add up
                error = np.sqrt(1 / first + 1 / second)
                ratio = np.sign(ratio) * np.maximum(np.abs(ratio) - error, 0.0)
            score += ratio
        # Equal scores are decided by a coin, which no label may know.
        coin = stream.random(len(labels)) < 0.5
        return np.abs(score), np.where(score == 0, coin, score > 0)

    def _count(self, number: int, codes: NDArray, labels: NDArray) -> NDArray:
        keys, counts = self._keys[number], self._counts[number]
        wanted = codes * len(self._totals) + labels
        place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return np.where((keys[place] == wanted) & (codes >= 0), counts[place], 0)


def _best_cut(
    scores: NDArray[np.float64], is_right: NDArray[np.bool_], delta: float
) -> tuple[float, float]:
    """Returns the least score that is worth a guess, and the bound that it gave."""
    order = np.argsort(-scores, kind="stable")
    scores, hits = scores[order], is_right[order].cumsum()
    ends = np.unique(np.geomspace(min(8, len(scores)), len(scores), CUTS).astype(int)) - 1
    cuts = np.unique(scores[ends])
    cuts = cuts[cuts > 0]
    if not len(cuts):
        return math.inf, 0.0
    counts = np.searchsorted(-scores, -cuts, side="right")
    found = _bounds(hits[counts - 1], counts, 1 - CHOOSING, len(scores), delta)
    best = int(found.argmax())
    return float(cuts[best]), float(found[best])
