"""What a curator releases of teachers' votes: the winner, where enough of them agree."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.draws import Noise
from labeldp.mechanisms.gaussian import SMALLEST_DELTA, gaussian_noise
from labeldp.mechanisms.pate_accounting import data_dependent_epsilon, votes_cost
from labeldp.support.validate import InputError, check_integer, check_number

REFUSED = -1
"""In place of a class, where no winner was released."""


@dataclass(frozen=True)
class PateFM(Mechanism[int]):
    """Releases the class that most teachers vote for, with Gaussian noise; central.

    Every teacher learns from labels of its own, which no other sees, and votes on each query, an
    image without its label. Confident-GNMax: if the largest count plus noise reaches the threshold,
    the winner of fresh noisy counts is released, else nothing; after `answers` winners it ends.

    (eps, delta)-label-DP under label replacement for all queries together, see `votes_epsilon`: a
    replaced label changes one teacher. It holds whatever the votes are. The noise of the threshold
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
    """

    delta: float = 1e-5  # type: ignore[misc]
    teachers: int = 250
    queries: int = 200
    answers: int = 100
    threshold: float = 0.5
    selection_share: float = 0.25

    draws: ClassVar[int] = 3
    trust: ClassVar[str] = "central"
    asked_by: ClassVar[str] = "pate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, below=1)
        check_integer("mechanism.teachers", self.teachers, low=2)
        check_integer("mechanism.queries", self.queries, low=1)
        check_integer("mechanism.answers", self.answers, low=1, high=self.queries)
        check_number("mechanism.threshold", self.threshold, low=0, high=1)
        check_number("mechanism.selection_share", self.selection_share, above=0, below=1)

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

    def release_votes(self, counts: Tensor, /, generator: Noise) -> Tensor:
        """Returns the winner of each query, or `REFUSED`, int64 (Q,).

        Args:
            counts: how many teachers vote for each class, float64 (Q, K).
            generator: CPU generator of the privacy stream.

        Raises:
            InputError: counts for another number of queries.
        """
        if counts.dim() != 2 or len(counts) != self.queries:
            raise InputError(f"votes must be counted for {self.queries} queries")
        largest = counts.amax(1)
        noisy = largest + gaussian_noise(tuple(largest.shape), self.selection_stddev, generator)
        agreed = noisy >= self.threshold * self.teachers
        winners = (
            counts + gaussian_noise(tuple(counts.shape), self.answer_stddev, generator)
        ).argmax(1)
        return torch.where(agreed & (agreed.cumsum(0) <= self.answers), winners, REFUSED)

    def unsanitised(self, counts: Tensor, released: Tensor) -> dict[str, float]:
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
        found = data_dependent_epsilon(
            counts.double().numpy()[:asked], answered[:asked], self.threshold * self.teachers,
            self.selection_stddev, self.answer_stddev, self.delta,
        )  # fmt: skip
        return {"data_dependent_eps_unsanitised": min(self.eps, found)}

    def summary(self) -> dict[str, Any]:
        """Returns the standard deviations of both noises, for the record."""
        return {"selection_stddev": self.selection_stddev, "answer_stddev": self.answer_stddev}
