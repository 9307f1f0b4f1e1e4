"""Mechanisms that release sums or votes over all labels as channels."""

import math
from functools import partial

import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi2, norm
from torch import Generator, Tensor

from labeldp.audit.channels import Channel, certain, misfit, of_one, own_stream
from labeldp.audit.fit import DETECTED, GoodnessOfFit
from labeldp.audit.statistics import FEWEST
from labeldp.mechanisms import ClassSums, LabelDPPro, Mechanism, NoisyMoments, PateFM
from labeldp.mechanisms.moments import gaussian_delta, poisson_delta
from labeldp.mechanisms.pate import REFUSED
from labeldp.support.validate import InputError

K = 3
MOST_ENTRIES = 10_000_000
"""Noisy sums of T steps that are drawn in all."""
MOST_CALLS = 50
"""Whose steps are compared with each other."""
WIDTH = 4
"""Over how many weights a gradient that is too long lies."""


def releases_sums(mechanism: Mechanism) -> bool:
    """Returns whether the mechanism is of the kind that is audited here."""
    return isinstance(mechanism, NoisyMoments | LabelDPPro)


def sums_epsilon(mechanism: Mechanism) -> float:
    """Returns the eps that the stated noise has at the stated delta, over two neighbours.

    They differ in the label of one example, whose row has length 1. What that moves is measured
    here, not taken from the mechanism.
    """
    if math.isinf(mechanism.eps):
        return math.inf
    if isinstance(mechanism, NoisyMoments):
        # The sums of two classes, before and after.
        moved = float(torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double().diff(dim=0).norm())

        def delta(eps: float) -> float:
            return gaussian_delta(eps, mechanism.stddev / moved)
    elif isinstance(mechanism, LabelDPPro):

        def delta(eps: float) -> float:
            # A network's gradients may be opposed: sqrt(2) times as far apart as rows.
            least = min(mechanism.stddev, mechanism.descent_stddev / math.sqrt(2))
            return poisson_delta(eps, least, mechanism.steps, mechanism.share)
    else:
        raise InputError(f"no audit of sums is known for {type(mechanism).__name__}")

    def excess(eps: float) -> float:
        return delta(eps) / mechanism.delta - 1

    low, high = mechanism.eps / 2, mechanism.eps
    holds = excess(high) <= 0
    while excess(high) > 0:
        low, high = high, 2 * high
    while excess(low) < 0:
        low, high = low / 2, low
    found = float(brentq(excess, low, high, rtol=1e-7))
    # The search ends a little beside it, on either side.
    return min(found, mechanism.eps) if holds else found


def sums_channels(mechanism: Mechanism) -> list[Channel]:
    """Returns the channel of the sums: each draw is an example with a feature of its own.

    n examples with n features give n independent draws in one call: the noisy sums of the own
    feature over each of three classes, in every step.
    """
    assert isinstance(mechanism, NoisyMoments | LabelDPPro)
    steps = mechanism.steps if isinstance(mechanism, LabelDPPro) else 1
    share = float(mechanism.share) if isinstance(mechanism, LabelDPPro) else 1.0
    variance = mechanism.stddev**2
    chunk = 1000 if steps == 1 else 200

    def mixed(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        sums = ClassSums(mechanism, torch.eye(size))(numbers, K, generator)
        return sums.reshape(steps, size, K).transpose(0, 1).reshape(size, steps * K)

    draw = of_one(mixed)

    def law(outputs: Tensor) -> Tensor:
        # Against the density of noise alone, in each step and class.
        ratio = ((2 * outputs - 1) / (2 * variance)).exp()
        return (1 - share + share * ratio).log().reshape(-1, steps, K).sum(1)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Compares the spread of sums over classes without examples with the stated one.

        At a small eps likelihood ratios hardly depend on the noise.
        """
        calls = max(1, min(draws, MOST_ENTRIES // steps) // chunk)
        empty = torch.arange(steps * K) % K > 0  # classes other than the own one, 0
        found, own = [], []
        for _ in range(calls):
            outputs = draw(0, chunk, generator)
            found.append(outputs[:, empty].flatten())
            own.append(outputs[:, ~empty].sum(1))
        tied = steps_tied(torch.cat(own), steps, variance, share)
        return tied or _spread(torch.cat(found), variance)

    inputs = tuple(f"class {label}" for label in range(K))
    most = MOST_ENTRIES // (steps * K) if steps > 1 else 4_000_000
    sums = Channel("release_moments", inputs, draw, law, most, chunk, noise, mechanism.delta, mixed)
    return [sums, _descent(mechanism)] if isinstance(mechanism, LabelDPPro) else [sums]


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

    def mixed(numbers: Tensor, generator: Generator, width: int = 1) -> Tensor:
        size = len(numbers)
        asked = _Recorded(pulls, size, width)
        mechanism.release_descent(numbers, asked, generator)
        # Along what the example pulls: as far as its length, whatever the weights are.
        seen = torch.stack(asked.seen, 1).reshape(size, width, steps).sum(1) / math.sqrt(width)
        return share * size * seen

    draw = of_one(mixed)

    def law(outputs: Tensor) -> Tensor:
        away = pulls.double()[:, None, None]
        ratio = ((2 * away * outputs - away.square()) / (2 * variance)).exp()
        return (1 - share + share * ratio).log().sum(2).T

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        calls = max(1, min(draws, MOST_ENTRIES // steps) // chunk)
        found = [draw(len(pulls) - 1, chunk, generator) for _ in range(calls)]  # nobody pulls
        stream, calls = own_stream(generator, "steps"), min(calls, MOST_CALLS)
        own = torch.cat([draw(1, chunk, stream).sum(1) for _ in range(calls)])
        tied = steps_tied(own, steps, variance, share)
        long = misfit(of_one(partial(mixed, width=WIDTH)), law, len(pulls), calls * chunk, stream)
        return tied or long or _spread(torch.cat(found), variance)

    inputs = tuple(f"pull {float(pull):+g}" for pull in pulls)
    most, chunk = MOST_ENTRIES // (steps * K), 200
    return Channel("release_descent", inputs, draw, law, most, chunk, noise, mechanism.delta, mixed)


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
STEPS = 2001
"""Of the integral over the winner's noise."""


def votes_epsilon_exactly(mechanism: PateFM) -> float:
    """Returns the eps that the stated noise has at the stated delta, over two neighbours.

    They differ in the vote of one teacher on every query. What that moves is measured here, not
    taken from the mechanism. Gaussian answers together are one (Dong, Roth, Su 2019,
    arXiv:1905.02383, corollary 3.3), with no loss by Rényi divergences: less than what is claimed.
    """
    if math.isinf(mechanism.eps):
        return math.inf
    votes = _votes_of(0.0, 1.0)
    largest = float((votes[0].max() - votes[1].max()).abs())
    together = float((votes[0] - votes[1]).norm())
    selections = mechanism.queries * (largest / mechanism.selection_stddev) ** 2
    winners = mechanism.answers * (together / mechanism.answer_stddev) ** 2
    stddev = 1 / math.sqrt(selections + winners)

    def excess(eps: float) -> float:
        return gaussian_delta(eps, stddev) / mechanism.delta - 1

    high = mechanism.eps
    while excess(high) > 0:
        high *= 2
    low = high
    while excess(low) < 0:
        low /= 2
    return float(brentq(excess, low, high, rtol=1e-7))


def votes_channels(mechanism: PateFM) -> list[Channel]:
    """Returns the channel of one run: a teacher votes for its own class on every query.

    An output is how often nothing, and each class, was released before the run ended; that is all
    that the law of equal queries depends on.
    """
    edge = mechanism.threshold * mechanism.teachers
    laws = torch.stack([_law(mechanism, votes) for votes in _votes_of(edge, 1.0)])

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        counts = _votes_of(edge, 1.0)[number].expand(mechanism.queries, K)
        runs = [mechanism.release_votes(counts, generator) for _ in range(size)]
        return torch.stack([_told(mechanism, released) for released in runs])

    def law(outputs: Tensor) -> Tensor:
        return outputs.double() @ laws.T

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        return _noise(mechanism, draws, generator)

    inputs = tuple(f"class {label}" for label in range(K))
    return [
        Channel(
            "release_votes", inputs, draw, law, 4 * MOST_VOTE_CALLS, 1000, noise, mechanism.delta
        )
    ]


def _votes_of(edge: float, one: float) -> Tensor:
    """Returns the votes of all teachers, (K, K), where one votes for class 0, 1 or 2.

    Without it class 0 leads and reaches the threshold just so: one vote decides.
    """
    others = torch.tensor([edge, edge - one, edge - one], dtype=torch.float64)
    return others + one * torch.eye(K, dtype=torch.float64)


def _told(mechanism: PateFM, released: Tensor) -> Tensor:
    """Returns how often nothing, and each class, was released before the run ended, (K + 1,)."""
    answered = (released != REFUSED).cumsum(0)
    asked = torch.cat([answered.new_zeros(1), answered[:-1]]) < mechanism.answers
    return torch.bincount(released[asked] + 1, minlength=K + 1)


def _law(mechanism: PateFM, votes: Tensor) -> Tensor:
    """Returns the log probability of nothing, and of each class, for one query, (K + 1,)."""
    reach = (float(votes.max()) - mechanism.threshold * mechanism.teachers) / (
        mechanism.selection_stddev
    )
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


def _noise(mechanism: PateFM, draws: int, generator: Generator) -> GoodnessOfFit | None:
    """Compares both noises with the stated ones, each at a count one deviation off.

    No run may go on after its last answer: each winner beyond them costs as much again.
    """
    calls = max(1, min(draws // mechanism.queries, MOST_VOTE_CALLS))
    edge = mechanism.threshold * mechanism.teachers
    reach = 1e3 * (mechanism.selection_stddev + mechanism.answer_stddev)
    gap = APART * math.sqrt(2) * mechanism.answer_stddev
    # Far behind is a class that never wins; far above the edge, every query is answered.
    below = [edge - APART * mechanism.selection_stddev, -reach, -reach]
    above = [edge + reach, edge + reach - gap, -reach]
    said = float(norm.sf(APART))
    p_values, least = [], []
    for counts, what in ((below, "selections"), (above, "winners")):
        every = torch.tensor(counts, dtype=torch.float64).expand(mechanism.queries, K)
        told = torch.zeros(K + 1, dtype=torch.int64)
        for _ in range(calls):
            released = mechanism.release_votes(every, generator)
            if int((released != REFUSED).sum()) > mechanism.answers:
                return GoodnessOfFit(0.0, 0.0)
            told += _told(mechanism, released)
        hits = int(told[1]) if what == "selections" else int(told[2])
        count = int(told.sum()) if what == "selections" else int(told[1:].sum())
        # Where a run ends depends on what came before: a sum of surprises, of known variance.
        spread = math.sqrt(count * said * (1 - said))
        p_values.append(2 * norm.sf(abs(hits - count * said) / spread))
        least.append(DETECTED * spread / (count * APART * norm.pdf(APART)))
    return GoodnessOfFit(min(1.0, 2 * float(min(p_values))), float(max(least)))
