"""From a fitted classifier to the tensors and settings of a small file."""

from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from labeldp_bench.models.eigenmaps import EigenmapClassifier
from labeldp_bench.models.encoder import Encoder
from labeldp_bench.models.linear_on_features import MomentsClassifier
from labeldp_bench.models.ridge import RidgeClassifier
from labeldp_bench.supervision.prediction import Fitted
from labeldp_bench.support.validate import InputError
from labeldp_bench.trained.forms import HALF, STEPS
from labeldp_bench.training.classifier import NetworkClassifier

AXES = 32
"""Most axes that points of neighbours keep, those in which they vary most."""

Packed = tuple[str, dict[str, Any], dict[str, Tensor]]
"""The form, its settings, and its tensors."""


@singledispatch
def packed(fitted: Fitted) -> Packed:
    """Returns what a file holds of a fitted classifier, less its network's parameters.

    Raises:
        InputError: no form for this kind of model.
    """
    raise InputError(
        f"{type(fitted).__name__} has no small form (networks, ridge and eigenmaps do)"
    )


@packed.register
def _(fitted: NetworkClassifier) -> Packed:
    return "network", {}, _network(fitted)


@packed.register
def _(fitted: RidgeClassifier) -> Packed:
    tensors = {"weights": fitted.weights.cpu(), "bias": fitted.bias.cpu()}
    return "linear", {"unit": False}, _encoder(fitted.encoder) | tensors


@packed.register
def _(fitted: MomentsClassifier) -> Packed:
    weights = fitted.weights.cpu()
    tensors = {"weights": weights, "bias": torch.zeros(weights.shape[1])}
    return "linear", {"unit": True}, _encoder(fitted.encoder) | tensors


@packed.register
def _(fitted: EigenmapClassifier) -> Packed:
    smooth, used = fitted.embedding.smooth, len(fitted.weights)
    votes = smooth.values[:, :used] / smooth.eigenvalues[:used] @ fitted.weights
    points = smooth.points.float()
    centre = points.mean(0)
    _, _, turned = torch.linalg.svd(
        (points - centre).T @ (points - centre)
    )  # the axes of most variance, the widest first
    axes = turned[:AXES].T.contiguous().to(HALF)
    located = (points - centre) @ axes.float()
    step = located.abs().max() / STEPS
    encoder = fitted.embedding.places.encoder
    tensors = {
        "pixels": fitted.embedding.places.mean if encoder is None else torch.zeros(1),
        "centre": centre,
        "axes": axes,
        "points": (located / step).round().to(torch.int8),
        "step": step.reshape(1),
        "votes": votes.to(HALF),
    }
    settings = {"neighbours": smooth.neighbours}
    return "neighbours", settings, tensors | (_encoder(encoder) if encoder is not None else {})


def _encoder(encoder: Encoder) -> dict[str, Tensor]:
    own = {"mean": encoder.mean.cpu(), "stddev": encoder.stddev.cpu()}
    return own | _network(encoder.network)


def _network(fitted: NetworkClassifier) -> dict[str, Tensor]:
    network: nn.Module = fitted.network
    weights = {
        f"network.{name}": values.detach().cpu().contiguous().to(HALF)
        for name, values in network.state_dict().items()
    }
    scale = {"pixel_mean": fitted.mean.cpu(), "pixel_stddev": fitted.stddev.cpu()}
    return weights | scale
