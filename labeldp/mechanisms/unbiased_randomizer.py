"""The unbiased randomiser of a real label with the least variance, by linear programming."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import coo_matrix
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import draw_columns
from labeldp.mechanisms.draws import Noise, uniforms
from labeldp.mechanisms.real import GridMechanism, exact_match
from labeldp.support.validate import InputError, check_integer

SLACK = 1e-6
"""The programme is solved for eps less this, so that its rounding stays within eps; `check_eps`
keeps eps ten times as large."""
REACH = 2.0
"""Outputs lie within this many times those of two-point randomised response, the smallest that the
means allow; no solution needs more than 1.6 times (test_real_mechanisms.py)."""


@dataclass(frozen=True)
class UnbiasedRandomizer(GridMechanism):
    """Releases a value whose mean is the label, with the least expected squared error.

    eps-label-DP under label replacement (within 1e-5 of tight). A label between two levels is
    first rounded to one of them at random, which keeps the mean. The outputs reach beyond the
    labels: two-point randomised response with the right means needs bound (e^eps + 1)/(e^eps - 1),
    and every other channel more.

    Source: Badanidiyuru et al. (2023), "Optimal unbiased randomizers for regression with label
    differential privacy", arXiv:2312.05659.

    Args:
        eps: in [1e-5, 20], or infinite.
        levels: labels of the programme, >= 2.
        outputs: values that may be released, evenly spaced, >= 2.
    """

    levels: int = 17
    outputs: int = 129

    most_levels: ClassVar[int] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.outputs", self.outputs, low=2, high=512)
        if 20 < self.eps < math.inf:
            raise InputError(
                f"eps of unbiased_randomizer must be at most 20 or inf, got {self.eps:g}"
            )

    def channel(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns P(output | level), float64 (levels, V), and the outputs, float64 (V,)."""
        self.grid(bound)  # refuses labels without a bound
        matrix, outputs = solve(self.eps, self.levels, self.outputs, self.weights(prior))
        return matrix, outputs * bound

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one of the outputs for each label, float64 (N,)."""
        if math.isinf(self.eps):
            return values.clone()
        matrix, outputs = self.channel(bound, prior)
        place = self.place(values, bound)
        below = place.floor().clamp(0, self.levels - 2)
        up = uniforms(values.shape, generator) < place - below
        return outputs[draw_columns(matrix, (below + up).long(), generator)]

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-probability of each output, float64 (R, V)."""
        if math.isinf(self.eps):
            return exact_match(released, values)
        matrix, outputs = self.channel(bound, prior)
        place = self.place(values, bound)
        below = place.floor().clamp(0, self.levels - 2).long()
        share = (place - below)[:, None]
        mixed = (1 - share) * matrix[below] + share * matrix[below + 1]
        number = (released[:, None] - outputs[None, :]).abs().argmin(1)
        found = mixed.T[number].log()
        return torch.where((outputs[number] == released)[:, None], found, -math.inf)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns all outputs and all levels: between levels the channel is a mixture of two."""
        return self.channel(bound, prior)[1], self.grid(bound)

    def summary(self) -> dict[str, object]:
        """Returns the size of the programme."""
        return {"levels": self.levels, "outputs": self.outputs}


@lru_cache(maxsize=32)
def solve(
    eps: float, levels: int, num_outputs: int, prior: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """Returns the channel (levels, V) and its outputs (V,) for labels in [-1, 1].

    Variables: M (levels x outputs) and a floor t for each output, with t <= M <= e^eps t.
    """
    y = np.linspace(-1, 1, levels)
    reach = REACH / math.tanh((eps - SLACK) / 2)
    v = np.linspace(-reach, reach, num_outputs)
    ratio, size = math.exp(eps - SLACK), levels * num_outputs
    cost = np.concatenate(
        [(np.array(prior)[:, None] * (v[None, :] - y[:, None]) ** 2).ravel(), np.zeros(num_outputs)]
    )
    entry = np.arange(size)
    output = entry % num_outputs
    ones = np.ones(size)
    upper = coo_matrix(
        (
            np.concatenate([ones, -ratio * ones, -ones, ones]),
            (
                np.concatenate([entry, entry, size + entry, size + entry]),
                np.concatenate([entry, size + output, entry, size + output]),
            ),
        )
    )
    row = entry // num_outputs
    equal = coo_matrix(
        (
            np.concatenate([ones, v[output]]),
            (np.concatenate([row, levels + row]), np.concatenate([entry, entry])),
        ),
        shape=(2 * levels, size + num_outputs),
    )
    found = linprog(
        cost, A_ub=upper, b_ub=np.zeros(2 * size), A_eq=equal,
        b_eq=np.concatenate([np.ones(levels), y]), method="highs",
    )  # type: ignore[call-overload]  # fmt: skip
    if not found.success:
        raise InputError(
            f"the programme of unbiased_randomizer has no solution at eps={eps:g} "
            "(more mechanism.outputs)"
        )
    matrix = found.x[:size].reshape(levels, num_outputs)
    used = matrix.max(0) > 1e-8
    matrix = matrix[:, used].clip(matrix[:, used].max(0) / ratio, None)
    matrix /= matrix.sum(1, keepdims=True)
    return torch.from_numpy(matrix), torch.from_numpy(v[used])
