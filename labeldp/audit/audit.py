"""The audit of one mechanism of the library: exact where possible, and by draws."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from labeldp.audit import statistics
from labeldp.audit.channels import BEYOND, Channel, Mixed, of_one
from labeldp.audit.fit import Calibration, GoodnessOfFit, all_of
from labeldp.audit.group_channels import (
    STORE_HISTOGRAM,
    Histogram,
    group_channels,
    group_epsilon,
    histogram_channel,
    histogram_epsilon,
)
from labeldp.audit.statistics import (
    ROWS,
    Literals,
    choose_event,
    choose_literals,
    eps_bound,
    event_counts,
    flagged_from,
    row_independence_test,
    two_inputs,
)
from labeldp.audit.sum_channels import (
    releases_sums,
    sums_channels,
    sums_epsilon,
    votes_channels,
    votes_epsilon_exactly,
)
from labeldp.mechanisms import (
    ClassMechanism,
    GroupMechanism,
    LabelEnhancement,
    Laplace,
    Mechanism,
    PateFM,
    RealMechanism,
)
from labeldp.mechanisms.base import check_sums
from labeldp.mechanisms.encodings import AsReleased
from labeldp.support import seeding
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_eps, check_integer

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


PILOT = 1000
"""Draws of each input that say what to look at; used for nothing else."""
FEWEST_ROWS = 2000
"""Of one call, whatever its chunk is: fewer show no correlation."""


@dataclass(frozen=True)
class Sampled:
    """What draws say of one sampler.

    Attributes:
        sampler: which one.
        bound: eps is at least this, at the stated confidence, whatever the formula says.
        confidence: of the bound.
        draws: how many outputs the bound rests on, of both inputs together.
        share: how often the event happened under the input that makes it likelier.
        event: the inputs and the event, in words.
        fit: whether the draws follow the claimed law; None where no law is known.
        delta: of the claim.
        apart: p-value of the largest correlation between rows of one call, see
            `row_independence_test`.
    """

    sampler: str
    bound: float
    confidence: float
    draws: int
    share: float
    event: str
    fit: GoodnessOfFit | None
    delta: float = 0.0
    apart: float = 1.0

    def flagged_from(self, eps: float) -> float:
        """Returns the smallest true eps that 90 of 100 such audits would put above `eps`."""
        return flagged_from(eps, self.share, self.draws // 2, self.confidence, delta=self.delta)


def sample(channel: Channel, draws: int, generator: Generator, confidence: float = 0.99) -> Sampled:
    """Draws from a sampler and returns what follows for eps, and whether the draws fit.

    Half of the draws, equally many of each input, choose two inputs and an event, and are compared
    with the law. The other half, drawn afresh from the two inputs, gives Clopper-Pearson bounds on
    the event's two probabilities: what was tried on the first half costs no confidence.

    Args:
        channel: the sampler, see `Channel`.
        draws: outputs in all, >= 4 times the inputs.
        generator: of the audit.
        confidence: of the bound, in (0, 1).
    """
    asked = draws
    draws, count = min(draws, channel.most), len(channel.inputs)
    few = max(1, min(PILOT, channel.chunk, draws // 4))
    half, rest = max(2, draws // 2 // count), max(1, draws // 4)
    calibration = Calibration()

    with progress_bar(None, (few + half) * count + 2 * rest, f"draws of {channel.name}") as bar:

        def looked_at(number: int) -> Tensor:
            outputs = channel.draw(number, few, generator)
            bar.update(few)
            return outputs

        def counts(number: int, size: int, *, is_first: bool) -> Tensor:
            total = torch.zeros((literals.count + 1,) * 2, dtype=torch.float64)
            for batch in channel.batches(size):
                holds, law = _look(channel, literals, number, batch, generator)
                if law is not None and is_first:
                    calibration.add(law, number)
                total += event_counts(holds)
                bar.update(batch)
            return total

        pilot = [looked_at(i) for i in range(count)]
        literals = choose_literals(pilot, channel.law is not None)
        table = torch.stack([counts(i, half, is_first=True) for i in range(count)])
        more, less, (high, low) = choose_event(table, channel.delta * half)
        fits = [calibration.fit()] if channel.law is not None else []
        further = channel.noise(asked // 4, generator) if channel.noise is not None else None
        fits += [further] if further is not None else []
        hits = [int(counts(i, rest, is_first=False)[high, low]) for i in (more, less)]
    words = f"{channel.inputs[more]} against {channel.inputs[less]}: {literals.spell((high, low))}"
    bound = eps_bound(hits[0], hits[1], rest, confidence, channel.delta)
    share, fit = hits[0] / rest, all_of(fits)
    apart = _apart(channel, min(ROWS, asked, max(FEWEST_ROWS, channel.chunk)), generator)
    return Sampled(
        channel.name, bound, confidence, 2 * rest, share, words, fit, channel.delta, apart
    )


def _apart(channel: Channel, size: int, generator: Generator) -> float:
    """Returns whether rows are drawn apart, as a p-value; asked last, so that no bound moves."""
    if channel.mixed is None:
        return 1.0
    numbers = two_inputs(size, (0, len(channel.inputs) - 1), generator)
    return row_independence_test(channel.mixed(numbers, generator), numbers > 0)


def _look(
    channel: Channel, literals: Literals, number: int, size: int, generator: Generator
) -> tuple[Tensor, Tensor | None]:
    outputs = channel.draw(number, size, generator)
    law = None if channel.law is None else channel.law(outputs)
    return literals(outputs, law), law


MOST_INPUTS = 10
MOST_VALUES = 5
MOST_ENTRIES = 100_000_000
"""Entries that may be drawn in one audit: 1,000 classes leave 100,000 draws."""
IN_MEMORY = 2_000_000


def channels_of(mechanism: Mechanism, num_classes: int, prior: Tensor | None) -> list[Channel]:
    """Returns a channel for each sampler of the mechanism.

    Args:
        mechanism: for classes, real labels or groups.
        num_classes: K, of mechanisms for classes.
        prior: global, float64 (K,), or None for uniform; for mechanisms for classes.
    """
    if isinstance(mechanism, ClassMechanism):
        return _class_channels(mechanism, num_classes, prior)
    if isinstance(mechanism, RealMechanism):
        return _real_channels(mechanism)
    if isinstance(mechanism, GroupMechanism):
        return group_channels(mechanism)
    if releases_sums(mechanism):
        return sums_channels(mechanism)
    if isinstance(mechanism, PateFM):
        return votes_channels(mechanism)
    raise InputError(f"no audit by draws is known for {type(mechanism).__name__}")


def _class_channels(
    mechanism: ClassMechanism, num_classes: int, prior: Tensor | None
) -> list[Channel]:
    half = MOST_INPUTS // 2
    ends = [*range(half), *range(num_classes - half, num_classes)]
    labels = list(range(num_classes)) if num_classes <= MOST_INPUTS else ends
    inputs = tuple(f"label {label}" for label in labels)
    chosen = torch.tensor(labels)

    def release(asked: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(asked, num_classes, generator, prior)

    def sums(asked: Tensor, generator: Generator) -> Tensor:
        size = len(asked)
        sums = mechanism.release_groups(asked, num_classes, torch.arange(size), size, generator)
        single = mechanism.release(asked[:1], num_classes, torch.Generator().manual_seed(0), prior)
        return sums.argmax(1) if single.dim() == 1 else sums.to(single.dtype)

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_likelihood(outputs, num_classes, prior)[:, chosen]

    chunk, most = max(1, IN_MEMORY // num_classes), max(1000, MOST_ENTRIES // num_classes)

    def channel(name: str, sampler: Mixed, chunk: int) -> Channel:
        def mixed(numbers: Tensor, generator: Generator) -> Tensor:
            return sampler(chosen[numbers], generator)

        return Channel(name, inputs, of_one(mixed), law, most, chunk, mixed=mixed)

    channels = [channel("release", release, chunk)]
    # Sums and messages take no prior: they are drawn as without one.
    if prior is None and chunk > 1000:
        channels.append(channel("release_groups", sums, min(chunk, 20_000)))
    form = mechanism.encoding(num_classes) if prior is None else None
    if form is not None and not isinstance(form, AsReleased):  # own labels leave by its own draws

        def messages(asked: Tensor, generator: Generator) -> Tensor:
            return form.outputs(form.draw(asked, generator))

        channels.append(channel("release_messages", messages, chunk))
    return channels


def _real_channels(mechanism: RealMechanism, bound: float = 1.0) -> list[Channel]:
    reach = mechanism.reach(bound) if isinstance(mechanism, Laplace) else bound
    values = mechanism.breakpoints(bound)[1]
    ends = values[torch.linspace(0, len(values) - 1, MOST_VALUES).round().long().unique()].tolist()
    if isinstance(mechanism, Laplace):  # it clips; the others never see a label beyond the bound
        ends = [-BEYOND * reach, *ends, BEYOND * reach]
    inputs = tuple(f"label {value:g}" for value in ends)
    places = torch.tensor(ends, dtype=torch.float64)
    clipped = places.clamp(-reach, reach)

    def release(asked: Tensor, generator: Generator) -> Tensor:
        return mechanism.release(asked, bound, generator)

    def sums(asked: Tensor, generator: Generator) -> Tensor:
        size = len(asked)
        return mechanism.release_groups(asked, bound, torch.arange(size), size, generator)

    def law(outputs: Tensor) -> Tensor:
        return mechanism.log_density(outputs, clipped, bound)

    def channel(name: str, sampler: Mixed) -> Channel:
        def mixed(numbers: Tensor, generator: Generator) -> Tensor:
            return sampler(places[numbers], generator)

        return Channel(name, inputs, of_one(mixed), law, mixed=mixed)

    return [channel("release", release), channel("release_groups", sums)]


CONFIDENCE = 0.99
"""That all bounds from draws of one audit hold together."""
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Audit:
    """What was found of one mechanism.

    Attributes:
        claimed: eps; infinity claims nothing.
        exact: the formula's worst log ratio.
        how: where it comes from, in words.
        sampled: what the draws of each sampler say; empty where nothing is claimed.
        delta: of the claim; all eps are at this delta.
    """

    claimed: float
    exact: float
    how: str
    sampled: tuple[Sampled, ...]
    delta: float = 0.0

    @property
    def formula_holds(self) -> bool:
        """Whether the formula is within the claim."""
        return self.exact <= self.claimed + TOLERANCE

    @property
    def faults(self) -> list[str]:
        """What contradicts the claim, a line each; empty if it holds, or if there is none."""
        if not math.isfinite(self.claimed):
            return []
        faults = [] if self.formula_holds else [f"the formula gives eps = {self.exact:.6g}"]
        for found in self.sampled:
            if found.bound > self.claimed:
                faults.append(f"draws of {found.sampler} show eps >= {found.bound:.4g}")
            if found.fit is not None and not found.fit.agrees:
                faults.append(
                    f"draws of {found.sampler} do not follow the formula "
                    f"(p = {found.fit.p_value:.1g})"
                )
            if found.apart < statistics.LEVEL:
                faults.append(
                    f"outputs of {found.sampler} depend on other rows, or share their noise "
                    f"(p = {found.apart:.1g})"
                )
        return faults

    @property
    def is_tight(self) -> bool:
        """Whether the formula reaches the claim."""
        return self.exact > self.claimed - TOLERANCE

    def lines(self) -> list[str]:
        """Returns the audit in words, a line each, from `claimed` to `verdict`."""
        if not math.isfinite(self.claimed):
            return ["claimed    nothing", f"found      eps = {self.exact:.9g} {self.how}",
                    "verdict    no claim"]  # fmt: skip
        tail = f", delta = {self.delta:g}" if self.delta else ""
        lines = [f"claimed    eps = {self.claimed:g}{tail}"]
        lines.append(f"found      eps = {self.exact:.9g} {self.how}")
        for found in self.sampled:
            lines.append(
                f"draws      eps >= {found.bound:.4g} with {found.confidence:.2%} confidence, from "
                f"{found.draws:,} draws of {found.sampler}"
            )
            if found.fit is not None:
                says = "follow the formula" if found.fit.agrees else "DO NOT follow the formula"
                lines.append(f"           they {says} (p = {found.fit.p_value:.2g})")
            lines += _power(found, self.claimed)
        if self.faults:
            return [*lines, "verdict    the claim DOES NOT HOLD: " + "; ".join(self.faults)]
        return [*lines, f"verdict    the claim holds{', and is tight' if self.is_tight else ''}"]


def _power(found: Sampled, claimed: float) -> list[str]:
    """Returns which leak the draws would have shown, a line each."""
    least = found.flagged_from(claimed)
    if math.isinf(least):
        lines = ["power      the bound alone would find no leak (the event is too rare)"]
    else:
        lines = [
            f"power      a true eps of {least:.3g} or more: the bound finds it 90 times in 100"
        ]
    if found.fit is not None and math.isfinite(found.fit.found_from) and found.fit.found_from > 0:
        share = 100 * found.fit.found_from
        lines.append(
            f"           noise {share:.2g} % too small, or more: the fit finds it as often"
        )
    return lines


def audit(
    mechanism: Mechanism,
    num_classes: int = 10,
    prior: Tensor | None = None,
    draws: int = 1_000_000,
    seed: int = 0,
) -> Audit:
    """Returns both halves of the audit of a mechanism.

    Args:
        mechanism: for classes, real labels, groups, sums of features, or teachers' votes.
        num_classes: K, of mechanisms for classes.
        prior: global, float64 (K,), for mechanisms for classes; None tries a skewed and a uniform
            one: under a uniform prior some mechanisms are plain randomised response.
        draws: of each sampler, in all; 0 leaves the draws out.
        seed: of the audit.
    """
    if isinstance(mechanism, LabelEnhancement):
        raise InputError("what is published follows from the true labels: there is no eps to find")
    priors: dict[str, Tensor | None] = {"uniform": None}
    if prior is not None:
        priors = {"given": prior}
    elif isinstance(mechanism, ClassMechanism):
        priors = {"skewed": skewed_prior(num_classes), "uniform": None}
    if isinstance(mechanism, ClassMechanism):
        found = {name: exact_epsilon(mechanism, num_classes, one) for name, one in priors.items()}
        worst = max(found, key=lambda name: found[name])
        exact, how = found[worst], f"exactly, from the likelihood ({worst} prior)"
    elif isinstance(mechanism, RealMechanism):
        exact, how = exact_real_epsilon(mechanism), "from the density at its breakpoints"
    elif isinstance(mechanism, GroupMechanism):
        exact = group_epsilon(mechanism, min(num_classes, 3))
        how = f"over neighbouring small data sets, {mechanism.trust}, protects {mechanism.protects}"
    elif releases_sums(mechanism):
        exact = sums_epsilon(mechanism)
        how = f"from the stated noise and what one label moves, {mechanism.trust}"
    elif isinstance(mechanism, PateFM):
        exact = votes_epsilon_exactly(mechanism)
        how = f"from both noises and what one teacher moves, {mechanism.trust}"
    else:
        raise InputError(f"no audit is known for {type(mechanism).__name__}")
    if not mechanism.private or math.isinf(mechanism.eps):
        return Audit(math.inf, exact, how, ())
    channels = [
        replace(channel, name=f"{channel.name} ({name} prior)") if name != "uniform" else channel
        for name, one in priors.items()
        if name != "skewed" or found[name] > 0  # one label is left: the output says nothing
        for channel in channels_of(mechanism, num_classes, one)
    ]
    if draws and isinstance(mechanism, ClassMechanism):
        check_integer("draws", draws, low=4 * num_classes)
    sampled = sampled_all(channels if draws else [], draws, seed)
    return Audit(mechanism.eps, exact, how, sampled, mechanism.delta)


def audit_histogram(
    eps: float, draws: int = 1_000_000, seed: int = 0, histogram: Histogram = STORE_HISTOGRAM
) -> Audit:
    """Returns both halves of the audit of the store's noisy histogram."""
    check_eps(eps)
    if math.isinf(eps):
        return Audit(math.inf, math.inf, "exact counts", ())
    channels = [histogram_channel(eps, histogram)] if draws else []
    exact, how = histogram_epsilon(eps, histogram), "from the stated scale and what one label moves"
    return Audit(eps, exact, how, sampled_all(channels, draws, seed))


def sampled_all(channels: list[Channel], draws: int, seed: int) -> tuple[Sampled, ...]:
    """Returns what the draws of each sampler say; all bounds hold together at `CONFIDENCE`."""
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(channels))
    return tuple(
        sample(channel, draws, seeding.generator(seed, "audit", number), confidence)
        for number, channel in enumerate(channels)
    )


def sampled_epsilon(
    mechanism: Mechanism,
    num_classes: int,
    draws: int = 200_000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    prior: Tensor | None = None,
) -> float:
    """Returns a lower bound on eps that holds with the given confidence, from draws alone.

    The bound of the first sampler, see `sample`; arguments as for `audit`.
    """
    check_integer("num_classes", num_classes, low=2)
    check_integer("draws", draws, low=4 * num_classes)
    channel = channels_of(mechanism, num_classes, prior)[0]
    return sample(channel, draws, seeding.generator(seed, "audit"), confidence).bound


def skewed_prior(num_classes: int) -> Tensor:
    """Returns p_i proportional to (i + 1)^2, float64 (K,)."""
    prior = torch.arange(1.0, num_classes + 1, dtype=torch.float64) ** 2
    return prior / prior.sum()
