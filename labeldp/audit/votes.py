"""Audits of mechanisms that release the winners of teachers' votes, under (eps, delta)."""

import math

import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm
from torch import Generator, Tensor

from labeldp.audit.channel import Channel
from labeldp.audit.fit import DETECTED, Fit
from labeldp.mechanisms import PateFM
from labeldp.mechanisms.gaussian import gaussian_delta
from labeldp.mechanisms.pate_fm import REFUSED

K = 3
APART = 1.0
"""Standard deviations between a count and what it is compared with, in the look at the noise."""
MOST_CALLS = 5000
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

    def noise(draws: int, generator: Generator) -> Fit | None:
        return _noise(mechanism, draws, generator)

    inputs = tuple(f"class {label}" for label in range(K))
    return [
        Channel("release_votes", inputs, draw, law, 4 * MOST_CALLS, 1000, noise, mechanism.delta)
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


def _noise(mechanism: PateFM, draws: int, generator: Generator) -> Fit | None:
    """Compares both noises with the stated ones, each at a count one deviation off.

    No run may go on after its last answer: each winner beyond them costs as much again.
    """
    calls = max(1, min(draws // mechanism.queries, MOST_CALLS))
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
                return Fit(0.0, 0.0)
            told += _told(mechanism, released)
        hits = int(told[1]) if what == "selections" else int(told[2])
        count = int(told.sum()) if what == "selections" else int(told[1:].sum())
        # Where a run ends depends on what came before: a sum of surprises, of known variance.
        spread = math.sqrt(count * said * (1 - said))
        p_values.append(2 * norm.sf(abs(hits - count * said) / spread))
        least.append(DETECTED * spread / (count * APART * norm.pdf(APART)))
    return Fit(min(1.0, 2 * float(min(p_values))), float(max(least)))
