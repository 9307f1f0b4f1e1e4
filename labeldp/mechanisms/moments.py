"""Gaussian noise on sums over labels: class moments, and gradients of a descent (LabelDP-Pro)."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy
import torch
from torch import Tensor

from labeldp.mechanisms.measurement import Measurement, Trust
from labeldp.mechanisms.noise import Noise, Prior, SecretGenerator, check_reach, step_of, uniforms
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer, check_number

SENSITIVITY = math.sqrt(2)
"""How far a replaced label moves the sums: a row of length 1 leaves a column for another one."""

SMALLEST_DELTA = 1e-12
"""Smallest delta that is accounted for: rounding adds up to 1e-14 to it."""


def gaussian_noise(shape: tuple[int, ...], stddev: float, generator: Noise) -> Tensor:
    """Returns independent normal noise, float64."""
    # Half a step away from 0 and 1, where the variable would be infinite; next to 1 it is rounded.
    uniform = (uniforms(shape, generator) + 2.0**-54).clamp_max(1 - 2.0**-53)
    return stddev * torch.from_numpy(scipy.special.ndtri(uniform.numpy()))


LOST_SHARE = 0.01
"""The largest share of a delta by which the end of normal noise may raise it."""


def lost_delta(eps: float) -> float:
    """Returns by how much delta grows, at most, because normal noise ends where its bits do.

    An output that one neighbour can no longer give had at least e^-eps times its probability under
    the other, or counts in delta already; all of them together have 2^-53 under the first.
    """
    return math.exp(eps) * 2.0**-53


def most_eps_at(delta: float) -> float:
    """Returns the largest finite eps that normal noise allows at a delta; see `lost_delta`.

    >>> round(most_eps_at(1e-5), 1)
    20.6
    """
    return math.log(LOST_SHARE * delta) + 53 * math.log(2)


def as_released(noisy: Tensor, stddev: float, generator: Noise) -> Tensor:
    """Returns sums with normal noise as they may leave: with secret noise, in whole steps.

    Only 2^53 values of a normal variable can be drawn. Anyone who knows all labels but one can
    subtract the sums that each label would give, and see which difference is such a value. In steps
    of a thousandth of the noise, each stands for billions of them. Anyone with the seed can remove
    the noise, so seeded noise stays as records have it.

    Args:
        noisy: float64, of any shape.
        stddev: of the noise; 0: none.
        generator: what the noise was drawn from.
    """
    if stddev == 0 or not isinstance(generator, SecretGenerator):
        return noisy
    step = step_of(stddev)
    return (noisy / step).round() * step


def gaussian_stddev(eps: float, delta: float) -> float:
    """Returns the least noise that makes an answer of sensitivity 1 (eps, delta)-DP.

    Source: Balle, Wang (2018), arXiv:1805.06530, theorem 8, which holds with equality.

    >>> round(gaussian_stddev(1.0, 1e-5), 4), round(gaussian_stddev(0.1, 1e-5), 3)
    (3.7306, 30.75)
    """
    if math.isinf(eps):
        return 0.0

    def excess(log_stddev: float) -> float:
        return gaussian_delta(eps, math.exp(log_stddev)) - delta

    return math.exp(
        scipy.optimize.brentq(excess, math.log(1e-3 / (1 + eps)), math.log(1e6 / min(eps, 1.0)))
    )


def gaussian_delta(eps: float, stddev: float) -> float:
    """Returns the delta that Gaussian noise has at eps, for an answer of sensitivity 1."""
    near, far = 1 / (2 * stddev) - eps * stddev, -1 / (2 * stddev) - eps * stddev
    # The second term is a product of something huge and something tiny.
    return math.exp(scipy.special.log_ndtr(near)) - math.exp(eps + scipy.special.log_ndtr(far))


def epsilon_at(delta: float, claimed: float, delta_at: Callable[[float], float]) -> float:
    """Returns the eps at which `delta_at` falls to `delta`, searched from the claimed one.

    Infinity where the end of normal noise raises delta by more than `LOST_SHARE`.
    """
    if math.isinf(claimed) or lost_delta(claimed) > LOST_SHARE * delta * (1 + 1e-9):
        return math.inf

    def excess(eps: float) -> float:
        return delta_at(eps) / delta - 1

    low, high = claimed / 2, claimed
    holds = excess(high) <= 0
    while excess(high) > 0:
        low, high = high, 2 * high
    while excess(low) < 0:
        low, high = low / 2, low
    found = float(scipy.optimize.brentq(excess, low, high, rtol=1e-7))
    # The search ends a little beside it, on either side.
    return min(found, claimed) if holds else found


LARGEST_ROW_LENGTH = 1 + 1e-6
"""Largest length of a row: 1, and what rounding to float32 adds."""


NO_ROWS = torch.zeros(0, 0)
"""No features: the rows of a measurement that is not bound to a data set."""


@dataclass(frozen=True)
class ClassSums(Measurement):
    """Releases sums of the rows of each class; a curator sees the labels.

    Args:
        rows: public features, (N, d), CPU, each of length at most 1.
    """

    trust = Trust.CENTRAL

    _: KW_ONLY
    rows: Tensor = field(default=NO_ROWS, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows.dim() != 2:
            raise InputError(f"rows must have shape (N, d), got {tuple(self.rows.shape)}")
        check_rows(self.rows)

    @property
    def question(self) -> str:
        """What is asked, for the name of the noise."""
        return "moments"

    @property
    def key(self) -> str:
        """Says what is asked."""
        return f"{super().key}/{self.question}"

    @property
    def context(self) -> Tensor:
        """The rows."""
        return self.rows

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses rows of other labels."""
        super().check(count, limit, noise, prior)
        if self.context is self.rows and len(self.rows) != count:
            raise InputError(f"rows must have shape ({count}, d), one for each label")


@dataclass(frozen=True)
class NoisyMoments(ClassSums):
    """Releases X'Y, the sum of the features of each class, with Gaussian noise; central.

    (eps, delta)-label-DP under label replacement: features are public, and a replaced label moves
    one row of X, of length at most 1, from one column of X'Y to another. Least squares and logistic
    regression need no more of the labels, so one release serves every penalty and every refit.

    The guarantee is that of real Gaussian noise; it is drawn in float64. With secret noise sums are
    rounded (`as_released`), so that its gaps do not show.

    Source: WALR (Interoperable Private Attribution drafts, logistic_regression.md); the noise:
    Balle, Wang (2018), arXiv:1805.06530, theorem 8.

    Args:
        delta: in [1e-12, 1), by how much a probability may exceed what eps allows.
    """

    known_as = ("noisy_moments",)

    delta: float = 1e-5

    asked_by: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, below=1)
        check_reach(self.eps, most_eps_at(self.delta))

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry; 0 at eps=inf."""
        return SENSITIVITY * gaussian_stddev(self.eps, self.delta)

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns the eps of the stated noise at delta, over two labels of a row of length 1."""
        moved = float(torch.eye(2, dtype=torch.float64).diff(dim=0).norm())
        found = epsilon_at(
            self.delta, self.eps, lambda eps: gaussian_delta(eps, self.stddev / moved)
        )
        return found, f"from the stated noise and what one label moves, {self.trust}"

    def __call__(self, labels: Tensor, limit: int, noise: Noise) -> Tensor:
        """Returns noisy sums of the rows of each class, float64 (d, K)."""
        sums = torch.zeros((limit, self.rows.shape[1]), dtype=torch.float64)
        sums.index_add_(0, labels, self.rows.to(torch.float64))
        noisy = sums.T + gaussian_noise(tuple(sums.T.shape), self.stddev, noise)
        return as_released(noisy, self.stddev, noise)

    def summary(self) -> dict[str, object]:
        """Returns the standard deviation of the noise, for the record."""
        return {"stddev": self.stddev}


def check_rows(rows: Tensor) -> None:
    """Refuses a row longer than 1, to which the noise is not sized, or of no length.

    A sum with a NaN in it is NaN whatever the noise is, and names the class of its row.

    Raises:
        InputError: there is one.
    """
    lengths = rows.to(torch.float64).norm(dim=1)
    if bool((lengths <= LARGEST_ROW_LENGTH).all()):
        return
    if bool(lengths.isnan().any()):
        raise InputError("rows must be numbers, got NaN in one (impute it, or leave the row out)")
    raise InputError(f"rows must have length at most 1, got one of {float(lengths.max()):g}")


LOSS_GRID_STEPS = 2000
"""Steps of the grid of privacy losses within eps; more change the noise by less than 0.01 %."""
STDDEV_PRECISION = 1e-4
"""Relative width at which the search for the noise ends, on its safe side."""


@cache
def poisson_delta(eps: float, stddev: float, steps: int, share: float) -> float:
    """Returns the delta at eps of `steps` noisy sums over secret batches, under label replacement.

    Each step puts every example into its batch with probability `share`, on its own, and adds
    Gaussian noise to the sums of the rows of each class over the batch; rows have length at most 1.
    Nobody learns who was in a batch. A replaced label takes its row from the sum of one class and
    adds it to that of another. The two are different entries with independent noise, and given
    either label one of them has no share of the example. So the privacy loss of a step is exactly
    that of one removed and one added example, each of sensitivity 1, independently: the loss of the
    whole run is the sum of `steps` of each. Losses are rounded so that delta is never too small.

    Source: subsampled Gaussian losses: Koskela, Jälkö, Honkela (2020), arXiv:1906.03049; rounding:
    Doroshenko et al. (2022), arXiv:2207.04380, both as in dp-accounting. Replacement as the sum of
    two losses: ours.

    Args:
        eps: > 0, finite.
        stddev: of the noise on each entry, > 0.
        steps: T >= 1.
        share: in (0, 1].
    """
    # Takes longer to load than most commands take in total.
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    gap = eps / LOSS_GRID_STEPS

    def losses(kind: AdjacencyType) -> pld_pmf.PLDPmf:
        one = GaussianPrivacyLoss(stddev, sensitivity=1, sampling_prob=share, adjacency_type=kind)
        ends = one.connect_dots_bounds()
        low, high = math.floor(ends.epsilon_lower / gap), math.ceil(ends.epsilon_upper / gap)
        deltas = one.get_delta_for_epsilon(np.arange(low, high + 1) * gap)
        each = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(gap, low, high, deltas)
        return each.self_compose(steps)

    together = losses(AdjacencyType.REMOVE).compose(losses(AdjacencyType.ADD))
    return float(together.get_delta_for_epsilon(eps))


@cache
def poisson_stddev(eps: float, delta: float, steps: int, share: float) -> float:
    """Returns the noise on each entry that makes all steps together (eps, delta)-label-DP.

    Within 0.01 % of the least; 0 at eps=inf. See `poisson_delta`.

    >>> round(poisson_stddev(1.0, 1e-5, 100, 1.0) / 10, 2)  # of 100 equal answers: one tenth each
    5.28
    """
    if math.isinf(eps):
        return 0.0
    # Enough even if everybody knew the batches.
    high = SENSITIVITY * math.sqrt(steps) * gaussian_stddev(eps, delta) * (1 + STDDEV_PRECISION)
    low = 0.8 * high  # not far below: little noise has huge losses, and a grid as large
    while poisson_delta(eps, low, steps, share) <= delta:
        high, low = low, 0.8 * low

    def excess(log_stddev: float) -> float:
        found = poisson_delta(eps, math.exp(log_stddev), steps, share)
        return math.log(max(found, 1e-300) / delta)

    found = scipy.optimize.brentq(excess, math.log(low), math.log(high), xtol=STDDEV_PRECISION / 4)
    return math.exp(found + STDDEV_PRECISION / 2)


SMALLEST_SHARE = 1e-4
"""Smallest share of the examples in a batch; less noise needs a grid that outgrows the memory."""

GRADIENTS_AT_ONCE = 256
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
class LabelDPPro(ClassSums):
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

    A network's gradients depend on its weights, and these on earlier answers: with a
    `descent` one step is answered after the other, with gradients clipped to length 1, as in the
    paper; the answer is the weights after all steps.

    Source: Ghazi et al. (2024), LabelDP-Pro, ICLR, algorithm 1; answering all steps at once and
    clipping x: ours.

    Args:
        delta: in [1e-12, share/10], by how much a probability may exceed what eps allows.
        steps: T >= 1.
        share: of the examples in each batch, in [1e-4, 1], on average.
        descent: public; asks for the gradients, at true labels, of which it must keep nothing.
            None: sums of `rows` are released.
        settings: names all that the steps of a descent depend on, next to its first weights:
            another descent must not get the same noise.
    """

    known_as = ("labeldp_pro",)

    delta: float = 1e-5
    steps: int = 100
    share: float = 0.1
    _: KW_ONLY
    descent: Descent | None = field(default=None, repr=False, compare=False)
    settings: str = field(default="", repr=False, compare=False)

    asked_by: ClassVar[str] = "noisy_gradients"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.steps", self.steps, low=1)
        share = check_number("mechanism.share", self.share, low=SMALLEST_SHARE, high=1)
        # Near delta = share, releasing a whole batch without noise keeps the promise.
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, high=share / 10)
        check_reach(self.eps, most_eps_at(self.delta))

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry of each step; 0 at eps=inf."""
        return poisson_stddev(self.eps, self.delta, self.steps, float(self.share))

    @property
    def question(self) -> str:
        """Which descent it is, or that sums are asked for."""
        return super().question if self.descent is None else f"descent/{self.settings}"

    @property
    def context(self) -> Tensor:
        """The weights that a descent begins with, or the rows."""
        return self.rows if self.descent is None else self.descent.weights

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns the eps of the stated noise at delta, over two labels of a row of length 1.

        A network's gradients may be opposed: sqrt(2) times as far apart as rows.
        """
        least = min(self.stddev, self.descent_stddev / math.sqrt(2))
        found = epsilon_at(
            self.delta, self.eps, lambda eps: poisson_delta(eps, least, self.steps, self.share)
        )
        return found, f"from the stated noise and what one label moves, {self.trust}"

    def __call__(self, labels: Tensor, limit: int, noise: Noise) -> Tensor:
        """Returns the noisy sums of each step, or the weights after all steps."""
        if self.descent is None:
            return self.sums(labels, limit, noise)
        return self.descended(labels, self.descent, noise)

    def sums(self, labels: Tensor, num_classes: int, generator: Noise) -> Tensor:
        """Returns noisy sums of the rows of each class over each batch, float64 (T, d, K)."""
        stddev, shape = self.stddev, (num_classes, self.rows.shape[1])
        released = torch.empty((self.steps, *shape), dtype=torch.float64)
        for step in range(self.steps):
            batch = (uniforms((len(labels),), generator) < self.share).nonzero().flatten()
            sums = released[step].zero_()
            sums.index_add_(0, labels[batch], self.rows[batch].to(torch.float64))
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

    def descended(self, labels: Tensor, descent: Descent, generator: Noise) -> Tensor:
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
            for start in range(0, len(batch), GRADIENTS_AT_ONCE):
                part = batch[start : start + GRADIENTS_AT_ONCE]
                total += self.clipped_sum(descent.gradients(part, labels[part]))
            descent.step(as_released(total, self.descent_stddev, generator) / expected)
        return descent.weights

    def summary(self) -> dict[str, object]:
        """Returns the standard deviation of the noise in each step, for the record."""
        return {"stddev": self.stddev}
