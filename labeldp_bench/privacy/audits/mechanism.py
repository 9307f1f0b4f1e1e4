"""Privacy audits: whether a mechanism has the eps that it claims, from likelihood and draws."""

import math
from collections.abc import Iterable

import torch
from scipy.stats import binomtest
from torch import Tensor

from labeldp_bench.mechanisms.classes import ClassMechanism
from labeldp_bench.mechanisms.real import RealMechanism
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import InputError, check_integer, check_number

CHUNK = 50_000


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
    """
    check_integer("num_classes", num_classes, low=2)
    try:
        outputs = mechanism.output_space(num_classes, prior)
    except InputError:
        outputs = mechanism.extreme_outputs(num_classes, prior)
    return _worst_ratio(
        mechanism.log_likelihood(part, num_classes, prior) for part in outputs.split(CHUNK)
    )


def exact_real_epsilon(
    mechanism: RealMechanism, bound: float = 1.0, prior: Tensor | None = None
) -> float:
    """Returns the largest log ratio of the densities under two labels, over the breakpoints.

    Infinity too if a density is NaN somewhere, or 0 everywhere.
    """
    outputs, values = mechanism.breakpoints(bound, prior)
    return _worst_ratio([mechanism.log_density(outputs, values, bound, prior)])


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


def sampled_epsilon(
    mechanism: ClassMechanism,
    num_classes: int,
    draws: int = 200_000,
    seed: int = 0,
    confidence: float = 0.99,
    prior: Tensor | None = None,
) -> float:
    """Returns a lower bound on eps that holds with the given confidence, from draws alone.

    Trusts the sampler alone. Half of the draws choose two labels and an event; the other
    half, drawn afresh, gives Clopper-Pearson bounds on the event's two probabilities. Events are
    one entry high, one entry low, or one high and another low; entries are those of a released
    label's one-hot vector, of bits, or of reals (high >= 1, low <= 0).

    Args:
        mechanism: anything that releases labels, bits or reals.
        num_classes: K >= 2.
        draws: number of releases in all, >= 4 K.
        seed: of the audit's own random stream.
        confidence: in (0, 1); both bounds hold together with at least this probability.
        prior: global, float64 (K,), or None for uniform.
    """
    check_integer("num_classes", num_classes, low=2)
    check_integer("draws", draws, low=4 * num_classes)
    check_number("confidence", confidence, above=0.0, high=1 - 1e-12)
    generator = seeding.generator(seed, "audit")

    def counts(label: int, size: int) -> Tensor:
        """Returns how often each event happened, int64 (K + 1, K + 1); see `_event_counts`."""
        total = torch.zeros((num_classes + 1, num_classes + 1), dtype=torch.float64)
        largest = max(1, 10 * CHUNK // num_classes)
        for start in range(0, size, largest):
            labels = torch.full((min(largest, size - start),), label)
            released = mechanism.release(labels, num_classes, generator, prior)
            total += _event_counts(released, num_classes)
        return total

    each = draws // 2 // num_classes
    table = torch.stack([counts(label, each) for label in range(num_classes)])
    more, less, event = _choose(table)
    rest = draws // 4
    hits = [int(counts(label, rest)[event]) for label in (more, less)]
    low = binomtest(hits[0], rest).proportion_ci(confidence, method="exact").low
    high = binomtest(hits[1], rest).proportion_ci(confidence, method="exact").high
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _event_counts(released: Tensor, num_classes: int) -> Tensor:
    """Returns counts of events, float64 (K + 1, K + 1).

    Entry (i, j): entry i high and entry j low. The last row and column leave that part out.
    """
    if released.dim() == 1:
        released = torch.nn.functional.one_hot(released, num_classes)
    always = torch.ones((len(released), 1), dtype=torch.bool)
    high = torch.cat([released >= 1, always], 1).to(torch.float32)
    low = torch.cat([released <= 0, always], 1).to(torch.float32)
    return (high.T @ low).to(torch.float64)


def _choose(table: Tensor) -> tuple[int, int, tuple[int, int]]:
    """Returns the two labels and the event whose ratio stays largest under sampling error.

    Args:
        table: counts per label and event, float64 (K, K + 1, K + 1).
    """
    # Two standard errors off each side, so that a rare event does not win by luck.
    error = 2 / (table + 1).sqrt()
    least, most = (table + 1).log() - error, (table + 1).log() + error
    top, bottom = least.max(0), most.min(0)
    flat = int((top.values - bottom.values).argmax())
    event = divmod(flat, table.shape[2])
    return int(top.indices[event]), int(bottom.indices[event]), event
