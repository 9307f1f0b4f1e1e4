"""What a curator answers to gradient descent on a linear classifier: noisy sums over batches."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.mechanisms.draws import Noise, uniforms
from labeldp_bench.mechanisms.gaussian import SMALLEST_DELTA, gaussian_noise
from labeldp_bench.mechanisms.noisy_moments import check_rows
from labeldp_bench.mechanisms.poisson_gaussian import poisson_stddev
from labeldp_bench.support.validate import check_integer, check_number

SMALLEST_SHARE = 1e-4
"""Rarer examples need so little noise that the grid of its losses outgrows the memory."""


@dataclass(frozen=True)
class LabelDPPro(Mechanism[int]):
    """Releases the label part of the gradient of every step, with Gaussian noise; central.

    An example's gradient is x (p - e_y): of its label it holds -x e_y alone, whatever the weights
    are. So all steps are answered at once, each with a batch and noise of its own: the noisy sums
    of the rows of each class over the batch. The learner adds the part that it knows. Not the
    gradient is clipped but x, which is public: a replaced label moves x from one column to another,
    sqrt(2) at most, where clipping gradients to length 1 would allow for 2.

    (eps, delta)-label-DP for all steps together, see `poisson_delta`. Nobody learns who was in a
    batch: with known batches there would be no gain by sampling. Noise as in `NoisyMoments`, which
    spends all of eps on one sum over everybody and is never worse for a linear classifier: this is
    the reference for those who ask for gradients.

    Source: Ghazi et al. (2024), LabelDP-Pro, ICLR, algorithm 1; answering all steps at once and
    clipping x: ours.

    Args:
        delta: probability in [1e-12, share/10] with which the promise of eps may fail.
        steps: T >= 1.
        share: of the examples in each batch, in [1e-4, 1], on average.
    """

    delta: float = 1e-5  # type: ignore[misc]
    steps: int = 100
    share: float = 0.1

    trust: ClassVar[str] = "central"
    asked_by: ClassVar[str] = "noisy_gradients"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.steps", self.steps, low=1)
        share = check_number("mechanism.share", self.share, low=SMALLEST_SHARE, high=1)
        # Near delta = share, releasing a whole batch without noise keeps the promise.
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, high=share / 10)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry of each step; 0 at eps=inf."""
        return poisson_stddev(self.eps, self.delta, self.steps, float(self.share))

    def release_moments(
        self, labels: Tensor, num_classes: int, /, rows: Tensor, generator: Noise
    ) -> Tensor:
        """Returns noisy sums of the rows of each class over each batch, float64 (T, d, K).

        Raises:
            InputError: a row longer than 1.
        """
        check_rows(rows)
        stddev, shape = self.stddev, (num_classes, rows.shape[1])
        released = torch.empty((self.steps, *shape), dtype=torch.float64)
        for step in range(self.steps):
            batch = (uniforms((len(labels),), generator) < self.share).nonzero().flatten()
            sums = released[step].zero_()
            sums.index_add_(0, labels[batch], rows[batch].to(torch.float64))
            sums += gaussian_noise(shape, stddev, generator)
        return released.transpose(1, 2)

    def summary(self) -> dict[str, object]:
        """Returns the standard deviation of the noise in each step, for the record."""
        return {"stddev": self.stddev}
