"""The audit of one mechanism of the library: exact where possible, and by draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from labeldp.audit import statistics
from labeldp.audit.channels import (
    Channel,
    class_channels,
    cluster_counts,
    cube_classes,
    cube_means,
    histogram_counts,
    local_full_channels,
    real_channels,
)
from labeldp.audit.curator_channels import moment_channels, step_channels, teacher_votes
from labeldp.audit.exact import formula_epsilon
from labeldp.audit.fit import Calibration, GoodnessOfFit, all_of
from labeldp.audit.statistics import (
    ROWS,
    choose_event,
    choose_literals,
    eps_bound,
    event_counts,
    flagged_from,
    row_independence_test,
    two_inputs,
)
from labeldp.mechanisms import (
    ClassMechanism,
    CubeMeans,
    ExponentialCubes,
    LabelDPPro,
    LabelEnhancement,
    LaplaceHistogram,
    LocalFull,
    Measurement,
    NoisyClusters,
    NoisyMoments,
    PateFM,
    RealMechanism,
)
from labeldp.support import seeding
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer

PILOT = 1000
"""Draws of each input that say what to look at; used for nothing else."""
FEWEST_ROWS = 3000
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


def sample(
    channel: Channel,
    draws: int,
    generator: Generator,
    confidence: float = 0.99,
    compares_rows: bool = True,
) -> Sampled:
    """Draws from a sampler and returns what follows for eps, and whether the draws fit.

    Half of the draws, equally many of each input, choose two inputs and an event, and are compared
    with the law. The other half, drawn afresh from the two inputs, gives Clopper-Pearson bounds on
    the event's two probabilities: what was tried on the first half costs no confidence.

    Args:
        channel: the sampler, see `Channel`.
        draws: outputs in all, >= 4 times the inputs.
        generator: of the audit.
        confidence: of the bound, in (0, 1).
        compares_rows: whether rows of one call are compared too; no bound depends on it.
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
                outputs = channel.draw(number, batch, generator)
                law = None if channel.law is None else channel.law(outputs)
                if law is not None and is_first:
                    calibration.add(law, number)
                total += event_counts(literals(outputs, law))
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
    bound = eps_bound((hits[0], rest), (hits[1], rest), confidence, channel.delta)
    share, fit = hits[0] / rest, all_of(fits)
    apart = 1.0
    if compares_rows:
        apart = _apart(channel, min(ROWS, asked, max(FEWEST_ROWS, channel.chunk)), generator)
    return Sampled(
        channel.name, bound, confidence, 2 * rest, share, words, fit, channel.delta, apart
    )


def _apart(channel: Channel, size: int, generator: Generator) -> float:
    """Returns whether rows are drawn apart, as a p-value; asked last, so that no bound moves."""
    if not channel.in_one_call:
        return 1.0
    numbers = two_inputs(size, (0, len(channel.inputs) - 1), generator)
    calls = [channel.ask(numbers, generator).numpy() for _ in range(2)]
    return row_independence_test(calls, [(numbers > 0).numpy()] * 2)


CHANNELS: dict[type, Callable[[Any], list[Channel]]] = {
    CubeMeans: cube_means,
    ExponentialCubes: cube_classes,
    LabelDPPro: step_channels,
    LaplaceHistogram: histogram_counts,
    LocalFull: local_full_channels,
    NoisyClusters: cluster_counts,
    NoisyMoments: moment_channels,
    PateFM: teacher_votes,
    RealMechanism: real_channels,
}
"""Channels of each kind of measurement but those of classes; a subclass has those of its base."""


def channels_of(measurement: Measurement, num_classes: int, prior: Tensor | None) -> list[Channel]:
    """Returns a channel for each way in which a measurement draws.

    Args:
        measurement: a mechanism for classes, or one of `CHANNELS`.
        num_classes: K, of mechanisms for classes.
        prior: global, float64 (K,), or None for uniform; for mechanisms for classes.
    """
    if isinstance(measurement, ClassMechanism):
        return class_channels(measurement, num_classes, prior)
    for kind in type(measurement).__mro__:
        if kind in CHANNELS:
            return CHANNELS[kind](measurement)
    raise InputError(f"no audit by draws is known for {measurement.name}")


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
            return [
                "claimed    nothing",
                f"found      eps = {self.exact:.9g} {self.how}",
                "verdict    no claim",
            ]
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
        tight = ", and is tight" if self.is_tight else ""
        draws = "; no fault found by draws" if self.sampled else ""
        return [*lines, f"verdict    the claim holds{tight}, by the formula{draws}"]


def _power(found: Sampled, claimed: float) -> list[str]:
    """Returns which leak the draws would have shown, a line each."""
    draws = found.draws // 2
    least = flagged_from(claimed, found.share, draws, found.confidence, found.delta)
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
    measurement: Measurement,
    num_classes: int = 10,
    prior: Tensor | None = None,
    draws: int = 1_000_000,
    seed: int = 0,
) -> Audit:
    """Returns both halves of the audit of a measurement.

    Args:
        measurement: as `channels_of`.
        num_classes: K, of mechanisms for classes.
        prior: global, float64 (K,), for mechanisms for classes; None tries a skewed and a uniform
            one: under a uniform prior some mechanisms are plain randomised response.
        draws: of each sampler, in total; 0 leaves the draws out.
        seed: of the audit.
    """
    if isinstance(measurement, LabelEnhancement):
        raise InputError("what is published follows from the true labels: there is no eps to find")
    is_of_classes = isinstance(measurement, ClassMechanism)
    priors: dict[str, Tensor | None] = {"uniform": None}
    if prior is not None:
        priors = {"given": prior}
    elif is_of_classes:
        priors = {"skewed": skewed_prior(num_classes), "uniform": None}
    found = {name: formula_epsilon(measurement, num_classes, one) for name, one in priors.items()}
    worst = max(found, key=lambda name: found[name][0])
    exact, how = found[worst]
    how += f" ({worst} prior)" if is_of_classes else ""
    if not measurement.private or math.isinf(measurement.eps):
        return Audit(math.inf, exact, how, ())
    if draws and is_of_classes:
        check_integer("draws", draws, low=4 * num_classes)
    channels = [
        replace(channel, name=f"{channel.name} ({name} prior)") if name != "uniform" else channel
        for name, one in priors.items()
        if name != "skewed" or found[name][0] > 0  # one label is left: the output says nothing
        for channel in channels_of(measurement, num_classes, one)
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(channels))
    sampled = tuple(
        sample(channel, draws, seeding.generator(seed, "audit", number), confidence)
        for number, channel in enumerate(channels if draws else [])
    )
    return Audit(measurement.eps, exact, how, sampled, measurement.delta)


def sampled_epsilon(
    measurement: Measurement,
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
    channel = channels_of(measurement, num_classes, prior)[0]
    stream = seeding.generator(seed, "audit")
    return sample(channel, draws, stream, confidence, compares_rows=False).bound


def skewed_prior(num_classes: int) -> Tensor:
    """Returns p_i proportional to (i + 1)^2, float64 (K,)."""
    prior = torch.arange(1.0, num_classes + 1, dtype=torch.float64) ** 2
    return prior / prior.sum()
