"""What a curator answers to gradient descent: noisy sums over secret batches."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.draws import Noise, uniforms
from labeldp.mechanisms.gaussian import SMALLEST_DELTA, as_released, gaussian_noise
from labeldp.mechanisms.noisy_moments import check_rows
from labeldp.mechanisms.poisson_gaussian import poisson_stddev
from labeldp.support.progress import progress_bar
from labeldp.support.validate import check_integer, check_number

SMALLEST_SHARE = 1e-4
"""Rarer examples need so little noise that the grid of its losses outgrows the memory."""

AT_ONCE = 256
"""Examples whose gradients are in memory together."""


class Descent(Protocol):
    """What asks for the gradient of each step, and goes on from the noisy answer."""

    @property
    def weights(self) -> Tensor:
        """Where it is, or what it makes of all its steps, float32 (P,), CPU."""

    def gradients(self, indices: Tensor, labels: Tensor) -> Tensor:
        """Returns the gradient of each example's loss at the present weights, float (m, P), CPU.

        It is called with true labels and must keep nothing. Longer ones than 1 are shortened.

        Args:
            indices: int64 (m,), positions of the examples.
            labels: int64 (m,).
        """

    def step(self, gradient: Tensor) -> None:
        """Moves the weights.

        Args:
            gradient: noisy mean of the shortened gradients, float64 (P,), CPU.
        """


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

    A network's gradients depend on its weights, and these on earlier answers: `release_descent`
    answers one step after the other, and clips gradients to length 1, as in the paper.

    Source: Ghazi et al. (2024), LabelDP-Pro, ICLR, algorithm 1; answering all steps at once and
    clipping x: ours.

    Args:
        delta: in [1e-12, share/10], by how much a probability may exceed what eps allows.
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
            sums.copy_(as_released(sums, stddev, generator))
        return released.transpose(1, 2)

    @property
    def descent_stddev(self) -> float:
        """Standard deviation of the noise on each entry of a sum of gradients of length <= 1.

        sqrt(2) times `stddev`. A replaced label takes a gradient g from the sum of a batch and adds
        another one, h. Who sees a + n and b + m, where a and b say whether the example is in the
        batch with either label, and n and m are noise of `stddev`, can make g (a + n) + h (b + m)
        of them. Its noise has in no direction more than twice the variance; what lacks can be
        added. So nobody learns more from the sum than from a and b, whose cost is `poisson_delta`.
        With everybody in each batch it is exact.
        """
        return math.sqrt(2) * self.stddev

    def clipped_sum(self, gradients: Tensor) -> Tensor:
        """Returns the sum of rows, each shortened to length 1 if it is longer, float64 (P,).

        A row without a finite length counts nothing: it cannot be shortened.
        """
        lengths = gradients.norm(dim=1)
        factors = torch.where(lengths.isfinite(), (1 / lengths).clamp_max(1), 0.0)
        if not bool(lengths.isfinite().all()):
            gradients = gradients.nan_to_num(0.0, 0.0, 0.0)  # 0 times infinity is no number
        return (factors @ gradients).to(torch.float64)

    def release_descent(self, labels: Tensor, descent: Descent, generator: Noise) -> Tensor:
        """Returns the weights after all steps, float32 (P,), each from a noisy sum of gradients.

        Args:
            labels: int64 classes (N,), CPU; left untouched.
            descent: asks for the gradients.
            generator: CPU generator of the privacy stream.
        """
        size, expected = len(descent.weights), float(self.share) * len(labels)
        for _ in progress_bar(range(self.steps), self.steps, "steps"):
            batch = (uniforms((len(labels),), generator) < self.share).nonzero().flatten()
            total = gaussian_noise((size,), self.descent_stddev, generator)
            for start in range(0, len(batch), AT_ONCE):
                part = batch[start : start + AT_ONCE]
                total += self.clipped_sum(descent.gradients(part, labels[part]))
            descent.step(as_released(total, self.descent_stddev, generator) / expected)
        return descent.weights

    def summary(self) -> dict[str, object]:
        """Returns the standard deviation of the noise in each step, for the record."""
        return {"stddev": self.stddev}
