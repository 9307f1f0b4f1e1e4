"""Contrastive pre-training: a network learns from public features alone, without a label."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from labeldp.support import seeding
from labeldp.support.progress import duration, say
from labeldp.support.validate import InputError, check_choice, check_integer, check_number
from labeldp_bench.interfaces import FitCheckpoint, NetworkFactory, Session, State
from labeldp_bench.pretraining.recipes import TrainedRecipe, Weights
from labeldp_bench.training.augment import Mixing
from labeldp_bench.training.fit import (
    Fit,
    NetworkClassifier,
    below_classifier,
    check_images,
    classifier_of,
)
from labeldp_bench.training.images import pixel_scale
from labeldp_bench.training.network_fit import accelerated, kernel_search

STORED = {"float32": torch.float32, "float16": torch.float16}
"""What `pretrain.stored` names."""


@dataclass(frozen=True)
class SimCLR(TrainedRecipe):
    """Trains a network to find, among all views in a batch, the other view of the same image.

    Costs no privacy: it sees the training features of the run, which are public, and no label.

    Source: Chen et al. (2020), "A simple framework for contrastive learning of visual
    representations" (SimCLR), arXiv:2002.05709: NT-Xent loss, projection of two layers.

    Args:
        trainer, seed: as every recipe's; two views of each image in a step, no mixup.
        temperature: > 0; of the similarities.
        width: of the projection, which is left behind.
        stored: precision in which the weights are kept, `float32` or `float16`; later runs get
            exactly these.
    """

    temperature: float = 0.2
    width: int = 128
    stored: str = "float32"

    public_data: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("pretrain.temperature", self.temperature, above=0)
        check_integer("pretrain.width", self.width, low=2)
        check_choice("pretrain.stored", self.stored, tuple(STORED))
        if self.trainer.views != 2 or self.trainer.mixup is not None:
            raise InputError(
                "pretrain=simclr compares two views of each image: pretrain.trainer.views "
                "must be 2 and pretrain.trainer.mixup null"
            )
        if self.trainer.selection != "last" or self.trainer.average is not None:
            raise InputError(
                "pretrain=simclr keeps the last weights: pretrain.trainer.selection must be last "
                "and pretrain.trainer.average null"
            )

    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Returns the weights below the classifier, and the last mean loss."""
        check_images(features)
        with seeding.global_stream(self.seed, device):
            encoder = network(num_classes=2, image_shape=tuple(features.shape[1:]))
            kept = below_classifier(encoder).keys()
            name = classifier_of(encoder)
            last = encoder.get_submodule(name)
            assert isinstance(last, nn.Linear)
            encoder.set_submodule(name, _projection(last.in_features, self.width))
            encoder = encoder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            precision = self.precision_on(device)
            scale = pixel_scale(self.trainer.pixels, features, device)
            classifier = NetworkClassifier(encoder, *scale, precision)
            fit = SimCLRFit(self, classifier, len(features), checkpoint)
            self.trainer.run(fit, features, Session(self.seed, device, say=say))
        trained = encoder.state_dict()
        tensors = {key: self._stored(trained[key]) for key in kept}
        return Weights(tensors, {"contrastive_loss": f"{fit.last_loss:.6f}"})

    def _stored(self, values: Tensor) -> Tensor:
        """Returns weights or statistics as they are kept; a count of batches stays a count."""
        values = values.detach().cpu().contiguous()
        return values.to(STORED[self.stored]) if values.is_floating_point() else values


def _projection(features: int, width: int) -> nn.Sequential:
    hidden = 2 * width
    return nn.Sequential(
        nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, width)
    )


class SimCLRFit(Fit):
    """The fit of an encoder and its projection.

    Args:
        recipe: loss and trainer.
        classifier: the network, trained in place.
        count: how many images.
        checkpoint: where the fit leaves its state after an epoch; None: nowhere.
    """

    def __init__(
        self,
        recipe: SimCLR,
        classifier: NetworkClassifier,
        count: int,
        checkpoint: FitCheckpoint | None = None,
    ) -> None:
        super().__init__(classifier, recipe.trainer.optimizer, torch.arange(count), checkpoint)
        self.recipe = recipe
        network = classifier.network
        self.tensors = (dict(network.named_parameters()), dict(network.named_buffers()))
        self.objective = accelerated(contrast, classifier.device)
        self.last_loss = float("nan")

    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch: a view of each image, then another of each."""
        # As in every fit: what comes once in an epoch is not compiled.
        is_whole = len(rows) == self.recipe.trainer.batch_size * self.recipe.trainer.views
        evaluate = self.objective if is_whole else contrast
        with kernel_search(is_whole):
            with self.classifier.autocast():
                losses = evaluate(
                    *self.tensors, self.classifier.network, batch, self.recipe.temperature
                )
            self.descend(losses.mean())
        self.loss_sum += losses.detach().sum() / 2

    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Reports the epoch and saves; never stops before the last one."""
        self.number, self.last_loss = number, self.mean_loss(number)
        seconds, total = time.perf_counter() - started, self.recipe.trainer.epochs
        left = f"  {duration((total - number) * seconds)} left" if number < total else ""
        say(
            f"  epoch {number:>3}/{total}  contrastive loss {self.last_loss:.4f}  "
            f"{seconds:.1f} s{left}"
        )
        if self.checkpoint is not None and number < total:
            self.checkpoint.after_epoch(self.state, finished=False)
        return False

    def state(self) -> State:
        """Returns what the fit needs to go on, for a checkpoint."""
        return super().state() | {"notes": {"loss": self.last_loss}}

    def restore(self, saved: State) -> int:
        """Takes back what `state` returned; returns the number of finished epochs."""
        done = super().restore(saved)
        self.last_loss = float(saved["notes"]["loss"])
        return done


def contrast(
    parameters: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    network: nn.Module,
    batch: Tensor,
    temperature: float,
) -> Tensor:
    """Returns `nt_xent` of what a network makes of a batch, float (2 B, C, H, W).

    A pure function of its arguments (batch statistics in `buffers` aside), so that it can be
    compiled.
    """
    projected = functional_call(network, ({**parameters}, {**buffers}), (batch,))
    return nt_xent(projected.float(), temperature)


def nt_xent(projected: Tensor, temperature: float) -> Tensor:
    """Returns the loss of each view, (2 B,): cross entropy of its partner among all other views.

    Args:
        projected: float (2 B, d); rows i and B + i are views of one image.
        temperature: > 0.
    """
    directions = F.normalize(projected, dim=1)
    similar = directions @ directions.T / temperature
    itself = torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    partner = torch.arange(len(similar), device=similar.device).roll(len(similar) // 2)
    return F.cross_entropy(similar.masked_fill(itself, -torch.inf), partner, reduction="none")
