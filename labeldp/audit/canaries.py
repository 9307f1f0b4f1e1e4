"""Audits end to end: what guesses about labels, from a trained model, say about eps.

Canaries are training examples whose label was drawn uniformly, so that features say nothing about
it. An auditor gets, for each, the true label and another one, in random order: given the pair, both
are equally likely, and every bit by which guesses beat a coin came through the release.

The observational audit needs no canary: beside each training label it puts one that was drawn from
the law of labels given features, and guesses which of the two was trained on. It holds as far as
that law is known.

Source: Steinke, Nasr, Jagielski (2023), arXiv:2305.08846, for many canaries in one run; Malek et
al. (2021), arXiv:2106.03408, for pairs of labels; Kalemaj et al. (2025), arXiv:2511.14084, for the
observational game.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp.audit.bounds import one_run_bound, share_high, share_low

QUANTILES = 40
FEWEST = 20
"""Guesses that a threshold must leave."""


@dataclass(frozen=True)
class Game:
    """Guesses between two equally likely answers.

    Attributes:
        scores: float64 (m,); the larger, the more the first answer is believed; 0 abstains.
        is_first: bool (m,), whether the first answer is right; fair coins.
    """

    scores: Tensor
    is_first: Tensor

    @classmethod
    def of_pairs(cls, beliefs: Tensor, labels: Tensor, draws: Generator) -> "Game":
        """Returns the game of canaries.

        Args:
            beliefs: log probabilities that the attacker gives each label, float64 (m, K).
            labels: true labels of the canaries, uniform on [0, K), int64 (m,).
            draws: chooses the other label and the order.
        """
        count, num_classes = beliefs.shape
        other = (labels + torch.randint(1, num_classes, (count,), generator=draws)) % num_classes
        is_first = torch.rand(count, generator=draws) < 0.5
        first, second = torch.where(is_first, labels, other), torch.where(is_first, other, labels)
        believed = beliefs.double().gather(1, torch.stack([first, second], 1))
        return cls(believed[:, 0] - believed[:, 1], is_first)

    @classmethod
    def observed(cls, beliefs: Tensor, law: Tensor, labels: Tensor, draws: Generator) -> "Game":
        """Returns the observational game: was this label trained on, or drawn from the law?

        Args:
            beliefs: log probabilities from the model, float64 (m, K).
            law: probability of each label given the features, float64 (m, K).
            labels: labels that were trained on, int64 (m,).
            draws: chooses whether to show the label or one from the law.
        """
        surrogate = torch.multinomial(law, 1, generator=draws).squeeze(1)
        is_first = torch.rand(len(labels), generator=draws) < 0.5
        shown = torch.where(is_first, labels, surrogate)[:, None]
        scores = beliefs.double().gather(1, shown) - law.clamp_min(1e-12).log().gather(1, shown)
        return cls(scores.squeeze(1), is_first)

    def half(self, number: int) -> "Game":
        """Returns every other guess, from the first (0) or the second (1) on."""
        return Game(self.scores[number::2], self.is_first[number::2])

    def joined(self, other: "Game") -> "Game":
        """Returns the guesses of two runs whose canaries drew their labels independently."""
        return Game(
            torch.cat([self.scores, other.scores]), torch.cat([self.is_first, other.is_first])
        )

    def guesses(self, low: float, high: float) -> tuple[int, int]:
        """Returns right guesses and guesses: second below `low`, first above `high`."""
        first, second = self.scores > high, self.scores < low
        right = (first & self.is_first) | (second & ~self.is_first)
        return int(right.sum()), int((first | second).sum())

    def thresholds(self) -> tuple[float, float]:
        """Returns the two thresholds whose guesses stay best under sampling error."""
        edges = self.scores.quantile(torch.linspace(0, 1, QUANTILES + 1).double()).unique()
        lows, highs = edges[edges <= edges.median()], edges[edges >= edges.median()]
        below = [self.guesses(low, math.inf) for low in lows.tolist()]
        above = [self.guesses(-math.inf, high) for high in highs.tolist()]
        counts = torch.tensor(below)[:, None] + torch.tensor(above)[None, :]
        right, guesses = counts.double().unbind(2)
        share = (right + 1) / (guesses + 2)
        # Two standard errors off, so that few lucky guesses do not win.
        least = share - 2 * (share * (1 - share) / (guesses + 2)).sqrt()
        best = int(torch.where(guesses >= FEWEST, least, 0.0).argmax())
        row, column = divmod(best, len(highs))
        return float(lows[row]), float(highs[column])


def one_run_epsilon(game: Game, confidence: float = 0.95) -> float:
    """Returns a lower bound on eps: thresholds from one half of the guesses, bound from the other.

    Holds however the guesses of one run depend on each other (theorem 2.1 of Steinke et al.).
    """
    low, high = game.half(0).thresholds()
    right, guesses = game.half(1).guesses(low, high)
    return one_run_bound(right, guesses, confidence)


def pair_epsilon(game: Game, confidence: float = 0.95) -> float:
    """Returns a lower bound on eps from the shares of right and wrong guesses of the first answer.

    Clopper-Pearson on both, threshold from the other half. Treats canaries as independent, which
    one run does not promise: `one_run_epsilon` needs no such promise.
    """
    first, second = game.half(0), game.half(1)
    high = first.thresholds()[1]
    counts = []
    for part in (second.is_first, ~second.is_first):
        counts.append((int((second.scores[part] > high).sum()), int(part.sum())))
    level = (1 - confidence) / 2
    low = share_low(*counts[0], level)
    ratio = low / share_high(*counts[1], level) if min(counts[0][1], counts[1][1]) else 0.0
    return max(0.0, math.log(ratio)) if ratio > 0 else 0.0
