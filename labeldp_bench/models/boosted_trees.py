"""Gradient-boosted trees by the learner's loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor

from labeldp_bench.models.held_out import held_out_rows
from labeldp_bench.models.vectors import as_vectors
from labeldp_bench.supervision.interfaces import Classifier, Model, Session
from labeldp_bench.supervision.losses import Loss
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.validate import check_integer, check_number

LEAST_CURVATURE = 1e-3
Stage = list[HistGradientBoostingRegressor]
"""One regressor for each class; for two classes a single one, of the difference of their scores."""


@dataclass(frozen=True)
class BoostedTrees(Model):
    """Trees fitted in stages; each stage is one Newton step on the learner's loss.

    A stage finds the gradient g of the loss in each example's logits, and fits `trees` boosted
    regression trees per class to -g / h with weights h = p (1 - p). For the marginal likelihood
    this is EM: g = p - posterior, where the posterior of an example joins the prediction so far
    with its release (E step), and the weighted fit goes on from the trees so far (M step). For two
    classes the scores are equal and opposite. The number of stages is the one with the least loss
    on held-out releases; all is then fitted again on all releases.

    Trees: scikit-learn's histogram boosting. Its own classifier, fitted again and again to the two
    copies of each example with posterior weights, is not used: scikit-learn draws its bins by
    weight, so that a warm restart with other weights reads old trees with new bins.

    Source: Friedman (2001), "Greedy function approximation", Annals of Statistics 29; Dempster,
    Laird, Rubin (1977) for EM; the join ours.

    Args:
        stages: at most this many.
        trees: of each stage and class.
        learning_rate: of each tree, in (0, 1].
        leaves: of a tree at most, >= 2.
        smallest_leaf: examples in a leaf at least.
        held_out: share of the examples that choose the number of stages, in (0, 1).
    """

    stages: int = 8
    trees: int = 10
    learning_rate: float = 0.1
    leaves: int = 8
    smallest_leaf: int = 20
    held_out: float = 0.2

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
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> "BoostedClassifier":
        """Returns the fitted trees."""
        assert supervision.refine is None, "refined targets need epochs, which this model lacks"
        inputs = as_vectors(features[supervision.indices])
        targets, loss, count = supervision.targets, supervision.loss, len(supervision.indices)
        stages = self.stages
        if count > 1 and stages > 1:
            fitted, out = held_out_rows(count, self.held_out, session.seed)
            parts = (inputs[fitted], targets[fitted], inputs[out], targets[out])
            stages = self._chosen_stages(loss, supervision.num_classes, *parts)
        session.notes["stages"] = stages
        grown = BoostedClassifier([], _constant(targets, loss, supervision.num_classes))
        logits = grown.scores(inputs)
        for _ in range(stages):
            logits = self._grow(grown, inputs, logits, targets, loss)
        return grown

    def _chosen_stages(
        self, loss: Loss, num_classes: int, x: Tensor, y: Tensor, out_x: Tensor, out_y: Tensor
    ) -> int:
        """Returns the number of stages with the least loss on held-out releases."""
        grown = BoostedClassifier([], _constant(y, loss, num_classes))
        logits, held = grown.scores(x), grown.scores(out_x)
        losses = [float(loss(held.float(), out_y).mean())]
        for stage in range(1, self.stages + 1):
            logits = self._grow(grown, x, logits, y, loss)
            held = held + _outputs(grown.stages[-1], out_x.numpy(), num_classes)
            losses.append(float(loss(held.float(), out_y).mean()))
            if stage - int(np.argmin(losses)) >= 2:  # two stages in a row made it worse
                break
        return int(np.argmin(losses))

    def _grow(
        self, grown: "BoostedClassifier", x: Tensor, logits: Tensor, y: Tensor, loss: Loss
    ) -> Tensor:
        """Adds one stage to `grown`; returns the new logits of `x`, float64 (n, K)."""
        variable = logits.float().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(variable, y).sum(), variable)
        p = logits.softmax(1)
        curvature = (p * (1 - p)).clamp_min(LEAST_CURVATURE)
        gradient = gradient.double()
        if logits.shape[1] == 2:  # in the difference of the two scores, which is all that counts
            gradient, curvature = (gradient[:, 1:] - gradient[:, :1]) / 2, curvature[:, 1:]
        steps, weights, points = (-gradient / curvature).numpy(), curvature.numpy(), x.numpy()
        pairs = zip(steps.T, weights.T, strict=True)
        stage = [self._regressor().fit(points, step, weight) for step, weight in pairs]
        grown.stages.append(stage)
        return logits + _outputs(stage, points, logits.shape[1])

    def _regressor(self) -> HistGradientBoostingRegressor:
        return HistGradientBoostingRegressor(
            max_iter=self.trees, learning_rate=self.learning_rate, max_leaf_nodes=self.leaves,
            min_samples_leaf=self.smallest_leaf, early_stopping=False, random_state=0,
        )  # fmt: skip


@dataclass(frozen=True)
class BoostedClassifier:
    """The fitted trees.

    Attributes:
        stages: whose outputs add up.
        constant: float64 (K,), the scores before the first stage.
    """

    stages: list[Stage]
    constant: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float64 (m, K)."""
        points = as_vectors(features).numpy()
        logits = self.constant.expand(len(points), -1).clone()
        for stage in self.stages:
            logits += _outputs(stage, points, len(self.constant))
        return logits

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns softmax of logits / temperature, float64 (m, K)."""
        return (self.scores(features) / temperature).softmax(1)


def _constant(targets: Tensor, loss: Loss, num_classes: int) -> Tensor:
    """Returns the scores, float64 (K,), of the best model that looks at no feature."""
    scores = torch.zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([scores], max_iter=50, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimizer.zero_grad()
        # A little pull keeps the scores of a class that no release speaks for from running off.
        value = loss(scores.expand(len(targets), -1), targets).mean() + 1e-4 * scores.square().sum()
        value.backward()
        return value

    optimizer.step(objective)
    return scores.detach().double()


def _outputs(stage: Stage, points: NDArray[np.float32], num_classes: int) -> Tensor:
    """Returns what a stage adds to the logits, float64 (n, K)."""
    outputs = [torch.from_numpy(each.predict(points)) for each in stage]
    if num_classes == 2:  # the output is the difference of the two scores
        return torch.stack([-outputs[0], outputs[0]], 1) / 2
    return torch.stack(outputs, 1)
