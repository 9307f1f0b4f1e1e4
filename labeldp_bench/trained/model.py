"""A trained model: what it predicts for images as they are stored, and the record of its run."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp_bench.supervision.prediction import Classifier, predict
from labeldp_bench.support.validate import InputError


@dataclass(frozen=True)
class TrainedModel:
    """A model that was fitted to releases, never to true labels.

    Attributes:
        name: `<dataset>/<mechanism>/<model>/eps=<eps>`.
        record: of the run that trained it: data set, mechanism, eps, delta, trust, seed, accuracy,
            config_hash and so on. `shipped_accuracy` is that of this file on the test images.
        image_shape: (H, W, C) of the images that it was trained on.
    """

    name: str
    record: dict[str, Any]
    image_shape: tuple[int, int, int]
    _classifier: Classifier

    def __repr__(self) -> str:
        of = self.record
        return (
            f"<{self.name}: {100 * of['shipped_accuracy']:.2f} % of {of['n_test']:,} test images, "
            f"trust={of['trust']}, delta={of['delta']:g}>"
        )

    def predict(self, images: NDArray[np.uint8] | Tensor) -> NDArray[np.int64]:
        """Returns the class of each image, int64 (N,).

        Args:
            images: uint8 (N, H, W) or (N, H, W, C), pixels from 0 to 255, as data sets store them.

        Raises:
            InputError: images of another shape or type.
        """
        return predict(self._classifier.scores(self._checked(images)), seed=0).numpy()

    def predict_proba(self, images: NDArray[np.uint8] | Tensor) -> NDArray[np.float64]:
        """Returns class probabilities, float64 (N, K), rows sum to 1; as `predict`.

        A model of votes (`ridge`, `eigenmaps`) gives shares of votes, which are not calibrated.
        """
        return self._classifier.probabilities(self._checked(images)).numpy()

    def _checked(self, images: NDArray[np.uint8] | Tensor) -> Tensor:
        """Returns images as uint8 (N, H, W, C)."""
        given = torch.as_tensor(np.asarray(images))
        height, width, channels = self.image_shape
        shape = f"(N, {height}, {width}" + (f", {channels})" if channels > 1 else ")")
        if given.dtype != torch.uint8:
            raise InputError(f"images must be uint8, from 0 to 255, got {given.dtype}")
        if given.dim() == 3 and channels == 1:
            given = given[..., None]
        if given.dim() != 4 or tuple(given.shape[1:]) != self.image_shape:
            raise InputError(f"images must have shape {shape}, got {tuple(images.shape)}")
        return given
