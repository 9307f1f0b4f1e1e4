"""How far BlockRR is from the best solution of its own linear programme."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import coo_array
from torch import Tensor

from labeldp_bench.mechanisms.base import check_global_prior
from labeldp_bench.mechanisms.block_rr import BlockRR


@dataclass(frozen=True)
class Gap:
    """BlockRR beside the optimum of programme 4.1.

    Attributes:
        block_rr: its value of the objective.
        optimum: the largest value.
        matrix: where it is attained, float64 (K, K), row = true label.
    """

    block_rr: float
    optimum: float
    matrix: Tensor


def weight_matrix(prior: Tensor, sigma: float) -> Tensor:
    """Returns p_j exp(-1[i != j] / sigma), float64 (K, K): equation 3.3."""
    other = math.exp(-1 / sigma)
    num_classes = len(prior)
    return prior * (other + (1 - other) * torch.eye(num_classes, dtype=torch.float64))


def programme_gap(mechanism: BlockRR, prior: Tensor) -> Gap:
    """Returns the value of BlockRR and of the optimum, for one prior, float64 (K,).

    The programme maximises sum w P over channels P that are eps-label-DP and give each favoured
    label probability 1/K under every rare one.

    Source: Liu, Ding (2026), programme 4.1, with B(y) = {y}. Its section 4 derives BlockRR from a
    relaxation that counts every entry of a row as e^-eps of its column's diagonal; where a rare
    label's own column is cheaper left empty, that is not the optimum.
    """
    num_classes = len(prior)
    prior = check_global_prior(prior, num_classes)
    weights = weight_matrix(prior, mechanism.sigma)
    frequent, favoured = mechanism.partition(prior)
    lower = np.zeros((num_classes, num_classes))
    upper = np.ones((num_classes, num_classes))
    fixed = (~frequent[:, None] & favoured).numpy()
    lower[fixed] = upper[fixed] = 1 / num_classes
    # P(o | y) - e^eps P(o | z) <= 0, times e^-eps to stay finite at eps=inf.
    number = np.arange(num_classes**2).reshape(num_classes, num_classes)
    more, less = np.nonzero(~np.eye(num_classes, dtype=bool))
    ups, downs = number[more].ravel(), number[less].ravel()
    row = np.arange(len(ups))
    tail = np.full(len(ups), math.exp(-mechanism.eps))
    places = (np.tile(row, 2), np.concatenate([ups, downs]))
    values = np.concatenate([tail, -np.ones(len(ups))])
    private: Any = coo_array((values, places), shape=(len(ups), num_classes**2))
    # The stubs know of dense constraints and of a list of bounds only.
    bounds: Any = np.stack([lower.ravel(), upper.ravel()], 1)
    result = linprog(
        -weights.numpy().ravel(),
        A_ub=private,
        b_ub=np.zeros(len(ups)),
        A_eq=np.kron(np.eye(num_classes), np.ones(num_classes)),
        b_eq=np.ones(num_classes),
        bounds=bounds,
    )
    assert result.status == 0, result.message
    own = mechanism.transition_matrix(num_classes, prior)
    best = torch.from_numpy(np.asarray(result.x)).reshape(num_classes, num_classes)
    return Gap(float((weights * own).sum()), float((weights * best).sum()), best)
