"""The recipe of a training, and its loop: the same on a CPU and on a GPU."""

import copy
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from labeldp.support import seeding
from labeldp.support.progress import progress_bar
from labeldp.support.validate import (
    InputError,
    check_choice,
    check_integer,
    check_list,
    check_made,
    check_number,
)
from labeldp_bench.interfaces import SELECTIONS, Session
from labeldp_bench.training.augment import Augmentation, Mixing, Mixup
from labeldp_bench.training.fit import INFERENCE_BATCH, Fit
from labeldp_bench.training.images import Pixels, check_pixels, shrunk
from labeldp_bench.training.resolution import Resolution, check_resolution, scale_of
from labeldp_bench.training.schedules import Schedule

PRECISIONS = ("auto", "bf16", "float32")


@dataclass(frozen=True)
class Trainer:
    """Trains a network; a paper's recipe is a YAML of these numbers.

    Args:
        epochs: passes over the training set, >= 1.
        batch_size: examples per step; the last, shorter batch of an epoch is kept.
        optimizer: torch.optim.SGD, Adam or AdamW; called with the parameters and `fused=True`.
        selection: which epochs the reported accuracy comes from: `last` or `mean_last_10`, both
            fixed before training, or `best_validation`, for supervision with validation labels.
            No test label chooses anything.
        precision: `bf16` (autocast), `float32`, or `auto`: bf16 where it is faster.
        schedule: factor of the optimizer's learning rate at each step; None for a constant one.
        augment: applied to every training batch, in order.
        mixup: mixes images and losses, after the augmentation; None for neither.
        pixels: `standardised` per channel over the training images, `unit`: divided by 255, or a
            mean for each channel and a standard deviation for each, of pixels in [0, 1].
        reshuffle: whether every epoch has an order of its own.
        views: how often each example is augmented in a step; its loss is the sum over its views.
        patience: with `best_validation`, stop after so many epochs without a better one; None for
            never.
        eval_every: score the classifier on the test set after each so many epochs; after those
            that `selection` reports in any case, so that the accuracy does not depend on it.
        resolution: pairs (share of the epochs, scale of the side), in order: smaller images at
            first, after the augmentation. The other epochs, the last one among them, and all
            scoring are at full size.
        average: keep in [0, 1) of the running mean of the weights at each step; the mean is the
            classifier. None: the last weights are.
    """

    epochs: int
    batch_size: int
    optimizer: Callable[..., torch.optim.Optimizer]
    selection: str
    precision: str
    schedule: Schedule | None = None
    augment: Sequence[Augmentation] = ()
    mixup: Mixup | None = None
    pixels: Pixels = "standardised"
    reshuffle: bool = True
    views: int = 1
    patience: int | None = None
    average: float | None = None
    eval_every: int = 1
    resolution: Resolution = ()

    def __post_init__(self) -> None:
        for key in ("epochs", "batch_size", "views", "eval_every"):
            check_integer(f"trainer.{key}", getattr(self, key), low=1)
        if self.patience is not None:
            check_integer("trainer.patience", self.patience, low=1)
        if self.average is not None:
            check_number("trainer.average", self.average, low=0, below=1)
            if self.selection == "best_validation":
                raise InputError(
                    "trainer.average does not go with trainer.selection=best_validation (use "
                    "trainer.average=null, or trainer.selection=last)"
                )
        self._check_optimizer()
        check_made("trainer.schedule", self.schedule, null=True)
        check_made("trainer.mixup", self.mixup, Mixup, null=True)
        for augmentation in check_list("trainer.augment", self.augment, "mappings, or []"):
            check_made("each of trainer.augment", augmentation)
        check_choice("trainer.selection", self.selection, SELECTIONS)
        check_choice("trainer.precision", self.precision, PRECISIONS)
        check_pixels(self.pixels)
        check_resolution(self.resolution)

    def _check_optimizer(self) -> None:
        check_made("trainer.optimizer", self.optimizer)
        if isinstance(self.optimizer, functools.partial):
            for key, value in self.optimizer.keywords.items():
                if isinstance(value, str):
                    raise InputError(f"trainer.optimizer.{key} must be a number, got {value!r}")
                if isinstance(value, float):
                    check_number(f"trainer.optimizer.{key}", value)
        try:
            self.optimizer([torch.zeros(1, requires_grad=True)])
        except (TypeError, ValueError) as error:
            text = str(error)
            raise InputError(f"trainer.optimizer: {text[:1].lower()}{text[1:]}") from None

    def scores(self, number: int) -> bool:
        """Returns whether the classifier is scored after epoch `number`, from 1."""
        last = number > self.epochs - SELECTIONS[self.selection]
        return last or number % self.eval_every == 0

    def run(self, fit: Fit, images: Tensor, session: Session) -> None:
        """Feeds every batch of every epoch to `fit`; order and augmentation follow from the seed.

        Args:
            fit: the network while it is trained.
            images: uint8 (N, H, W, C), all training images.
            session: seed, device, stage.
        """
        # Everything lives on the device: an epoch is a permutation and slices of it.
        images = images.to(session.device)
        indices = fit.indices.to(session.device)
        mixup = None if self.mixup is None else self.mixup.at(session.stage, session.stages)
        order = seeding.generator(session.seed, "train", "order")
        draws = seeding.generator(session.seed, "train", "augment")
        steps = math.ceil(len(indices) / self.batch_size)
        if len(indices) % self.batch_size * self.views == 1:
            self._check_one(fit.classifier.network, images, len(indices))
        if not self.reshuffle:
            permutation = torch.randperm(len(indices), generator=order).to(session.device)
        done = fit.resume(order, draws)
        if done < self.epochs:
            first = "compiling, then " if session.device.type == "cuda" else ""
            session.say(f"  {first}epoch {done + 1} of {self.epochs}, {steps:,} steps each")
        for number in range(done + 1, self.epochs + 1):
            started = time.perf_counter()
            if self.reshuffle:
                permutation = torch.randperm(len(indices), generator=order).to(session.device)
            scale = scale_of(self.resolution, number, self.epochs)
            fit.begin_epoch()
            bar = progress_bar(
                permutation.split(self.batch_size), steps, f"epoch {number} of {self.epochs}"
            )
            for step, rows in enumerate(bar, start=(number - 1) * steps):
                if self.schedule is not None:
                    fit.set_rate(self.schedule(step, self.epochs * steps))
                rows = rows.repeat(self.views)
                batch = fit.classifier.normalise(images[indices[rows]])
                batch = shrunk(self.augmented(batch, draws), scale)
                mixing: Mixing | None = None
                if mixup is not None:
                    batch, mixing = mixup(batch, draws)
                fit.step(batch, rows, mixing)
            views = self._fresh_views(fit, images, indices, draws, scale)
            if fit.end_epoch(number, started, views):
                break
        if done < self.epochs:
            fit.finish()

    @torch.no_grad()
    def _check_one(self, network: nn.Module, images: Tensor, count: int) -> None:
        """Refuses a last batch of one image that the network has but one number of to normalise.

        Raises:
            InputError: before the epoch, rather than at its end.
        """
        network = copy.deepcopy(network).to("meta").train()  # draws nothing, changes no statistics
        image = torch.empty(1, *images.shape[1:], device="meta").permute(0, 3, 1, 2)
        try:
            for scale in (1.0, *(scale for _, scale in self.resolution)):
                network(shrunk(image, scale))
        except ValueError as error:
            raise InputError(
                f"trainer.batch_size={self.batch_size} leaves one of {count} examples for the last "
                f"batch, and {type(network).__name__} cannot normalise one image that small (use "
                "another trainer.batch_size)"
            ) from error
        except RuntimeError:  # a network that needs numbers will say what it cannot take
            return

    def _fresh_views(
        self, fit: Fit, images: Tensor, indices: Tensor, draws: Generator, scale: float
    ) -> Iterator[list[Tensor]]:
        """Yields new augmented views of all examples in order, part by part; nothing is mixed."""
        for part in indices.split(INFERENCE_BATCH):
            batch = fit.classifier.normalise(images[part])
            yield [shrunk(self.augmented(batch, draws), scale) for _ in range(self.views)]

    def augmented(self, batch: Tensor, draws: Generator) -> Tensor:
        """Returns a batch, float (B, C, H, W), after every one of `augment`."""
        for augmentation in self.augment:
            batch = augmentation(batch, draws)
        return batch
