"""Audits of whole runs: canaries, an attack on one label, and the wall around labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from labeldp.audit.guesses import one_run_bound
from labeldp.audit.statistics import eps_bound
from labeldp.store import StoredRelease
from labeldp.support import seeding

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
    second = game.half(1)
    above = second.scores > game.half(0).thresholds()[1]
    more, less = (
        (int((above & part).sum()), int(part.sum())) for part in (second.is_first, ~second.is_first)
    )
    return eps_bound(more, less, confidence)


HIDDEN, BATCH, LEARNING_RATE, WEIGHT_DECAY = 128, 64, 1e-3, 1e-4
STEPS = 1500
SURE = 1e-6
"""Probabilities keep this distance from 0 and 1, so that log odds stay finite."""


@dataclass(frozen=True)
class Attack:
    """How often two attackers are right, and how far the release moved the odds.

    Attributes:
        without: share of unknown labels that are guessed right from features alone.
        with_release: the same, with the release.
        log_odds: mean change of the log odds of the true label by the release, >= 0 on average
            for calibrated attackers.
        log_odds_95: 95 % of the changes are smaller in size than this; eps bounds all of them.
    """

    without: float
    with_release: float
    log_odds: float
    log_odds_95: float

    @property
    def additive(self) -> float:
        """The additive reconstruction advantage: right guesses that only the release gives."""
        return self.with_release - self.without

    @classmethod
    def of(cls, before: Tensor, after: Tensor, true_labels: Tensor) -> "Attack":
        """Returns the attack of beliefs without and with the release: log probabilities (n, K)."""
        change = log_odds(after, true_labels) - log_odds(before, true_labels)
        return cls(
            accuracy(before, true_labels),
            accuracy(after, true_labels),
            float(change.mean()),
            float(change.abs().quantile(0.95)),
        )


def bound(eps: float, num_classes: int) -> float:
    """Returns the best share of right guesses from an eps-LDP release under a uniform prior.

    >>> round(bound(1.0, 10), 4)
    0.232
    """
    return 1 / (1 + (num_classes - 1) * math.exp(-eps))


def accuracy(beliefs: Tensor, true_labels: Tensor) -> float:
    """Returns the share of right guesses, ties broken at random."""
    best = beliefs >= beliefs.amax(1, keepdim=True) - 1e-12
    hit = best.gather(1, true_labels[:, None]).squeeze(1)
    return float((hit.double() / best.sum(1)).mean())


def log_odds(beliefs: Tensor, true_labels: Tensor) -> Tensor:
    """Returns the log odds of each true label, float64 (n,)."""
    p = beliefs.double().softmax(1).gather(1, true_labels[:, None]).squeeze(1)
    return p.clamp(SURE, 1 - SURE).logit()


def posterior(before: Tensor, release: StoredRelease) -> Tensor:
    """Returns Bayes' rule: log beliefs before plus the release's exact log likelihood, (n, K)."""
    return (before.double() + release.log_likelihood()).log_softmax(1)


def flat(features: Tensor) -> Tensor:
    """Returns features as float32 (n, d), each column's mean 0, all of them at one scale."""
    columns = features.flatten(1).to(torch.float32)
    columns = columns - columns.mean(0)
    return columns / columns.std().clamp_min(1e-6)


def learned_beliefs(
    inputs: list[Tensor],
    labels: Tensor,
    known: Tensor,
    num_classes: int,
    seed: int,
    ready: Sequence[Tensor] = (),
) -> Tensor:
    """Returns what a small model learns from known labels, log probabilities float64 (n, K).

    Trains one model for each of `inputs`. Of these and the `ready` ones it takes the one that does
    best on a fifth of the known labels, with a temperature fitted there. Uniform where too few
    labels are known.

    Args:
        inputs: float32 (n, d) each: one row per example, known or not.
        labels: int64 (m,), of the examples `known`.
        known: int64 (m,), positions in [0, n).
        num_classes: K.
        seed: of weights and order.
        ready: logits (n, K) that need no training.
    """
    count = len(inputs[0])
    if len(known) < 2 * num_classes:  # too few to learn from and to choose by
        return torch.full((count, num_classes), -math.log(num_classes), dtype=torch.float64)
    fifth = len(known) // 5
    fitted, chosen = known[fifth:], known[:fifth]
    candidates = [logits.double() for logits in ready]
    for columns in inputs:
        network = _small_model(columns[fitted], labels[fifth:], num_classes, seed)
        with torch.no_grad():
            candidates.append(network(columns).double())
    losses = [_best_temperature(logits[chosen], labels[:fifth]) for logits in candidates]
    best = min(range(len(losses)), key=lambda number: losses[number][0])
    return (candidates[best] / losses[best][1]).log_softmax(1)


def _small_model(columns: Tensor, labels: Tensor, num_classes: int, seed: int) -> nn.Module:
    order = seeding.generator(seed, "attack", "order")
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seeding.derive(seed, "attack", "weights"))
        network = nn.Sequential(
            nn.Linear(columns.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, num_classes)
        )
        adam = torch.optim.AdamW(
            network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )
        for _ in range(STEPS):
            rows = torch.randint(len(labels), (BATCH,), generator=order)
            loss = functional.cross_entropy(network(columns[rows]), labels[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
    return network


def _best_temperature(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """Returns the smallest cross entropy over a grid of temperatures, and its temperature."""
    grid = [2 ** (power / 2) for power in range(-4, 11)]
    return min((float(functional.cross_entropy(logits / t, labels)), t) for t in grid)
