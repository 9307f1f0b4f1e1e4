"""The likelihood of a release as a loss, for training loops and boosters of other libraries."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from labeldp.estimates import check_classes_released
from labeldp.losses import LOSSES
from labeldp.network import targets_of
from labeldp.release import Release
from labeldp.support.validate import InputError, check_choice
from labeldp.trees import gradient_and_curvature

LIKELIHOOD = LOSSES["marginal"]


class MarginalLoss(nn.Module):
    """Minus the log-likelihood of a release, given the scores of a model for its rows.

    As `torch.nn.CrossEntropyLoss`, which it is at eps=inf, but called with the positions of rows in
    the release in place of labels: -log sum_c softmax(logits)_c P(release | c) / max_c P(release |
    c). Columns of scores are in the order of `release.classes`.

    Args:
        release: of N rows of K classes.
        reduction: of a batch: `mean`, `sum` or `none`.

    Raises:
        InputError: no release of classes, or another reduction.

    >>> from labeldp import privatize
    >>> release = privatize(["no", "yes"], classes=["no", "yes"], eps=float("inf"))
    >>> MarginalLoss(release)(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))  # log 2
    tensor(0.6931)
    """

    def __init__(self, release: Release, *, reduction: str = "mean") -> None:
        super().__init__()
        check_classes_released(release)
        self.release = release
        self.reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))

    def __getstate__(self) -> dict[str, Any]:
        """Returns what a pickle holds: the release, without the likelihoods that follow from it."""
        own = {name: each for name, each in vars(self).items() if name != "_targets_of"}
        return {**own, "release": self.release[:]}

    def forward(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Returns the loss of some rows: a number, or (B,) if `reduction` is `none`.

        Args:
            logits: floats (B, K), on any device; half precision is computed in float32.
            rows: whole numbers (B,) from 0 to N - 1, positions in the release.

        Raises:
            InputError: another shape or type, or a position out of range.
        """
        size, num_classes = self.release.shape
        if not (
            isinstance(logits, Tensor) and isinstance(rows, Tensor) and rows.dim() == 1
            and logits.is_floating_point() and logits.shape == (len(rows), num_classes)
            and not rows.is_floating_point() and rows.dtype != torch.bool
        ):  # fmt: skip
            given = (
                f"{getattr(x, 'dtype', 'no tensor')} {tuple(np.shape(x))}" for x in (logits, rows)
            )
            raise InputError(
                f"logits must be floats (B, {num_classes}), a column for each of release.classes, "
                f"and rows whole numbers (B,), got {' and '.join(given)}"
            )
        places = rows.cpu().long()
        for place in places[(places < 0) | (places >= size)][:1].tolist():
            raise InputError(
                f"rows must be positions in the release, from 0 to {size - 1}, got {place} (in "
                "release[800:] they count from 0 again)"
            )
        wide = logits.float() if logits.element_size() < 4 else logits
        losses = LIKELIHOOD(wide, self._targets_of(places).to(wide.device))
        # Added up as cross entropy does, so that without noise they are equal to the last bit.
        return functional.nll_loss(
            -losses[:, None], torch.zeros_like(losses).long(), reduction=self.reduction
        )

    def objective(self, scores: ArrayLike, data: Any) -> tuple[NDArray, NDArray]:
        """Returns the gradient of the summed losses in the scores, and a curvature.

        For `xgboost.train(params, data, obj=loss.objective)` and for LightGBM 4,
        `lightgbm.train({"objective": loss.objective}, data)`. With two classes leave `num_class`
        out: a score is then the log-odds of `release.classes[1]`. With more, `num_class` is K.

        The second derivative may be negative, so the curvature is that of EM's bound on the loss,
        p (1 - p) of the model's probability p (twice that for (N, K) scores, which is no less than
        the whole matrix diag(p) - p p'). The less a release tells, the more rounds it takes.

        Args:
            scores: raw ones, (N, K), or (N,) of two classes, in the order of the release.
            data: `xgboost.DMatrix` or `lightgbm.Dataset` of the same rows. Its weights count.

        Returns:
            Two arrays, float64, of the shape of `scores`.

        Raises:
            InputError: other rows or columns; labels and scores, as the scikit-learn classes of
                both libraries give them.
        """
        logits, targets, weights = self._checked(scores, data)
        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller set
            found = gradient_and_curvature(LIKELIHOOD, logits, targets)
        gradient, curvature = (each.numpy() * weights[:, None] for each in found)
        if np.ndim(scores) == 1:
            return gradient[:, 1], curvature[:, 1]
        return gradient, 2 * curvature

    def metric(self, scores: ArrayLike, data: Any) -> tuple[Any, ...]:
        """Returns name and mean of the loss, and for LightGBM that lower is better.

        For `custom_metric=` of XGBoost and `feval=` of LightGBM, so that held-out releases stop the
        training: `MarginalLoss(release[8000:]).metric`. Arguments and errors as `objective`; scores
        are raw if the objective is a function too.
        """
        logits, targets, weights = self._checked(scores, data)
        mean = float(np.average(LIKELIHOOD(logits, targets).numpy(), weights=weights))
        return ("marginal_loss", mean, *([] if hasattr(data, "num_row") else [False]))

    @cached_property
    def _targets_of(self) -> Callable[[Tensor], Tensor]:
        return targets_of(self.release, LIKELIHOOD)

    def _checked(self, scores: ArrayLike, data: Any) -> tuple[Tensor, Tensor, NDArray[np.float64]]:
        """Returns logits, float64 (N, K), targets and weights of all rows."""
        if not hasattr(data, "get_weight"):
            raise InputError(
                "data must be an xgboost.DMatrix or a lightgbm.Dataset, got "
                f"{type(data).__name__} (XGBClassifier and LGBMClassifier give labels: use the "
                "libraries' train)"
            )
        values, (size, num_classes) = torch.from_numpy(np.array(scores, float)), self.release.shape
        if values.dim() == 1 and num_classes == 2:
            values = torch.stack([torch.zeros_like(values), values], 1)
        if values.shape != (size, num_classes):
            remedy = f"give the booster num_class={num_classes}"
            if len(values) != size:
                remedy = "give each data set the loss of its own rows, MarginalLoss(release[rows])"
            raise InputError(
                f"scores must be ({size}, {num_classes}), got {tuple(values.shape)} ({remedy})"
            )
        weights = data.get_weight()
        given = np.ones(size) if weights is None or not len(weights) else np.asarray(weights)
        if not given.any():
            raise InputError("the data set's weights are all 0 (give one row at least a weight)")
        return values, self._targets_of(torch.arange(size)), given
