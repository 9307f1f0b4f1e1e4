"""Least squares on the smoothest functions over the public features."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.supervision import Supervision, VoteClassifier
from labeldp.support import seeding
from labeldp.support.validate import check_integer, check_numbers
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
        functions: how many to choose from, as multiples of the number of classes, >= 1.
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
        of_part = [(functions[part].T @ functions[part], functions[part].T @ votes[part])
                   for part in parts]  # fmt: skip
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
