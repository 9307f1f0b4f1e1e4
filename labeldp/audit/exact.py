"""The formula half of an audit: the eps that a mechanism's statements imply."""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from labeldp.mechanisms import ClassMechanism, Measurement, RealMechanism
from labeldp.mechanisms.noise import EXCLUDED, check_sums
from labeldp.support.validate import InputError, check_integer

CHUNK = 50_000


def formula_epsilon(
    measurement: Measurement, num_classes: int, prior: Tensor | None = None
) -> tuple[float, str]:
    """Returns the eps that the statements of a mechanism imply, and how that was found, in words.

    Infinity where additive noise ends so near that outputs exclude a label too often.

    Raises:
        InputError: no audit of such a mechanism is known.
    """
    if isinstance(measurement, ClassMechanism):
        eps, how = exact_epsilon(measurement, num_classes, prior), "exactly, from the likelihood"
    elif isinstance(measurement, RealMechanism):
        eps, how = exact_real_epsilon(measurement), "from the density at its breakpoints"
    else:
        eps, how = measurement.stated_epsilon(num_classes)
    if math.isfinite(eps):
        # As much of exponentially falling noise as lies beyond its reach, less what a replaced
        # label moves; of normal noise see `moments.epsilon_at`.
        excluded = math.exp(min(0.0, -measurement.end_of_noise(eps)))
        if excluded > EXCLUDED:
            return math.inf, f"as noise ends: up to {excluded:.2g} of outputs exclude a label"
    return eps, how


def exact_epsilon(
    mechanism: ClassMechanism, num_classes: int, prior: Tensor | None = None
) -> float:
    """Returns the largest log ratio of the likelihoods of two labels, over all outputs.

    Enumerates the output space; where that is infinite or too large, the mechanism's extreme
    outputs, among which the worst ratio is attained. Trusts the likelihood, and draws nothing.

    Args:
        mechanism: any with an output space or extreme outputs.
        num_classes: K >= 2.
        prior: global, float64 (K,), or None for uniform.

    Returns:
        Infinity too if a likelihood is NaN somewhere, or if no output is possible.

    Raises:
        InputError: the likelihoods do not sum to 1.
    """
    check_integer("num_classes", num_classes, low=2)
    try:
        outputs, are_all = mechanism.output_space(num_classes, prior), True
    except InputError:
        outputs, are_all = mechanism.extreme_outputs(num_classes, prior), False
    sums = torch.zeros(num_classes, dtype=torch.float64)

    def likelihoods() -> Iterator[Tensor]:
        for part in outputs.split(CHUNK):
            found = mechanism.log_likelihood(part, num_classes, prior)
            sums.add_(found.exp().sum(0))
            yield found

    worst = _worst_ratio(likelihoods())
    if are_all and math.isfinite(worst):
        # The ratios of what is no law say nothing of the draws.
        check_sums(sums, "the likelihoods of all outputs under label {} sum to {:.6g}, not to 1")
    return worst


def exact_real_epsilon(mechanism: RealMechanism, bound: float = 1.0) -> float:
    """Returns the largest log ratio of the densities under two labels, over the breakpoints.

    Infinity too if a density is NaN somewhere, or 0 everywhere.
    """
    outputs, values = mechanism.breakpoints(bound)
    return _worst_ratio([mechanism.log_density(outputs, values, bound)])


def _worst_ratio(log_likelihoods: Iterable[Tensor]) -> float:
    """Returns the largest log ratio within any row; infinity where it cannot be told."""
    largest = []
    for part in log_likelihoods:
        if part.isnan().any():
            return math.inf
        high, low = part.max(1).values, part.min(1).values
        # An output that no label gives says nothing, and its -inf - -inf would be NaN.
        ratios = (high - low)[high > -math.inf]
        largest += [float(ratios.max())] if len(ratios) else []
    return max(largest, default=math.inf)
