"""Fits on the smoothest functions over the features: least squares, and a Gaussian process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from scipy.stats import chi2
from torch import Tensor

from labeldp.supervision import Supervision, VoteClassifier
from labeldp.support import seeding
from labeldp.support.validate import check_integer, check_number, check_numbers
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embeddings import Embedding, SmoothModel

PER_FUNCTION = 3
"""Least examples for each function: a fit through all releases would be anything between them."""


@dataclass(frozen=True)
class Eigenmaps(SmoothModel):
    """Fits what was released by functions that hardly change between neighbours.

    Classes are groups of similar images, and features show these groups without a label: about ten
    smooth functions tell ten classes apart, so that 60,000 releases decide a hundred numbers only.
    The fit to what each release adds to a vote is linear and has one minimum; a likelihood has many
    at small eps. The number of functions is the one with the least squared error on held-out
    releases, so no true label is needed.

    `Embedding` says what a neighbour is. If an earlier fit chose the examples
    (`learner.retrain=consensus`), it also chose those that are held out.

    Source: Belkin, Niyogi (2004), "Semi-supervised learning on Riemannian manifolds"; on releases,
    ours.

    Args:
        network, neighbours, search, initial: as `SmoothModel`.
        functions: how many to choose from, as multiples of the number of classes, >= 1. With one
            per class, a class may hang on a single weight and be lost by noise; the squared error
            on held-out releases hardly sees it.
        folds: parts of the examples that are held out in turn, >= 2.
    """

    functions: Sequence[float] = (1, 1.5, 2, 3, 4, 6, 8)
    folds: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("model.folds", self.folds, low=2)
        check_numbers("model.functions", self.functions, low=1)

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "EigenmapClassifier":
        """Returns the classifier by the functions that held-out releases choose."""
        sizes = sorted({round(each * supervision.num_classes) for each in self.functions})
        embedding = self.embedding(features, sizes[-1], session)
        functions = embedding.smooth.values[supervision.indices]
        votes = supervision.votes().to(torch.float64)
        sizes = sorted({max(size, embedding.smooth.components) for size in sizes})
        size = self._chosen(functions, votes, sizes, session)
        session.notes["functions"] = size
        products = functions.T @ functions, functions.T @ votes
        return EigenmapClassifier(embedding, least_squares(*products, size))

    def _chosen(
        self, functions: Tensor, votes: Tensor, sizes: Sequence[int], session: Session
    ) -> int:
        """Returns how many functions have the least squared error on releases held out."""
        available = usable_functions(functions, votes.shape[1], session)
        sizes = sorted({min(size, available) for size in sizes})
        folds = min(self.folds, len(functions))
        if len(sizes) == 1 or folds < 2:
            return sizes[0]
        stream = seeding.generator(session.seed, "train", "held_out")
        parts = torch.randperm(len(functions), generator=stream).tensor_split(folds)
        products = ((functions[part], votes[part]) for part in parts)
        of_part = [(own.T @ own, own.T @ their_votes) for own, their_votes in products]
        gram, moments = (sum(each, start=torch.zeros(())) for each in zip(*of_part, strict=True))

        def error(size: int) -> float:
            """Returns the summed squared error, less what no fit changes."""
            total = 0.0
            for own_gram, own_moments in of_part:
                weights = least_squares(gram - own_gram, moments - own_moments, size)
                explained = 2 * own_moments[:size] - own_gram[:size, :size] @ weights
                total -= float((weights * explained).sum())
            return total

        return min(sizes, key=error)


@dataclass(frozen=True)
class EigenmapClassifier(VoteClassifier):
    """What was released, smoothed: functions of an example times weights, (M, K)."""

    embedding: Embedding
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float64 (m, K)."""
        return self.embedding.functions(features)[:, : len(self.weights)] @ self.weights


def usable_functions(functions: Tensor, num_classes: int, session: Session) -> int:
    """Returns how many of the functions so many examples decide; says if classes are more.

    Args:
        functions: at the examples, (n, M).
        num_classes: K.
        session: hears of it.
    """
    usable = min(functions.shape[1], max(1, len(functions) // PER_FUNCTION))
    if usable < num_classes:
        session.say(
            f"  only {usable} smooth functions for {num_classes} classes: some will be "
            "taken for others (fewer model.neighbours, or more examples)"
        )
    return usable


def least_squares(gram: Tensor, moments: Tensor, size: int) -> Tensor:
    """Returns the weights of the first `size` functions, (size, K), the smallest if many fit.

    Args:
        gram: products of functions, float64 (M, M).
        moments: their products with the votes, float64 (M, K).
        size: in [1, M].
    """
    return torch.linalg.lstsq(gram[:size, :size], moments[:size], driver="gelsd").solution


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
