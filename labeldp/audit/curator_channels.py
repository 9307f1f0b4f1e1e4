"""Sums, gradients and votes that a curator makes noisy, as channels that an audit draws from."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial

import torch
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi2, norm
from torch import Generator, Tensor

from labeldp.audit.channels import Channel
from labeldp.audit.fit import DETECTED, GoodnessOfFit, certain, misfit, own_stream
from labeldp.audit.statistics import FEWEST
from labeldp.mechanisms import LabelDPPro, NoisyMoments, PateFM
from labeldp.mechanisms.pate import REFUSED

CLASSES = 3
MOST_ENTRIES = 10_000_000
"""Noisy sums of T steps that are drawn in total."""
MOST_CALLS = 50
"""Whose steps are compared with each other."""
AT_ONCE = 200
"""Draws of T steps in one call."""
WIDTH = 4
"""Over how many weights a gradient that is too long lies."""


def moment_channels(mechanism: NoisyMoments) -> list[Channel]:
    """Returns the channel of sums."""
    return [_sums(mechanism, 1, 1.0)]


def step_channels(mechanism: LabelDPPro) -> list[Channel]:
    """Returns the channels of sums over batches, and of the gradients of a network."""
    return [_sums(mechanism, mechanism.steps, float(mechanism.share)), _descent(mechanism)]


def _sums(mechanism: NoisyMoments | LabelDPPro, steps: int, share: float) -> Channel:
    """Returns the channel of the sums: each draw is an example with a feature of its own.

    n examples with n features give n independent draws in one call: the noisy sums of the own
    feature over each of three classes, in every step.
    """
    variance, chunk = mechanism.stddev**2, 1000 if steps == 1 else AT_ONCE

    @lru_cache(2)
    def over(size: int) -> NoisyMoments | LabelDPPro:
        return replace(mechanism, rows=torch.eye(size, dtype=torch.float64))

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        sums = over(size)(numbers, CLASSES, generator)
        return sums.reshape(steps, size, CLASSES).transpose(0, 1).reshape(size, steps * CLASSES)

    def law(outputs: Tensor) -> Tensor:
        # Against the density of noise alone, in each step and class.
        ratio = ((2 * outputs - 1) / (2 * variance)).exp()
        return (1 - share + share * ratio).log().reshape(-1, steps, CLASSES).sum(1)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Compares the spread of sums over classes without examples with the stated one.

        At a small eps likelihood ratios hardly depend on the noise.
        """
        calls = max(1, min(draws, MOST_ENTRIES // steps) // chunk)
        own = torch.arange(steps * CLASSES) % CLASSES == 0  # of class 0, which all have
        numbers = torch.zeros(chunk, dtype=torch.int64)
        drawn = [ask(numbers, generator) for _ in range(calls)]
        tied = steps_tied(
            torch.cat([part[:, own].sum(1) for part in drawn]), steps, variance, share
        )
        return tied or _spread(torch.cat([part[:, ~own].flatten() for part in drawn]), variance)

    inputs = tuple(f"class {label}" for label in range(CLASSES))
    most = MOST_ENTRIES // (steps * CLASSES) if steps > 1 else 4_000_000
    return Channel("class sums", inputs, ask, law, most, chunk, noise, mechanism.delta)


def _spread(noise: Tensor, variance: float) -> GoodnessOfFit:
    """Returns how the spread of pure noise agrees with the stated variance."""
    squares, count = float(noise.square().sum()) / variance, noise.numel()
    p_value = 2 * min(chi2.cdf(squares, count), chi2.sf(squares, count))
    least = DETECTED / math.sqrt(2 * count)
    return GoodnessOfFit(min(1.0, float(p_value)), float(least))


def steps_tied(sums: Tensor, steps: int, variance: float, share: float) -> GoodnessOfFit | None:
    """Returns the misfit of sums over all steps, whose batches and noise should be independent.

    A batch that is drawn once and kept is told by every step anew: the accounting, of a batch for
    each step, no longer holds. Step by step nothing is wrong; the sum over the steps spreads more.
    None if it does not, or where too few examples were in a batch to tell.

    Args:
        sums: of outputs that hold the example if it is in the batch, float64 (n,).
        steps: T.
        variance: of the noise of a step.
        share: of the examples in a batch.
    """
    one, count = share * (1 - share), len(sums)
    if steps == 1 or count * steps * one < FEWEST:
        return None
    rest = (sums - steps * share).square() / (steps * (variance + one)) - 1
    p_value = 2 * float(norm.sf(abs(float(rest.mean())) / float(rest.std()) * math.sqrt(count)))
    return certain(GoodnessOfFit(p_value, 0.0))


def _descent(mechanism: LabelDPPro) -> Channel:
    """Returns the channel of a network's gradients: each draw is an example with its own weight.

    Two labels pull the weight to opposite sides, as far as a clipped gradient can; one does not.
    """
    pulls, share, steps = torch.tensor([-1.0, 1.0, 0.0]), float(mechanism.share), mechanism.steps
    variance = mechanism.descent_stddev**2

    def ask(numbers: Tensor, generator: Generator, width: int = 1) -> Tensor:
        size = len(numbers)
        recorded = _Recorded(pulls, size, width)
        replace(mechanism, descent=recorded)(numbers, CLASSES, generator)
        # Along what the example pulls: as far as its length, whatever the weights are.
        seen = torch.stack(recorded.seen, 1).reshape(size, width, steps).sum(1)
        return share * size * seen / math.sqrt(width)

    def law(outputs: Tensor) -> Tensor:
        away = pulls.double()[:, None, None]
        ratio = ((2 * away * outputs - away.square()) / (2 * variance)).exp()
        return (1 - share + share * ratio).log().sum(2).T

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        calls = max(1, min(draws, MOST_ENTRIES // steps) // AT_ONCE)
        nobody_pulls, pull = torch.full((AT_ONCE,), len(pulls) - 1), torch.full((AT_ONCE,), 1)
        found = [ask(nobody_pulls, generator) for _ in range(calls)]
        stream, few = own_stream(generator, "steps"), min(calls, MOST_CALLS)
        own = torch.cat([ask(pull, stream).sum(1) for _ in range(few)])
        tied = steps_tied(own, steps, variance, share)
        long = misfit(partial(ask, width=WIDTH), law, len(pulls), few * AT_ONCE, stream)
        return tied or long or _spread(torch.cat(found), variance)

    inputs = tuple(f"pull {float(pull):+g}" for pull in pulls)
    most = MOST_ENTRIES // (steps * CLASSES)
    return Channel("noisy descent", inputs, ask, law, most, AT_ONCE, noise, mechanism.delta)


class _Recorded:
    """A descent that never moves, and writes down what it is answered."""

    def __init__(self, pulls: Tensor, size: int, width: int) -> None:
        self.pulls, self.width = pulls, width
        self.weights, self.seen = torch.zeros(size * width), list[Tensor]()

    def gradients(self, indices: Tensor, labels: Tensor) -> Tensor:
        """Returns gradients ten times as long as is allowed, along the example's own weights."""
        rows = torch.zeros(len(indices), len(self.weights) // self.width, self.width)
        rows[torch.arange(len(indices)), indices] = 10 * self.pulls[labels][:, None]
        return rows.flatten(1)

    def step(self, gradient: Tensor) -> None:
        """Keeps the answer."""
        self.seen.append(gradient)


APART = 1.0
"""Standard deviations between a count and what it is compared with, in the look at the noise."""
MOST_VOTE_CALLS = 5000
AT_A_TIME = 100_000
"""Queries whose votes are in memory together."""
STEPS = 2001
"""Of the integral over the winner's noise."""


def teacher_votes(mechanism: PateFM) -> list[Channel]:
    """Returns the channel of one run: a teacher votes for its own class on every query.

    An output is how often nothing, and each class, was released before the run ended; that is all
    that the law of equal queries depends on.
    """
    # Without the own teacher class 0 leads and reaches the threshold just so: one vote decides.
    edge = mechanism.threshold * mechanism.teachers
    votes = torch.tensor([edge, edge - 1, edge - 1]).double() + torch.eye(CLASSES).double()
    laws = torch.stack([_law_of_votes(mechanism, each) for each in votes])

    def ask(numbers: Tensor, generator: Generator) -> Tensor:
        return torch.cat(
            [_told(mechanism, runs) for runs in _runs(mechanism, votes[numbers], generator)]
        )

    return [
        Channel(
            "teacher votes",
            tuple(f"class {label}" for label in range(CLASSES)),
            ask,
            lambda outputs: outputs.double() @ laws.T,
            most=4 * MOST_VOTE_CALLS,
            chunk=1000,
            noise=partial(_vote_noise, mechanism),
            delta=mechanism.delta,
            in_one_call=False,
        )
    ]


def _runs(mechanism: PateFM, votes: Tensor, generator: Generator) -> Iterator[Tensor]:
    """Yields what runs release for each query, (m, Q), of votes (n, K) that all its queries get."""
    for part in votes.split(max(1, AT_A_TIME // mechanism.queries)):
        every = part[:, None].expand(-1, mechanism.queries, -1)
        yield mechanism.release_votes(every, generator)


def _told(mechanism: PateFM, runs: Tensor) -> Tensor:
    """Returns how often each of nothing and K classes was released before runs (n, Q) ended."""
    answered = (runs != REFUSED).cumsum(1)
    asked = torch.cat([answered.new_zeros(len(runs), 1), answered[:, :-1]], 1) < mechanism.answers
    told = torch.arange(REFUSED, CLASSES)[:, None, None]
    return ((runs == told) & asked).sum(2).T


def _law_of_votes(mechanism: PateFM, votes: Tensor) -> Tensor:
    """Returns the log probability of nothing, and of each class, for one query, (K + 1,)."""
    edge = mechanism.threshold * mechanism.teachers
    reach = (float(votes.max()) - edge) / mechanism.selection_stddev
    own = torch.linspace(-8, 8, STEPS, dtype=torch.float64)
    density = (-own.square() / 2).exp()
    shares = []
    for label in range(len(votes)):
        ahead = (votes[label] - votes) / mechanism.answer_stddev
        below = torch.from_numpy(ndtr((own[:, None] + ahead[None, :]).numpy()))
        below[:, label] = 1.0
        shares.append(float((density * below.prod(1)).sum() / density.sum()))
    winners = torch.tensor(shares, dtype=torch.float64).log() + float(log_ndtr(reach))
    return torch.cat([torch.tensor([float(log_ndtr(-reach))], dtype=torch.float64), winners])


def _vote_noise(mechanism: PateFM, draws: int, generator: Generator) -> GoodnessOfFit | None:
    """Compares both noises with the stated ones, each at a count one deviation off.

    No run may go on after its last answer: each winner beyond them costs as much again.
    """
    calls = max(1, min(draws // mechanism.queries, MOST_VOTE_CALLS))
    edge = mechanism.threshold * mechanism.teachers
    reach = 1e3 * (mechanism.selection_stddev + mechanism.answer_stddev)
    gap = APART * math.sqrt(2) * mechanism.answer_stddev
    # Far behind is a class that never wins; far above the edge, every query is answered.
    selections = [edge - APART * mechanism.selection_stddev, -reach, -reach]
    winners = [edge + reach, edge + reach - gap, -reach]
    said = float(norm.sf(APART))
    p_values, least = [], []
    # The first counts answers among all queries, the second the runner-up among all answers.
    for counts, place, start in ((selections, 1, 0), (winners, 2, 1)):
        votes = torch.tensor(counts, dtype=torch.float64).expand(calls, -1)
        told = torch.zeros(CLASSES + 1, dtype=torch.int64)
        for runs in _runs(mechanism, votes, generator):
            if bool(((runs != REFUSED).sum(1) > mechanism.answers).any()):
                return GoodnessOfFit(0.0, 0.0)
            told += _told(mechanism, runs).sum(0)
        hits, count = int(told[place]), int(told[start:].sum())
        # Where a run ends depends on what came before: a sum of surprises, of known variance.
        spread = math.sqrt(count * said * (1 - said))
        p_values.append(2 * norm.sf(abs(hits - count * said) / spread))
        least.append(DETECTED * spread / (count * APART * norm.pdf(APART)))
    return GoodnessOfFit(min(1.0, 2 * float(min(p_values))), float(max(least)))
