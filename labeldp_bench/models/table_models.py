"""Models of a table's columns: logistic regression and boosted trees, by the learner's loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.linear import held_out_rows
from labeldp.supervision import LogitClassifier, Supervision
from labeldp.support.validate import Diverged, check_integer, check_number, check_numbers
from labeldp.trees import BoostedClassifier, TreeSettings, as_vectors, fit_boosted_trees
from labeldp_bench.interfaces import Model, Session
from labeldp_bench.models.penalised import fit_penalised, with_constant


@dataclass(frozen=True)
class Logistic(Model):
    """K linear scores: the mean loss plus penalty / 2 times the squared weights, whole batches.

    Columns are standardised by the training examples. The penalty is the one with the least loss
    on held-out releases; the fit is then repeated on all releases.

    Source: Hastie, Tibshirani, Friedman (2009), section 4.4, with the losses of this benchmark.

    Args:
        penalties: > 0, to choose from; one alone is taken as it is.
        held_out: share of the examples that choose, in (0, 1).
    """

    penalties: Sequence[float] = (0.1, 1e-2, 1e-3, 1e-4)
    held_out: float = 0.2

    shares_work: ClassVar[bool] = True  # reading and splitting the table

    def __post_init__(self) -> None:
        check_numbers("model.penalties", self.penalties, above=0)
        check_number("model.held_out", self.held_out, above=0, below=1)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of columns and weights."""
        return "float32"

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "LogisticClassifier":
        """Returns the fitted scores."""
        assert supervision.refine is None, "refined targets need epochs, which this model lacks"
        raw = as_vectors(features[supervision.indices])
        mean, spread = raw.mean(0), raw.std(0, correction=0)
        scale = torch.where(spread > 0, 1 / spread, 0.0)  # a constant column says nothing
        inputs = with_constant((raw - mean) * scale)
        splits = []
        if len(self.penalties) > 1 and len(inputs) > 1:
            splits = [held_out_rows(len(inputs), self.held_out, session.seed)]
        problem = inputs, supervision.targets, supervision.loss, supervision.num_classes
        weights, penalty = fit_penalised(*problem, self.penalties, splits)
        session.notes["penalty"] = penalty
        if not bool(weights.isfinite().all()):
            raise Diverged("the weights are NaN or infinite (take larger model.penalties)")
        return LogisticClassifier(weights, mean, scale)


@dataclass(frozen=True)
class LogisticClassifier(LogitClassifier):
    """Scores that are linear in standardised columns.

    Attributes:
        weights: float32 (d + 1, K); the last row is the bias.
        mean, scale: float32 (d,), of each column.
    """

    weights: Tensor
    mean: Tensor
    scale: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K)."""
        inputs = (as_vectors(features) - self.mean) * self.scale
        return inputs @ self.weights[:-1] + self.weights[-1]


@dataclass(frozen=True)
class BoostedTrees(TreeSettings, Model):
    """Trees fitted in stages, each a Newton step on the loss (`labeldp.trees`)."""

    shares_work: ClassVar[bool] = True  # reading and splitting the table

    def __post_init__(self) -> None:
        for key, low in (("stages", 1), ("trees", 1), ("leaves", 2), ("smallest_leaf", 1)):
            check_integer(f"model.{key}", vars(self)[key], low=low)
        check_number("model.learning_rate", self.learning_rate, above=0, high=1)
        check_number("model.held_out", self.held_out, above=0, below=1)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of scores."""
        return "float64"

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> BoostedClassifier:
        """Returns the fitted trees."""
        assert supervision.refine is None, "refined targets need epochs, which this model lacks"
        grown = fit_boosted_trees(
            as_vectors(features[supervision.indices]),
            supervision.targets,
            supervision.loss,
            supervision.num_classes,
            self,
            session.seed,
        )
        session.notes["stages"] = len(grown.stages)
        return grown
