"""Label inference: what a release tells about single labels to somebody who knows the features.

Two attackers guess a label that was released. Both have the features and know the labels of some
other examples; one has the release too. What the second gains over the first is the reconstruction
advantage, which puts private mechanisms and heuristics on one footing.

Source: Busa-Fekete et al. (2024), "Auditing Privacy Mechanisms via Label Inference Attacks",
arXiv:2406.02797, for two classes; with more, we take the odds of the true label against the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.store.release import Release
from labeldp.support import seeding

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


def posterior(before: Tensor, release: Release) -> Tensor:
    """Returns Bayes' rule: log beliefs before plus the release's exact log likelihood, (n, K)."""
    return (before.double() + release.log_likelihood).log_softmax(1)


def flat(features: Tensor) -> Tensor:
    """Returns features as float32 (n, d), each column's mean 0, all of them at one scale."""
    columns = features.flatten(1).to(torch.float32)
    columns = columns - columns.mean(0)
    return columns / columns.std().clamp_min(1e-6)


def learned_beliefs(
    inputs: list[Tensor], labels: Tensor, known: Tensor, num_classes: int, seed: int,
    ready: Sequence[Tensor] = (),
) -> Tensor:  # fmt: skip
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
