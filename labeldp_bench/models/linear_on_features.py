"""A linear model on frozen features, from noisy sums of the features of each class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labeldp.supervision import VoteClassifier
from labeldp_bench.models.encoder import Encoder

EXACT_UP_TO = 2000
"""Features whose eigenvectors are found in float64; in float32 more take minutes rather than an
hour, and every penalty that wins is far above its rounding."""
DECAYS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Powers by which weights may be smaller in directions in which the features vary more."""


@dataclass(frozen=True)
class LinearOnFeatures:
    """Least squares on features of length 1, from noisy sums over each class.

    Attributes:
        encoder: of images.
        rows: the training examples' features, float32 (N, d), CPU, each of length 1.
        notes: of the run.
        directions: returns the features' sum of squares in each direction, > 0, (d,), and these,
            (d, d).
    """

    encoder: Encoder
    rows: Tensor
    notes: dict[str, Any]
    directions: Callable[[], tuple[Tensor, Tensor]]

    def fitted(self, moments: Tensor, stddev: float) -> "MomentsClassifier":
        """Returns the classifier; each direction of the features counts by what noise leaves of it.

        In the directions in which the features vary the noise is alike and independent. A weight is
        taken to be normal with variance `scale` over the features' variance to the power `decay`;
        the two are those under which the noisy moments are likeliest (empirical Bayes), and the
        weights are their posterior means. No label is needed to choose anything.
        """
        values, vectors = self.directions()
        turned = vectors.T @ moments
        scale, decay = _likeliest_prior(turned, values, stddev)
        variance = scale * values**-decay
        kept = values * variance / (values.square() * variance + stddev**2)
        self.notes.update(weight_decay_power=decay, features=len(values))
        return self.classifier(vectors @ (turned * kept[:, None]))

    def classifier(self, weights: Tensor) -> "MomentsClassifier":
        """Returns the classifier with these weights, (d, K), of features of length 1."""
        return MomentsClassifier(self.encoder, weights.float())


def directions_of(rows: Tensor, say: Callable[[str], None]) -> tuple[Tensor, Tensor]:
    """Returns the sum of squares in each direction of the rows, > 0, (d,), and these, (d, d).

    Args:
        rows: (N, d).
        say: where it says what takes long.
    """
    count = rows.shape[1]
    if count > EXACT_UP_TO:
        say(f"  the directions of {count:,} features, once")
    rows = rows.to(torch.float64)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    return values.clamp_min(1e-9 * values[-1]), vectors


def _likeliest_prior(moments: Tensor, values: Tensor, stddev: float) -> tuple[float, float]:
    """Returns scale and decay of the weights' variance that explain the moments best.

    Args:
        moments: noisy, in the directions of the features, (d, K).
        values: sums of squares of the features in each direction, > 0, (d,).
        stddev: of the noise.
    """
    squares, count = moments.square().sum(1), moments.shape[1]

    def misfit(scale: float, decay: float) -> float:
        expected = scale * values ** (2 - decay) + stddev**2
        return float((count * expected.log() + squares / expected).sum())

    choices = []
    for decay in DECAYS:
        # What the moments would say of the scale if there were no noise, and much less.
        largest = float((squares / count / values ** (2 - decay)).max())
        choices += [(largest * 10 ** (-step / 5), decay) for step in range(-5, 60)]
    return min(choices, key=lambda each: misfit(*each))


@dataclass(frozen=True)
class MomentsClassifier(VoteClassifier):
    """An encoder and weights (d, K) of its features, which are scaled to length 1."""

    encoder: Encoder
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float32 (m, K), CPU."""
        return nn.functional.normalize(self.encoder(features)).cpu() @ self.weights
