"""Networks as models: trained in epochs, or by noisy gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor, nn

from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_made
from labeldp_bench.interfaces import Classifier, Session
from labeldp_bench.models.encoders import Encoder, PretrainableModel
from labeldp_bench.training.fit import NetworkClassifier, check_images, resolve_precision
from labeldp_bench.training.images import check_takes
from labeldp_bench.training.network_fit import NetworkFit, compilation_notes
from labeldp_bench.training.network_gradients import NetworkGradients
from labeldp_bench.training.trainer import Trainer

FitMaker = Callable[[Trainer, NetworkClassifier, Supervision, Session], NetworkFit]
FEW_STEPS = 200
"""Steps of the optimizer below which a network has hardly begun to learn: on 1,000 images, five
epochs of 15 steps in all gave 47 % where their neighbours gave 98."""


@dataclass(frozen=True)
class NetworkModel(PretrainableModel):
    """A network and the recipe that trains it.

    Args:
        network, initial: as `PretrainableModel`.
        trainer: the recipe.
    """

    trainer: Trainer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_made("model.trainer", self.trainer, Trainer)

    @property
    def recipe(self) -> Trainer:
        """The trainer."""
        return self.trainer

    def precision_on(self, device: torch.device) -> str:
        """Returns `bf16` or `float32`: what a fit on `device` computes in."""
        return resolve_precision(self.trainer.precision, device)

    def check_images(self, features: Tensor) -> None:
        """Refuses a recipe with smaller images for a network that takes one size alone."""
        with torch.device("meta"):  # shapes, and no numbers
            shape = features.shape[1:]
            network = self.network(num_classes=2, image_shape=tuple(shape))
            image = torch.empty(1, *shape).permute(0, 3, 1, 2)
            check_takes(network, image, self.trainer.resolution)

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> Classifier:
        """Returns a network, fresh or from `session.start`, trained on the supervision."""
        return self.fit_by(NetworkFit, features, supervision, session)

    def fit_by(
        self, kind: FitMaker, features: Tensor, supervision: Supervision, session: Session
    ) -> NetworkClassifier:
        """Returns what `fit` returns; `kind` says what a step does."""
        check_images(features)
        with seeding.global_stream(session.seed, session.device):
            classifier = self._begin(features, supervision, session)
            fit = kind(self.trainer, classifier, supervision, session)
            self._tell_few_steps(len(fit.indices), session)
            self.trainer.run(fit, features, session)
        compiled = compilation_notes(session.device)
        if compiled.get("failed_graphs"):
            session.say("  compiling failed, so training went on without, at a lower speed")
        session.notes.update(compiled)
        return classifier

    def representation(self, features: Tensor, session: Session) -> Tensor:
        """Returns pixels, or what the pre-trained network makes of them, rows of length 1."""
        if self.initial is None:
            return super().representation(features, session)
        _, encoded = Encoder.pretrained(self.network, self.initial, features, session.device)
        return nn.functional.normalize(encoded).cpu()

    def _tell_few_steps(self, num_examples: int, session: Session) -> None:
        """Says that the recipe is too short for so few examples, and what suits them."""
        in_epoch = math.ceil(num_examples / self.trainer.batch_size)
        steps = self.trainer.epochs * in_epoch
        if steps < FEW_STEPS and session.stage == 0:
            enough = math.ceil(FEW_STEPS / in_epoch)
            session.say(
                f"  only {steps} step{'s' * (steps > 1)} on {num_examples:,} examples: the model "
                f"may learn little (give {session.epochs_key}={enough}, or take model=knn, which "
                "needs no steps)"
            )

    def _begin(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> NetworkClassifier:
        """Returns the network before training; first weights come from the global stream."""
        pixels, precision = self.trainer.pixels, self.precision_on(session.device)
        begun = self.untrained(
            features, supervision.num_classes, session.device, pixels=pixels, precision=precision
        )
        if isinstance(session.start, NetworkClassifier):
            begun.network.load_state_dict(session.start.network.state_dict())
        one = features[:1].to(session.device)
        check_takes(begun.network, begun.normalise(one), self.trainer.resolution)
        return begun


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
