"""PATE: votes of teachers with confident Gaussian noise, and their accounting."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.groups import NO_MEMBERS
from labeldp.mechanisms.measurement import Measurement, Notes, Trust, check_members
from labeldp.mechanisms.moments import (
    SMALLEST_DELTA,
    epsilon_at,
    gaussian_delta,
    gaussian_noise,
    most_eps_at,
)
from labeldp.mechanisms.noise import Noise, Prior, check_reach
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer, check_number

RENYI_ORDERS = 1 + np.logspace(-2, 5, 400)
"""Orders of the Rényi divergence; between two of them the least eps changes by less than 0.01 %."""


def votes_epsilon(
    selections: int, answers: int, selection_stddev: float, answer_stddev: float, delta: float
) -> float:
    """Returns the eps of so many noisy votes, whatever the votes are.

    A replaced label changes the votes of one teacher. So it moves the largest count by 1 at most,
    and the counts together by sqrt(2). Steps may depend on earlier answers: only their number is
    fixed. Gaussian answers together cost exactly as much as one of them with less noise.

    Source: Papernot et al. (2018), arXiv:1802.08908, Confident-GNMax; Dong, Roth, Su (2019),
    arXiv:1905.02383, corollary 3.3, for the composition; dp-accounting for the eps of the one.

    Args:
        selections: how often the largest count is compared with the threshold.
        answers: how often a winner is released.
        selection_stddev: of the noise on the largest count.
        answer_stddev: of the noise on each count.
        delta: in (0, 1).

    >>> round(votes_epsilon(1000, 250, 800, 500, 1e-5), 3)  # ALIBI's paper, CIFAR-10
    0.194
    """
    # Takes longer to load than most commands take in total.
    from dp_accounting import get_epsilon_gaussian

    cost = selections / (2 * selection_stddev**2) + answers / answer_stddev**2
    with np.errstate(divide="ignore"):  # where the eps that it tries has no delta
        return float(get_epsilon_gaussian(1 / math.sqrt(2 * cost), delta))


def gaussian_epsilon(stddev: float, delta: float) -> float:
    """Returns a bound on the eps of one Gaussian answer of sensitivity 1, by Rényi divergences.

    About a tenth above the exact one. The noise of a vote is sized by it, and stays as it is in
    earlier records.
    """
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    return float(RdpAccountant(RENYI_ORDERS).compose(GaussianDpEvent(stddev)).get_epsilon(delta))


@cache
def votes_cost(eps: float, delta: float) -> float:
    """Returns what all steps together may cost: their divergence of order a is a times this.

    >>> round(votes_cost(0.215, 1e-5), 5)
    0.00178
    """

    def excess(log_stddev: float) -> float:
        return gaussian_epsilon(math.exp(log_stddev), delta) - eps

    high = math.log(1e7 / min(eps, 1.0))
    found = scipy.optimize.brentq(excess, math.log(1e-3 / (1 + eps)), high, xtol=1e-9)
    return 0.5 * math.exp(-2 * (found + 1e-8))  # the safe side of where the search ends


def data_dependent_epsilon(
    counts: NDArray[np.float64],
    answered: NDArray[np.bool_],
    threshold: float,
    selection_stddev: float,
    answer_stddev: float,
    delta: float,
) -> float:
    """Returns the eps that these votes have, less than `votes_epsilon` where teachers agree.

    It depends on the votes, so on labels, and is itself not private: no guarantee may be stated
    with it unless noise is added to it (Papernot et al. 2018, section B). A diagnostic.

    Source: Papernot et al. (2018), theorem 6, propositions 7, 8 and 10.

    Args:
        counts: votes for each class, float64 (Q, K), of the queries that were asked.
        answered: bool (Q,), which of them were.
        threshold: of the largest count.
        selection_stddev: as `votes_epsilon`.
        answer_stddev: as `votes_epsilon`.
        delta: as `votes_epsilon`.
    """
    total = np.zeros_like(RENYI_ORDERS)
    for votes, is_answered in zip(counts, answered, strict=True):
        away = (votes.max() - threshold) / selection_stddev
        total += _surprise(
            float(scipy.special.log_ndtr(-abs(away))), math.sqrt(2) * selection_stddev
        )
        if is_answered:
            behind = np.delete(votes, votes.argmax()) - votes.max()
            rarest = np.logaddexp.reduce(
                scipy.special.log_ndtr(behind / (math.sqrt(2) * answer_stddev))
            )
            total += _surprise(min(float(rarest), math.log(1 - 1 / len(votes))), answer_stddev)
    # As dp-accounting turns divergences into eps.
    shrunk = np.log1p(-1 / RENYI_ORDERS) - (math.log(delta) + np.log(RENYI_ORDERS)) / (
        RENYI_ORDERS - 1
    )
    return float(max(0.0, (total + shrunk).min()))


def _surprise(log_q: float, stddev: float) -> NDArray[np.float64]:
    """Returns the divergence of each order of an answer whose likeliest value is missed with q.

    Args:
        log_q: log of q < 1.
        stddev: of Gaussian noise under which the divergence of order a is a / stddev^2 at most.
    """
    always = RENYI_ORDERS / stddev**2
    if log_q == -math.inf:
        return np.zeros_like(always)
    second = stddev * math.sqrt(-log_q)
    first, q = second + 1, math.exp(log_q)
    if second <= 1:
        return always
    eps_first, eps_second = first / stddev**2, second / stddev**2
    most = (second - 1) * eps_second - second * (
        math.log(first / (first - 1)) + math.log(second / (second - 1))
    )
    if log_q > most:
        return always
    log_a = math.log1p(-q) - math.log1p(-math.exp((log_q + eps_second) * (1 - 1 / second)))
    log_b = eps_first - log_q / (first - 1)
    fits = first >= RENYI_ORDERS
    orders = np.where(fits, RENYI_ORDERS, first)
    bound = np.logaddexp(math.log1p(-q) + (orders - 1) * log_a, log_q + (orders - 1) * log_b) / (
        orders - 1
    )
    return np.where(fits, np.minimum(bound.clip(0), always), always)


REFUSED = -1
"""What is released in place of a class where there is no winner."""


Vote = Callable[[Tensor, Tensor], Tensor]
"""Maps positions and true labels of one part, int64 (m,) each, to classes of queries, (Q,)."""


@dataclass(frozen=True)
class PateFM(Measurement):
    """Releases the class that most teachers vote for, with Gaussian noise; central.

    Every teacher learns from labels of its own, which no other sees, and votes on each query, an
    image without its label. Confident-GNMax: if the largest count plus noise reaches the threshold,
    the winner of fresh noisy counts is released, else nothing; after `answers` winners it ends.

    (eps, delta)-label-DP under label replacement for all queries together, see `votes_epsilon`: a
    replaced label changes one teacher. It holds whatever the votes are. The noise is a little more
    than eps asks for, and `eps_spent`, which the account books, is what it costs. The noise of the
    threshold
    is on the largest count alone, as its accounting has it; the released code of the paper adds it
    to every count and accounts for one. Noise as in `NoisyMoments`.

    Source: Malek Esmaeili et al. (2021), arXiv:2106.03408, section 4 (PATE-FM); Papernot et al.
    (2018), arXiv:1802.08908, algorithm 1. The sizes of both noises follow from eps: ours.

    Args:
        delta: in [1e-12, 1), by how much a probability may exceed what eps allows.
        teachers: n >= 2.
        queries: Q >= 1, the most that are asked.
        answers: A in [1, Q], the most that are answered.
        threshold: share of the teachers that must agree, in [0, 1].
        selection_share: share of the cost that comparing with the threshold takes, in (0, 1).
        parts: int64 (N,), the teacher of each label, in [0, n), by features and chance alone.
        vote: trains a teacher on one part and asks it. A curator calls it once for each teacher,
            with the labels of its own part and no others. It must keep nothing, which nobody can
            enforce: eps holds for a vote that does not.
        settings: names all that votes depend on besides the labels: other teachers must not get
            the same noise.

    The answer is the winner of each query, int64 (Q,), `REFUSED` where there is none.
    """

    known_as = ("pate_fm",)

    delta: float = 1e-5
    teachers: int = 250
    queries: int = 200
    answers: int = 100
    threshold: float = 0.5
    selection_share: float = 0.25
    _: KW_ONLY
    parts: Tensor = field(default=NO_MEMBERS, repr=False, compare=False)
    vote: Vote | None = field(default=None, repr=False, compare=False)
    settings: str = field(default="", repr=False, compare=False)

    draws = 3
    trust = Trust.CENTRAL
    asked_by: ClassVar[str] = "pate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, below=1)
        check_reach(self.eps, most_eps_at(self.delta))
        check_integer("mechanism.teachers", self.teachers, low=2)
        check_integer("mechanism.queries", self.queries, low=1)
        check_integer("mechanism.answers", self.answers, low=1, high=self.queries)
        check_number("mechanism.threshold", self.threshold, low=0, high=1)
        check_number("mechanism.selection_share", self.selection_share, above=0, below=1)
        check_members("parts", self.parts, len(self.parts))
        if len(self.parts) and not torch.equal(self.parts.unique(), torch.arange(self.teachers)):
            raise InputError(
                f"each of {self.teachers} teachers needs labels of its own, and there are "
                f"{len(self.parts)} labels (take fewer mechanism.teachers)"
            )

    @property
    def selection_stddev(self) -> float:
        """Standard deviation of the noise on the largest count; 0 at eps=inf."""
        if math.isinf(self.eps):
            return 0.0
        cost = self.selection_share * votes_cost(self.eps, self.delta)
        return math.sqrt(self.queries / (2 * cost))

    @property
    def answer_stddev(self) -> float:
        """Standard deviation of the noise on each count of a winner; 0 at eps=inf."""
        if math.isinf(self.eps):
            return 0.0
        cost = (1 - self.selection_share) * votes_cost(self.eps, self.delta)
        return math.sqrt(self.answers / cost)

    @property
    def eps_spent(self) -> float:
        """Price of all answers together at `delta`, exact: at most eps, 8.5 % less at eps=1."""
        if math.isinf(self.eps):
            return self.eps
        noise = self.selection_stddev, self.answer_stddev
        return min(self.eps, votes_epsilon(self.queries, self.answers, *noise, self.delta))

    def release_votes(self, counts: Tensor, /, generator: Noise) -> Tensor:
        """Returns the winner of each query, or `REFUSED`, int64 (Q,); of several runs (n, Q).

        Args:
            counts: how many teachers vote for each class, float64 (Q, K) or (n, Q, K).
            generator: CPU generator of the privacy stream.

        Raises:
            InputError: counts for another number of queries.
        """
        if counts.dim() not in (2, 3) or counts.shape[-2] != self.queries:
            raise InputError(f"votes must be counted for {self.queries} queries")
        largest = counts.amax(-1)
        noisy = largest + gaussian_noise(tuple(largest.shape), self.selection_stddev, generator)
        agreed = noisy >= self.threshold * self.teachers
        winners = (
            counts + gaussian_noise(tuple(counts.shape), self.answer_stddev, generator)
        ).argmax(-1)
        return torch.where(agreed & (agreed.cumsum(-1) <= self.answers), winners, REFUSED)

    def unsanitised(self, counts: Tensor, released: Tensor) -> Notes:
        """Returns what a curator may look at and must not publish as a guarantee.

        Args:
            counts: as `release_votes`.
            released: what it returned.
        """
        if math.isinf(self.eps):
            return {}
        answered = (released != REFUSED).numpy()
        # After the last answer nothing more is asked, if the answers were used up.
        used_up = answered.sum() == self.answers
        asked = int(answered.nonzero()[0][-1]) + 1 if used_up else len(answered)
        votes = counts.double().numpy()[:asked]
        noise = self.selection_stddev, self.answer_stddev
        found = data_dependent_epsilon(
            votes, answered[:asked], self.threshold * self.teachers, *noise, self.delta
        )
        return {"data_dependent_eps_unsanitised": min(self.eps_spent, found)}

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns the eps of both noises at delta, over two votes of one teacher on every query.

        What that moves is measured here. Gaussian answers together are one (Dong, Roth, Su 2019,
        arXiv:1905.02383, corollary 3.3), with no loss by Rényi divergences: less than is claimed.
        """
        how = f"from both noises and what one teacher moves, {self.trust}"
        if math.isinf(self.eps):
            return math.inf, how
        before, after = torch.eye(2, dtype=torch.float64)
        largest = 1.0  # the leading class may lose the vote
        together = float((before - after).norm())
        selections = self.queries * (largest / self.selection_stddev) ** 2
        winners = self.answers * (together / self.answer_stddev) ** 2
        stddev = 1 / math.sqrt(selections + winners)
        return epsilon_at(self.delta, self.eps, lambda eps: gaussian_delta(eps, stddev)), how

    def summary(self) -> dict[str, Any]:
        """Returns the standard deviations of both noises, for the record."""
        return {"selection_stddev": self.selection_stddev, "answer_stddev": self.answer_stddev}

    @property
    def key(self) -> str:
        """Says how teachers learn."""
        return f"{super().key}/votes/{self.settings}"

    @property
    def context(self) -> Tensor:
        """The parts."""
        return self.parts

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses parts of other labels."""
        super().check(count, limit, noise, prior)
        check_members("parts", self.parts, count)
        if self.vote is None:
            raise InputError(f"{self.name} needs teachers (use learner={self.asked_by})")

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns the winners."""
        return self.answer(labels, limit, noise)[0]

    def answer(
        self, labels: Tensor, limit: Any, noise: Noise, prior: Prior = None
    ) -> tuple[Tensor, Notes]:
        """Returns the winners, and the eps that these very votes have."""
        counts = torch.zeros((self.queries, limit), dtype=torch.float64)
        own = self.parts.argsort(stable=True).split(self.parts.bincount().tolist())
        for indices in progress_bar(own, len(own), "teachers"):
            assert self.vote is not None, "checked before a label is read"
            votes = self.vote(indices, labels[indices].clone())
            if votes.dtype != torch.int64 or votes.shape != (self.queries,):
                raise InputError(
                    f"a teacher must vote on {self.queries} queries, int64 of that many"
                )
            counts[torch.arange(self.queries), votes] += 1
        released = self.release_votes(counts, noise)
        return released, self.unsanitised(counts, released)
