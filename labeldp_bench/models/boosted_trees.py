"""Gradient-boosted trees by the learner's loss."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.supervision import Supervision
from labeldp.support.validate import check_integer, check_number
from labeldp.trees import BoostedClassifier, TreeSettings, fit_boosted_trees
from labeldp_bench.interfaces import Model, Session


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
            features[supervision.indices],
            supervision.targets,
            supervision.loss,
            supervision.num_classes,
            self,
            session.seed,
        )
        session.notes["stages"] = len(grown.stages)
        return grown
