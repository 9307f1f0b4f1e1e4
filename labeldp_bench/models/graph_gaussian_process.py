"""A Gaussian process over the graph of the public features, whose prior the releases choose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labeldp_bench.models.eigenmaps import PER_FUNCTION, least_squares
from labeldp_bench.models.embedding import Embedding, SmoothModel
from labeldp_bench.supervision.interfaces import Classifier, Session
from labeldp_bench.supervision.prediction import vote_shares
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.validate import check_number, check_numbers

OFFSET = 0.02
"""Added to 1 - eigenvalue: a function that is constant on a group has a finite prior, too."""
SIGNALS = 10.0 ** (torch.arange(-21, 7, dtype=torch.float64) / 3)
"""Prior variances to choose from, in units of the noise variance of one vote."""


@dataclass(frozen=True)
class GraphGaussianProcess(SmoothModel):
    """Takes expected votes for a random function that changes little between neighbours.

    A priori, votes are a sum of the smoothest functions with independent normal weights. Their
    variances are signal x (0.02 + 1 - eigenvalue)^-smoothness, a Matérn process on the graph, cut
    off. Votes are this function plus noise. Signal and smoothness are those under which all votes
    together are the most likely (empirical Bayes), so that none is held out and no true label is
    needed.

    The mean of the posterior varies less than the function does, and for some classes less than for
    others by chance of the noise. So each class is scaled to the variance that the posterior
    expects of it; with clear votes this changes nothing. Class means are shrunk to their common
    mean, as far as noise alone explains their differences (James, Stein 1961).

    Source: Borovitskiy et al. (2021), "Matérn Gaussian processes on graphs", arXiv:2010.15538; on
    releases, and the scale of classes, ours.

    Args:
        network, neighbours, search, initial: as `SmoothModel`.
        functions: how many, as a multiple of the number of classes, >= 1.
        smoothness: > 0, to choose from.
    """

    functions: float = 8
    smoothness: Sequence[float] = (1, 2, 3, 4, 6)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("model.functions", self.functions, low=1)
        check_numbers("model.smoothness", self.smoothness, above=0)

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> "ProcessClassifier":
        """Returns the classifier by the posterior's mean."""
        count = round(self.functions * supervision.num_classes)
        embedding = self.embedding(features, count, session)
        votes = supervision.votes().to(torch.float64)
        available = max(1, len(votes) // PER_FUNCTION)
        functions = embedding.smooth.values[supervision.indices, :available]
        distance = OFFSET + 1 - embedding.smooth.eigenvalues[:available]
        centre, mean = functions.mean(0), votes.mean(0)
        functions, votes = functions - centre, votes - mean
        gram, moments = functions.T @ functions, functions.T @ votes
        noise = noise_variance(votes, gram, moments)
        posteriors = [
            posterior(gram, moments, noise, len(votes), distance**-smoothness)
            for smoothness in self.smoothness
        ]
        best = max(range(len(posteriors)), key=lambda number: posteriors[number].log_evidence)
        chosen = posteriors[best]
        session.notes["smoothness"] = float(self.smoothness[best])
        session.notes["signal"] = chosen.signal
        spread = (chosen.weights * (gram @ chosen.weights)).sum(0) / len(votes)
        scale = torch.where(spread > 0, 1 + chosen.doubt / spread, 1.0).sqrt()
        means = shrunk_means(mean, noise / len(votes))
        return ProcessClassifier(embedding, centre, chosen.weights * scale, means)


@dataclass(frozen=True)
class ProcessClassifier:
    """The posterior's mean, each class at its expected variance.

    Attributes:
        embedding: the functions.
        centre: their means over the examples that released something, (M,).
        weights: (M, K).
        means: of the votes, (K,).
    """

    embedding: Embedding
    centre: Tensor
    weights: Tensor
    means: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float64 (m, K)."""
        functions = self.embedding.functions(features)[:, : len(self.weights)]
        return (functions - self.centre) @ self.weights + self.means

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        return vote_shares(self.scores(features), temperature)


class Posterior(NamedTuple):
    """What votes say of the functions' weights.

    Attributes:
        log_evidence: log density of the votes, less what no prior changes.
        signal: the prior variance that makes it largest, from `SIGNALS`.
        weights: the posterior's mean, (M, K).
        doubt: posterior variance of the function, mean over the examples.
    """

    log_evidence: float
    signal: float
    weights: Tensor
    doubt: float


def posterior(
    gram: Tensor, moments: Tensor, noise: float, examples: int, prior: Tensor
) -> Posterior:
    """Returns the posterior of the most likely signal.

    Votes v of a class are F w + e, with w ~ N(0, signal x noise x diag(prior)), e ~ N(0, noise).

    Args:
        gram: F'F, float64 (M, M).
        moments: F'v of each class, (M, K).
        noise: variance, > 0.
        examples: rows of F.
        prior: relative variances, (M,); scaled to sum 1.
    """
    roots = (prior / prior.sum()).sqrt()
    sizes, vectors = torch.linalg.eigh(roots[:, None] * gram * roots)
    sizes = sizes.clamp_min(0)
    rotated = vectors.T @ (roots[:, None] * moments)
    gain = 1 + SIGNALS[:, None] * sizes  # (signals, M)
    explained = (SIGNALS[:, None] / gain * rotated.square().sum(1)).sum(1) / noise
    evidence = (explained - moments.shape[1] * gain.log().sum(1)) / 2
    best = int(evidence.argmax())
    shrunk = (SIGNALS[best] / gain[best])[:, None] * rotated
    doubt = noise * (SIGNALS[best] * sizes / gain[best]).sum() / examples
    weights = roots[:, None] * (vectors @ shrunk)
    return Posterior(float(evidence[best]), float(SIGNALS[best]), weights, float(doubt))


def noise_variance(votes: Tensor, gram: Tensor, moments: Tensor) -> float:
    """Returns the mean squared residual of least squares on all functions, mean over classes.

    Args:
        votes: less their means, float64 (n, K).
        gram: as `posterior`.
        moments: as `posterior`.
    """
    explained = (moments * least_squares(gram, moments, len(gram))).sum()
    left = float(votes.square().sum() - explained)
    free = max(1, len(votes) - len(gram) - 1)
    return max(left / (free * votes.shape[1]), torch.finfo(torch.float64).tiny ** 0.5)


def shrunk_means(means: Tensor, variance: float) -> Tensor:
    """Returns the means, shrunk to their mean as far as noise explains their differences.

    Args:
        means: (K,).
        variance: of each, by noise.
    """
    common = means.mean()
    spread = float((means - common).square().sum())
    kept = max(0.0, 1 - len(means) * variance / spread) if spread > 0 else 0.0
    return common + kept * (means - common)
