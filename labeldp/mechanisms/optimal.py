"""The mechanism with the largest mutual information for a prior, by linear programming."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
import torch
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism, check_global_prior
from labeldp.mechanisms.bits import check_bits
from labeldp.mechanisms.noise import Noise, Prior, draw_columns
from labeldp.mechanisms.subsets import SubsetSelection
from labeldp.support.validate import InputError, check_labels

MOST_CLASSES = 10


@dataclass(frozen=True)
class OptimalMechanism(ClassMechanism):
    """Releases a set of labels; which sets, and how often, maximises the mutual information.

    eps-label-DP under label replacement, tight: every set S has probability theta_S for a label
    inside it and e^-eps theta_S for a label outside. Such staircase mechanisms contain an optimal
    one for every sublinear utility, so that theta solves a linear programme. Labels of equal prior
    are treated alike: one variable for all sets that hold as many of each such group, one equation
    for each group. A single solution of the programme over all sets may be as informative on
    average and yet not tell two labels apart. For K <= 10 only: 2^K - 1 sets.

    Source: Kairouz, Oh, Viswanath (2016), "Extremal mechanisms for local differential privacy",
    JMLR 17, Theorems 2 and 4.

    Under a uniform prior it is subset selection with the best size.

    >>> OptimalMechanism(eps=1.0).output_space(2).tolist()  # with two labels it is that of RR
    [[1, 0], [0, 1]]
    """

    known_as = ("optimal",)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K), a set for each label; O(N sets)."""
        check_labels(labels, num_classes)
        sets, log_weight = self._solution(num_classes, prior)
        cost = min(self.eps, 750.0)  # 0 * inf would be NaN, and e^-750 is 0 all the same
        transition = (log_weight + (sets.T.to(torch.float64) - 1) * cost).exp()
        return sets[draw_columns(transition, labels, generator)]

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(set | label = c), float64 (N, K): two values, eps apart."""
        bits = check_bits(released, num_classes)
        sets, log_weight = self._solution(num_classes, prior)
        place = 2 ** torch.arange(num_classes)
        table = torch.full((2**num_classes,), -math.inf, dtype=torch.float64)
        table[(sets.long() * place).sum(1)] = log_weight
        inside = table[(bits * place).sum(1)][:, None]
        return torch.where(bits == 1, inside, inside - self.eps)

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        """Returns the sizes of subset selection, its equal under a uniform prior."""
        if num_classes > MOST_CLASSES:
            return None
        return SubsetSelection(self.eps).likely_sets(num_classes)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the sets that are ever released, uint8 (sets, K)."""
        return self._solution(num_classes, prior)[0]

    def _solution(self, num_classes: int, prior: Prior) -> tuple[Tensor, Tensor]:
        """Returns the sets, uint8 (sets, K), and the log-probability of each for its members."""
        row = check_global_prior(prior, num_classes)
        if num_classes > MOST_CLASSES:
            raise InputError(
                f"optimal needs num_classes <= {MOST_CLASSES}, got {num_classes} "
                "(its linear programme has 2^K variables)"
            )
        sets, log_weight = _solve(self.eps, tuple(row.tolist()))
        return torch.from_numpy(sets), torch.from_numpy(log_weight)


@lru_cache(maxsize=64)
def _solve(eps: float, prior: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the released sets and their log-weights."""
    num_classes = len(prior)
    codes = np.arange(1, 2**num_classes)
    sets = (codes[:, None] >> np.arange(num_classes) & 1).astype(np.uint8)
    # Labels of one group are exchangeable, and so are the sets of one kind.
    _, first, group = np.unique(prior, return_index=True, return_inverse=True)
    held = sets @ np.eye(len(first), dtype=np.int64)[group]
    _, kind = np.unique(held, axis=0, return_inverse=True)
    kinds = np.eye(kind.max() + 1)[kind.ravel()]
    # Of the programme, a row for each group, a column for each kind: P(any such set | y).
    columns = np.where(sets[:, first] == 1, 1.0, math.exp(-eps)).T @ kinds
    utility = set_utilities(eps, sets, np.array(prior)) @ kinds
    if utility.max() <= 0:
        raise InputError("OptimalMechanism needs a prior with two possible labels, got a sure one")
    result = scipy.optimize.linprog(
        -utility / utility.max(), A_eq=columns, b_eq=np.ones(len(first))
    )
    assert result.status == 0, result.message
    used = np.asarray(result.x) * columns.max(0) > 1e-9
    # The solver meets the equations to 1e-7 only; on the kinds it picked they are solved exactly.
    weight = np.linalg.lstsq(columns[:, used], np.ones(len(first)), rcond=None)[0]
    assert (weight > 0).all() and np.abs(columns[:, used] @ weight - 1).max() < 1e-12
    each = kinds[:, used] @ weight
    return sets[each > 0], np.log(each[each > 0])


def set_utilities(eps: float, sets: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Returns each set's share of the mutual information per unit of weight, float64 (sets,)."""
    tail = math.exp(-eps)
    held = sets @ prior
    average = held + (1 - held) * tail
    outside = tail * np.log(tail) if tail > 0 else 0.0
    # sum_y p_y P(S|y) log P(S|y) - P(S) log P(S)
    safe = np.where(average > 0, average, 1.0)
    return (1 - held) * outside - average * np.log(safe)
