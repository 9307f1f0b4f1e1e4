"""Mechanisms for real labels: a sampler and its exact density."""

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism, Prior
from labeldp.mechanisms.draws import Noise
from labeldp.mechanisms.sum_laws import group_sums
from labeldp.support.validate import InputError, check_integer, check_prior


class RealMechanism(Mechanism[float]):
    """A mechanism that releases something about each real label."""

    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    mean_is_label: ClassVar[bool] = True
    """Whether the release has the label as its mean."""

    @abstractmethod
    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one noisy output per label, float64 (N,).

        Args:
            values: true labels, float64 (N,), in [-bound, bound]; left untouched.
            bound: public; infinity where labels have none.
            generator: CPU generator of the privacy stream.
            prior: what a mechanism may assume of labels (see the subclass); not from these labels.

        Raises:
            InputError: an infinite bound, for a mechanism that needs a finite one.
        """

    @abstractmethod
    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-density (or log-probability) of outputs, float64 (R, V).

        Args:
            released: outputs, float64 (R,).
            values: true labels, float64 (V,).
            bound: as for `release`.
            prior: as for `release`.
        """

    @abstractmethod
    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns outputs and labels among which the worst log ratio is attained.

        Between these points the log-density is linear or constant in the output and monotone in
        the label, so that its extremes lie on them; the subclass says why.
        """

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns the sum, in each group, of one release of every label, float64 (G,)."""
        return group_sums(self.release(values, bound, generator), groups, num_groups)


def exact_match(released: Tensor, values: Tensor) -> Tensor:
    """Returns the log-probability of outputs that are the labels themselves: 0 or -inf, (R, V)."""
    return torch.where(released[:, None] == values[None, :], 0.0, -math.inf).to(torch.float64)


class GridMechanism(RealMechanism):
    """A mechanism whose release rests on `levels` equally spaced labels in [-bound, bound]."""

    levels: int
    most_levels: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.levels", self.levels, low=2, high=self.most_levels)

    def grid(self, bound: float) -> Tensor:
        """Returns the levels, float64 (levels,).

        Raises:
            InputError: an infinite bound.
        """
        if math.isinf(bound):
            raise InputError(
                f"{type(self).__name__} needs bounded labels, and these have no bound "
                "(use mechanism=clipped_laplace)"
            )
        return torch.linspace(-bound, bound, self.levels, dtype=torch.float64)

    def place(self, values: Tensor, bound: float) -> Tensor:
        """Returns where labels lie between the first level, 0, and the last, float64 (N,)."""
        return (values / bound + 1) / 2 * (self.levels - 1)

    def weights(self, prior: Prior) -> tuple[float, ...]:
        """Returns the prior of each level; None is the uniform one."""
        if prior is not None and torch.as_tensor(prior).dim() != 1:
            raise InputError("a prior over levels must be global, of shape (levels,)")
        return tuple(check_prior(prior, 1, self.levels).tolist())
