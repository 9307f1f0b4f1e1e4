"""One audit: what a mechanism claims, what its formula says, and what its samplers do.

The two halves are independent. The formula draws nothing: a sampler that forgets its noise passes
it. The draws see a few inputs and events only, and no leak below `flagged_from`. A claim holds if
neither half contradicts it, and the draws follow the formula.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeldp.audit import rows
from labeldp.audit.channel import Channel
from labeldp.audit.channels import channels_of
from labeldp.audit.group_channels import (
    VAULT_HISTOGRAM,
    Histogram,
    histogram_channel,
    histogram_epsilon,
)
from labeldp.audit.groups import group_epsilon
from labeldp.audit.mechanism import exact_epsilon, exact_real_epsilon
from labeldp.audit.sampling import Sampled, sample
from labeldp.audit.sums import releases_sums, sums_epsilon
from labeldp.audit.votes import votes_epsilon_exactly
from labeldp.mechanisms import (
    ClassMechanism,
    GroupMechanism,
    LabelEnhancement,
    Mechanism,
    PateFM,
    RealMechanism,
)
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_eps, check_integer

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
            if found.apart < rows.LEVEL:
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
    eps: float, draws: int = 1_000_000, seed: int = 0, histogram: Histogram = VAULT_HISTOGRAM
) -> Audit:
    """Returns both halves of the audit of the vault's noisy histogram."""
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
