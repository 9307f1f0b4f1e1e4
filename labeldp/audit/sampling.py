"""The half of an audit that draws: a lower bound on eps, and whether draws fit the stated law."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp.audit.bounds import eps_bound, flagged_from
from labeldp.audit.channel import Channel
from labeldp.audit.events import (
    Literals,
    choose_event,
    choose_literals,
    event_counts,
)
from labeldp.audit.fit import Calibration, Fit, all_of
from labeldp.audit.rows import ROWS, row_independence_test, two_inputs
from labeldp.support.progress import progress_bar

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
    fit: Fit | None
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
