"""The contract of a mechanism for real labels: a sampler and its exact density."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from labeldp_bench.mechanisms.sum_laws import group_sums
from labeldp_bench.support.validate import InputError, check_eps, check_prior


@dataclass(frozen=True)
class RealMechanism(ABC):
    """A randomiser of real labels that is eps-label-DP under label replacement.

    `eps` is what ONE release of one label costs; infinity is allowed.
    """

    eps: float

    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    private: ClassVar[bool] = True
    trust: ClassVar[str] = "local"
    delta: ClassVar[float] = 0.0
    mean_is_label: ClassVar[bool] = True
    """Whether the release has the label as its mean."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_eps(self.eps))

    @abstractmethod
    def release(
        self, values: Tensor, bound: float, generator: Generator, prior: Tensor | None = None
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
        self, released: Tensor, values: Tensor, bound: float, prior: Tensor | None = None
    ) -> Tensor:
        """Returns the log-density (or log-probability) of outputs, float64 (R, V).

        Args:
            released: outputs, float64 (R,).
            values: true labels, float64 (V,).
            bound: as for `release`.
            prior: as for `release`.
        """

    @abstractmethod
    def breakpoints(self, bound: float, prior: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns outputs and labels among which the worst log ratio is attained.

        Between these points the log-density is linear or constant in the output and monotone in
        the label, so that its extremes lie on them; the subclass says why.
        """

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Generator
    ) -> Tensor:
        """Returns the sum, in each group, of one release of every label, float64 (G,)."""
        return group_sums(self.release(values, bound, generator), groups, num_groups)

    def summary(self) -> dict[str, Any]:
        """Returns derived parameters worth a line in the record."""
        return {}


def label_grid(name: str, bound: float, levels: int) -> Tensor:
    """Returns `levels` equally spaced labels in [-bound, bound], float64.

    Raises:
        InputError: an infinite bound.
    """
    if math.isinf(bound):
        raise InputError(
            f"{name} needs bounded labels, and these have no bound (use mechanism=clipped_laplace)"
        )
    return torch.linspace(-bound, bound, levels, dtype=torch.float64)


def on_grid(values: Tensor, bound: float, levels: int) -> Tensor:
    """Returns the number of the nearest level of each label, int64 (N,)."""
    place = (values / bound + 1) / 2 * (levels - 1)
    return place.round().long().clamp(0, levels - 1)


def prior_on_grid(prior: Tensor | None, levels: int) -> Tensor:
    """Returns the prior over levels, float64 (levels,); None is the uniform one."""
    if prior is not None and torch.as_tensor(prior).dim() != 1:
        raise InputError("a prior over levels must be global, of shape (levels,)")
    return check_prior(prior, 1, levels)
