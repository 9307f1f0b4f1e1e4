"""A network that learns from noisy gradients, and has no recipe of its own."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models.pretrainable import PretrainableModel
from labeldp_bench.training.classifier import check_images
from labeldp_bench.training.network_gradients import NetworkGradients


@dataclass(frozen=True)
class GradientNetwork(PretrainableModel):
    """A network whose gradients a curator answers; `learner=noisy_sgd` moves its weights.

    Args:
        network, initial: as `PretrainableModel`.
    """

    trained_by: ClassVar[str] = "noisy_sgd"

    def precision_on(self, device: torch.device) -> str:
        """Returns `float32`."""
        return "float32"

    def fit(self, *_: object, **__: object) -> NoReturn:
        """Refuses releases of labels.

        Raises:
            InputError: always.
        """
        raise InputError("model=tiny_cnn learns from noisy gradients alone (learner=noisy_sgd)")

    def gradients(
        self, features: Tensor, num_classes: int, session: Session, clip: float
    ) -> NetworkGradients:
        """Returns the gradients of a fresh network, or of one with pre-trained weights.

        Args:
            features: of the training examples, (N, H, W, C).
            num_classes: K.
            session: of the run.
            clip: > 0, the length at which a gradient is cut off.

        Raises:
            InputError: features are no images, or the network normalises over batches.
        """
        check_images(features)
        with seeding.global_stream(session.seed, session.device):
            fresh = self.untrained(
                features, num_classes, session.device, pixels="standardised", precision="float32"
            )
        return NetworkGradients(fresh, features, clip)
