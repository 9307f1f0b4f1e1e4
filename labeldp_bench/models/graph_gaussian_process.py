"""A Gaussian process over the graph of the public features, whose prior the releases choose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from scipy.stats import chi2
from torch import Tensor

from labeldp.supervision import Supervision, VoteClassifier
from labeldp.support.validate import check_number, check_numbers
from labeldp_bench.interfaces import Session
from labeldp_bench.models.eigenmaps import least_squares, usable_functions
from labeldp_bench.models.embeddings import Embedding, SmoothModel

OFFSET = 0.02
"""Added to 1 - eigenvalue: a function that is constant on a group has a finite prior, too."""
SIGNALS = 10.0 ** (torch.arange(-21, 7, dtype=torch.float64) / 3)
"""Prior variances to choose from, in units of the noise variance of one vote."""
CHANCE = 0.05
"""That noise alone has class means taken for different."""


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
    expects of it; with clear votes this changes nothing. Class means are taken for equal as far as
    noise may explain their differences.

    Source: Borovitskiy et al. (2021), "Matérn Gaussian processes on graphs", arXiv:2010.15538; on
    releases, and the scale and means of classes, ours.

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
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "ProcessClassifier":
        """Returns the classifier by the posterior's mean."""
        count = round(self.functions * supervision.num_classes)
        embedding = self.embedding(features, count, session)
        votes = supervision.votes().to(torch.float64)
        functions = embedding.smooth.values[supervision.indices]
        usable = usable_functions(functions, supervision.num_classes, session)
        functions = functions[:, :usable]
        distance = OFFSET + 1 - embedding.smooth.eigenvalues[:usable]
        centre, level = functions.mean(0), votes.mean()
        # What a vote adds to all classes alike tells none of them.
        votes = votes - votes.mean(1, keepdim=True)
        means = votes.mean(0)
        functions, votes = functions - centre, votes - means
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
        offset = level + clear_part(means, noise / len(votes))
        return ProcessClassifier(embedding, centre, chosen.weights * scale, offset)


@dataclass(frozen=True)
class ProcessClassifier(VoteClassifier):
    """The posterior's mean, each class at its expected variance.

    Attributes:
        embedding: the functions.
        centre: their means over the examples that released something, (M,).
        weights: (M, K).
        offset: (K,).
    """

    embedding: Embedding
    centre: Tensor
    weights: Tensor
    offset: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float64 (m, K), all rows with the same sum."""
        functions = self.embedding.functions(features)[:, : len(self.weights)]
        return (functions - self.centre) @ self.weights + self.offset


class Posterior(NamedTuple):
    """What votes say of the functions' weights.

    Attributes:
        log_evidence: log density of the votes, less what no prior changes.
        signal: the prior variance that makes it largest, from `SIGNALS`.
        weights: the posterior's mean, (M, K).
        doubt: posterior variance of one class's function, mean over the examples.
    """

    log_evidence: float
    signal: float
    weights: Tensor
    doubt: float


def posterior(
    gram: Tensor, moments: Tensor, noise: float, examples: int, prior: Tensor
) -> Posterior:
    """Returns the posterior of the most likely signal.

    In each direction of votes that sum to 0, votes are F w + e, with w ~ N(0, signal x noise x
    diag(prior)) and e ~ N(0, noise).

    Args:
        gram: F'F, float64 (M, M).
        moments: F'v of each class's votes v, (M, K); rows sum to 0.
        noise: variance, > 0.
        examples: rows of F.
        prior: relative variances, (M,); scaled to sum 1.
    """
    classes = moments.shape[1]
    roots = (prior / prior.sum()).sqrt()
    sizes, vectors = torch.linalg.eigh(roots[:, None] * gram * roots)
    sizes = sizes.clamp_min(0)
    rotated = vectors.T @ (roots[:, None] * moments)
    gain = 1 + SIGNALS[:, None] * sizes  # (signals, M)
    explained = (SIGNALS[:, None] / gain * rotated.square().sum(1)).sum(1) / noise
    centred_log_likelihood = (explained - (classes - 1) * gain.log().sum(1)) / 2
    best = int(centred_log_likelihood.argmax())
    shrunk = (SIGNALS[best] / gain[best])[:, None] * rotated
    variance = noise * float((SIGNALS[best] * sizes / gain[best]).sum()) / examples
    return Posterior(
        float(centred_log_likelihood[best]),
        float(SIGNALS[best]),
        roots[:, None] * (vectors @ shrunk),
        variance * (classes - 1) / classes,
    )


def noise_variance(votes: Tensor, gram: Tensor, moments: Tensor) -> float:
    """Returns the mean squared residual of least squares on all functions, in each direction.

    Args:
        votes: float64 (n, K); rows and columns sum to 0.
        gram: as `posterior`.
        moments: as `posterior`.
    """
    explained = (moments * least_squares(gram, moments, len(gram))).sum()
    left = float(votes.square().sum() - explained)
    free = max(1, len(votes) - len(gram) - 1) * (votes.shape[1] - 1)
    return max(left / free, torch.finfo(torch.float64).tiny ** 0.5)


def clear_part(means: Tensor, variance: float) -> Tensor:
    """Returns the means, shrunk to 0 as far as noise may explain them (James, Stein 1961).

    Where a test at the level `CHANCE` finds no difference, they are 0.

    Args:
        means: sum to 0, (K,).
        variance: of each direction, by noise, > 0.
    """
    bound = float(chi2.isf(CHANCE, len(means) - 1)) * variance
    return means * max(0.0, 1 - bound / max(float(means.square().sum()), bound))
