"""Gradient-boosted trees by any loss on releases."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.linear import held_out_rows
from labeldp.losses import Loss
from labeldp.supervision import LogitClassifier

if TYPE_CHECKING:  # a second to import, which other models need not wait for
    from sklearn.ensemble import HistGradientBoostingRegressor

LEAST_CURVATURE = 0.02
"""Of p (1 - p): where the model is certain a Newton step would have no end."""
STEPS = (1.0, 0.5, 0.2, 0.05)
"""What a stage may be multiplied with: the first that lowers the loss of the training releases."""
BINS = 64
"""Of a column; its values are replaced by their bin among the training examples."""
PATIENCE = 2
"""Stages in a row that may make held-out releases less likely before the search ends."""
Binned = NDArray[np.float32]
"""Bins of columns, (n, d)."""


@dataclass(frozen=True)
class TreeSettings:
    """Size and number of boosted trees.

    Attributes:
        stages: Largest number of stages.
        trees: Number of trees of each stage and class.
        learning_rate: Of each tree, in (0, 1].
        leaves: Largest number of leaves of a tree, >= 2.
        smallest_leaf: Least number of examples in a leaf.
        held_out: Share of the examples that choose the number of stages, in (0, 1).
    """

    stages: int = 8
    trees: int = 10
    learning_rate: float = 0.1
    leaves: int = 8
    smallest_leaf: int = 20
    held_out: float = 0.2


def fit_boosted_trees(
    features: Tensor,
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    settings: TreeSettings,
    seed: int,
    weights: Tensor | None = None,
) -> "BoostedClassifier":
    """Returns trees fitted in stages; each stage is one Newton step on the loss.

    A stage finds the gradient g of the loss in each example's logits, and fits `trees` boosted
    regression trees per class to -g / h with weights h = p (1 - p). For the marginal likelihood
    this is EM: g = p - posterior, where the posterior of an example joins the prediction so far
    with its release (E step), and the weighted fit goes on from the trees so far (M step). For two
    classes the scores are equal and opposite. The number of stages is the one with the least loss
    on held-out releases; all is then fitted again on all releases.

    Trees: scikit-learn's histogram boosting of regression trees. Its classifier could be restarted
    warm on K weighted copies of each example, but bins columns by weight, so that a restart with
    other weights reads old trees with new bins (scikit-learn 1.9).

    Source: Friedman (2001), "Greedy function approximation", Annals of Statistics 29; Dempster,
    Laird, Rubin (1977) for EM; the join ours.

    Args:
        features: (N, ...), numbers; binned in their own precision.
        targets: What `loss` made of the release, first axis N.
        loss: One of `labeldp.losses`.
        num_classes: K.
        settings: Size and number of trees.
        seed: Of the held-out part.
        weights: Of the rows, float64 (N,); None: all are 1.
    """
    points = _points(features)
    bins = Bins.of(points)
    x = bins(points)
    stages = settings.stages
    if len(x) > 1 and stages > 1:
        fitted, out = held_out_rows(len(x), settings.held_out, seed)
        sides = [
            (x[rows.numpy()], targets[rows], None if weights is None else weights[rows])
            for rows in (fitted, out)
        ]
        stages = _chosen_stages(settings, loss, num_classes, *sides)
    constant = _constant(targets, loss, num_classes, weights)
    grown = BoostedClassifier(bins, [], constant.numpy())
    logits = constant.expand(len(x), -1)
    for _ in range(stages):
        grown.stages.append(_stage(settings, x, logits, targets, loss, weights))
        logits = logits + grown.stages[-1].outputs(x)
    return grown


def as_vectors(features: Tensor) -> Tensor:
    """Returns features as float32 (N, d); pixels, uint8, are shares of 255."""
    flat = features.flatten(1).to(torch.float32)
    return flat / 255 if features.dtype == torch.uint8 else flat


def _points(features: Tensor) -> NDArray[np.floating]:
    """Returns features as (N, d), in float64 where they are, else in float32."""
    is_double = features.dtype == torch.float64
    return (features.flatten(1) if is_double else as_vectors(features)).numpy()


def _chosen_stages(
    settings: TreeSettings,
    loss: Loss,
    num_classes: int,
    fitted: tuple[Binned, Tensor, Tensor | None],
    out: tuple[Binned, Tensor, Tensor | None],
) -> int:
    """Returns the number of stages with the least loss on held-out releases.

    Both sides are columns, targets and weights of rows.
    """
    (x, y, weights), (out_x, out_y, out_weights) = fitted, out
    constant = _constant(y, loss, num_classes, weights)
    logits, held = constant.expand(len(x), -1), constant.expand(len(out_x), -1)
    losses = [_mean_loss(loss, held, out_y, out_weights)]
    for number in range(1, settings.stages + 1):
        stage = _stage(settings, x, logits, y, loss, weights)
        logits, held = logits + stage.outputs(x), held + stage.outputs(out_x)
        losses.append(_mean_loss(loss, held, out_y, out_weights))
        if number - int(np.argmin(losses)) >= PATIENCE:
            break
    return int(np.argmin(losses))


def _stage(
    settings: TreeSettings, x: Binned, logits: Tensor, y: Tensor, loss: Loss, weights: Tensor | None
) -> "Stage":
    """Returns the stage that goes on from `logits`, float64 (n, K)."""
    gradient, curvature = gradient_and_curvature(loss, logits, y)
    if logits.shape[1] == 2:  # in the difference of the two scores, which is all that counts
        gradient, curvature = (gradient[:, 1:] - gradient[:, :1]) / 2, curvature[:, 1:]
    pull = curvature if weights is None else curvature * weights[:, None]
    pairs = zip((-gradient / curvature).numpy().T, pull.numpy().T, strict=True)
    trees = [regressor(settings).fit(x, step, weight) for step, weight in pairs]
    whole = Stage(trees, 1.0)
    outputs, before = whole.outputs(x), _mean_loss(loss, logits, y, weights)
    for share in STEPS:
        if _mean_loss(loss, logits + share * outputs, y, weights) < before:
            return Stage(trees, share)
    return Stage(trees, 0.0)


def gradient_and_curvature(loss: Loss, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradient of each loss in its logits, and p (1 - p), both float64 (n, K)."""
    variable = logits.float().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(variable, targets).sum(), variable)
    p = logits.softmax(1)
    return gradient.double(), (p * (1 - p)).clamp_min(LEAST_CURVATURE)


def regressor(settings: TreeSettings) -> "HistGradientBoostingRegressor":
    """Returns the unfitted trees of one class in one stage."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=settings.trees,
        learning_rate=settings.learning_rate,
        max_leaf_nodes=settings.leaves,
        min_samples_leaf=settings.smallest_leaf,
        early_stopping=False,
        random_state=0,
    )


@dataclass(frozen=True)
class Bins:
    """Where columns are cut into bins.

    Attributes:
        edges: of each column, increasing.
    """

    edges: list[NDArray[np.floating]]

    @classmethod
    def of(cls, points: NDArray[np.floating]) -> "Bins":
        """Returns bins of about equally many of `points`, (n, d)."""
        shares = np.linspace(0, 1, BINS + 1)[1:-1]
        quantiles = np.quantile(points, shares, axis=0, method="lower")
        return cls([np.unique(column) for column in quantiles.T])

    def __call__(self, points: NDArray[np.floating]) -> Binned:
        """Returns the bin of each number of (m, d), in the precision that edges were found in."""
        pairs = zip(self.edges, points.T, strict=True)
        binned = [np.searchsorted(e, x.astype(e.dtype, copy=False)) for e, x in pairs]
        return np.stack(binned, 1).astype(np.float32)


@dataclass(frozen=True)
class Stage:
    """Trees for each class, or for the difference of two, and what they are multiplied with."""

    trees: "list[HistGradientBoostingRegressor]"
    share: float

    def outputs(self, x: Binned) -> Tensor:
        """Returns what the stage adds to the logits, float64 (m, K)."""
        outputs = [self.share * torch.from_numpy(each.predict(x)) for each in self.trees]
        if len(outputs) == 1:  # the difference of the two scores
            return torch.stack([-outputs[0], outputs[0]], 1) / 2
        return torch.stack(outputs, 1)


@dataclass(frozen=True)
class BoostedClassifier(LogitClassifier):
    """The fitted trees.

    Attributes:
        bins: of the columns.
        stages: whose outputs add up.
        constant: float64 (K,), the scores before the first stage.
    """

    bins: Bins
    stages: list[Stage]
    constant: NDArray[np.float64]

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float64 (m, K)."""
        x = self.bins(_points(features))
        logits = torch.from_numpy(self.constant).expand(len(x), -1)
        return sum((stage.outputs(x) for stage in self.stages), start=logits)


def _mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses.mean() if weights is None else losses @ weights.to(losses) / weights.sum()


def _mean_loss(loss: Loss, logits: Tensor, targets: Tensor, weights: Tensor | None) -> float:
    return float(_mean(loss(logits.float(), targets), weights))


def _constant(targets: Tensor, loss: Loss, num_classes: int, weights: Tensor | None) -> Tensor:
    """Returns the scores, float64 (K,), of the best model that looks at no feature."""
    scores = torch.zeros(num_classes, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.LBFGS([scores], max_iter=50, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimizer.zero_grad()
        # A little pull keeps the scores of a class that no release speaks for from running off.
        losses = loss(scores.expand(len(targets), -1), targets)
        value = _mean(losses, weights) + 1e-4 * scores.square().sum()
        value.backward()
        return value

    optimizer.step(objective)
    return scores.detach().double()
