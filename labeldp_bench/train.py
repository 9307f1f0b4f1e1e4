"""Training and inference of networks: one loop, the same on a CPU and on a GPU."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from labeldp_bench import seeding
from labeldp_bench.augment import Augmentation, Mixup
from labeldp_bench.learners.base import Classifier, Epoch, Session, Supervision
from labeldp_bench.losses import Loss
from labeldp_bench.progress import Stopwatch, progress_bar
from labeldp_bench.schedules import Schedule
from labeldp_bench.validate import InputError, check_choice, check_integer, check_number

SELECTIONS = ("last", "mean_last_10")
PRECISIONS = ("auto", "bf16", "float32")
PIXELS = ("standardised", "unit")
INFERENCE_BATCH = 2000

Mixing = tuple[Tensor, Tensor]
"""Of each example: its partner's position in the batch, int64 (B,), and its own weight, (B,)."""


@dataclass(frozen=True)
class Trainer:
    """Fits a network to supervision; a paper's recipe is a YAML of these numbers.

    Args:
        epochs: >= 1.
        batch_size: examples per step; the last, shorter batch of an epoch is kept.
        optimizer: called with the parameters and `fused=True`: torch.optim.SGD, Adam, AdamW.
        selection: which epochs the reported accuracy comes from: `last` or `mean_last_10`. Both
            are fixed before training, so that no test label chooses anything.
        precision: `bf16` (autocast), `float32`, or `auto`: bf16 where the hardware has it.
        schedule: factor of the optimizer's learning rate at each step; None for a constant one.
        augment: applied to every training batch, in order.
        mixup: mixes images and losses, after the augmentation; None for neither.
        pixels: `standardised` per channel over the training images, `unit`: divided by 255, or a
            mean for each channel and a standard deviation for each, of pixels in [0, 1].
        reshuffle: whether every epoch has an order of its own.
    """

    epochs: int
    batch_size: int
    optimizer: Callable[..., torch.optim.Optimizer]
    selection: str
    precision: str
    schedule: Schedule | None = None
    augment: Sequence[Augmentation] = ()
    mixup: Mixup | None = None
    pixels: str | Sequence[Sequence[float]] = "standardised"
    reshuffle: bool = True

    def __post_init__(self) -> None:
        check_integer("trainer.epochs", self.epochs, low=1)
        check_integer("trainer.batch_size", self.batch_size, low=1)
        check_choice("trainer.selection", self.selection, SELECTIONS)
        check_choice("trainer.precision", self.precision, PRECISIONS)
        _check_pixels(self.pixels)

    def fit(
        self,
        classifier: "NetworkClassifier",
        images: Tensor,
        supervision: Supervision,
        session: Session,
    ) -> None:
        """Trains `classifier` in place.

        Args:
            classifier: a network on the session's device.
            images: uint8 (N, H, W, C), all training images.
            supervision: which of them to use, and what is known of their labels.
            session: seed, device and reports.
        """
        # Everything lives on the device: an epoch is a permutation and slices of it.
        images = images.to(session.device)
        indices = supervision.indices.to(session.device)
        targets = supervision.targets.to(session.device)
        plausible = supervision.plausible.to(session.device)
        network, loss = classifier.network, supervision.loss
        mixup = None if self.mixup is None else self.mixup.at(session.stage, session.stages)
        parameters, buffers = dict(network.named_parameters()), dict(network.named_buffers())
        optimizer = self.optimizer(parameters.values(), fused=True)  # one kernel, same update
        peak_rates = [group["lr"] for group in optimizer.param_groups]
        order = seeding.generator(session.seed, "train", "order")
        draws = seeding.generator(session.seed, "train", "augment")
        steps = math.ceil(len(indices) / self.batch_size)
        stopwatch = Stopwatch(self.epochs, len(indices), classifier.describe(), session.say)
        for number in range(1, self.epochs + 1):
            started = time.perf_counter()
            network.train()
            if self.reshuffle or number == 1:
                permutation = torch.randperm(len(indices), generator=order).to(session.device)
            # Sums stay on the device and are read once, after the epoch.
            loss_sum = torch.zeros((), device=session.device)
            hits = torch.zeros((), device=session.device)
            bar = progress_bar(permutation.split(self.batch_size), steps, f"epoch {number}")
            for step, rows in enumerate(bar, start=(number - 1) * steps):
                if self.schedule is not None:
                    factor = self.schedule(step, self.epochs * steps)
                    for group, rate in zip(optimizer.param_groups, peak_rates, strict=True):
                        group["lr"] = rate * factor
                batch = classifier.normalise(images[indices[rows]])
                batch, mixed = self._augmented(batch, mixup, draws)
                with classifier.autocast():
                    losses, logits = objective(
                        parameters, buffers, network, batch, targets[rows], loss, mixed
                    )
                optimizer.zero_grad(set_to_none=True)
                losses.mean().backward()
                optimizer.step()
                loss_sum += losses.detach().sum()
                chosen = logits.detach().argmax(1, keepdim=True)
                hits += plausible[rows].gather(1, chosen).sum()
                stopwatch.lap(len(rows), session.device)
            mean_loss = float(loss_sum) / len(indices)
            if not math.isfinite(mean_loss):
                raise InputError(
                    f"the loss became {mean_loss} in epoch {number} "
                    "(lower trainer.optimizer.lr, or set trainer.precision=float32)"
                )
            epoch = Epoch(
                number=number,
                total=self.epochs,
                loss=mean_loss,
                released_hits=float(hits) / len(indices),
                lr=optimizer.param_groups[0]["lr"],
                seconds=time.perf_counter() - started,
                num_examples=len(indices),
            )
            session.on_epoch(epoch, classifier)

    def _augmented(
        self, batch: Tensor, mixup: Mixup | None, draws: Generator
    ) -> tuple[Tensor, Mixing | None]:
        for augmentation in self.augment:
            batch = augmentation(batch, draws)
        if mixup is None:
            return batch, None
        mixed = mixup(batch, draws)
        return mixed.images, (mixed.partner, mixed.weight)


def objective(
    parameters: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    loss: Loss,
    mixed: Mixing | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the loss of each example, (B,), and the logits, (B, K), both float32.

    Mixup mixes losses, not labels, so that it works for every kind of release.

    A pure function of its arguments (batch statistics in `buffers` aside), so that it can be
    differentiated, compiled and mapped over stacked parameters.
    """
    logits = functional_call(network, ({**parameters}, {**buffers}), (images,)).float()
    losses = loss(logits, targets)
    if mixed is not None:
        partner, weight = mixed
        losses = weight * losses + (1 - weight) * loss(logits, targets[partner])
    return losses, logits


@dataclass(frozen=True)
class NetworkModel:
    """A network and the recipe that trains it.

    Args:
        network: called with `num_classes` and `image_shape` (H, W, C).
        trainer: the recipe.
        initial: weights and statistics that a fresh network starts from, by name; what is not
            named, such as the classifier, starts at random. None: everything does.
    """

    network: Callable[..., nn.Module]
    trainer: Trainer
    initial: Mapping[str, Tensor] | None = None

    shares_work: ClassVar[bool] = False

    def resolved_precision(self, device: torch.device) -> str:
        """Returns `bf16` or `float32`: what a fit on `device` computes in."""
        return resolve_precision(self.trainer.precision, device)

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> "NetworkClassifier":
        """Returns a fresh network, or one that starts from `start`, trained on the supervision."""
        if features.dim() != 4:
            raise InputError(
                f"a network needs images of shape (N, H, W, C), got {tuple(features.shape)} "
                "(use model=knn for points)"
            )
        # Initial weights and dropout use the global stream, which is left as it was.
        devices = [session.device] if session.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seeding.derive(session.seed, "train"))
            network = self.network(
                num_classes=supervision.num_classes, image_shape=tuple(features.shape[1:])
            )
            if self.initial is not None:
                adopt(network, self.initial)
            classifier = NetworkClassifier(
                network.to(session.device, memory_format=torch.channels_last),  # type: ignore[call-overload]
                *pixel_scale(self.trainer.pixels, features),
                precision=self.resolved_precision(session.device),
            )
            if isinstance(start, NetworkClassifier):
                network.load_state_dict(start.network.state_dict())
            self.trainer.fit(classifier, features, supervision, session)
        return classifier


@dataclass(frozen=True)
class NetworkClassifier:
    """A network with the statistics that standardise its input.

    Attributes:
        network: float (B, C, H, W) to logits (B, K).
        mean, stddev: float32 (C,), of pixels in [0, 255].
        precision: `bf16` or `float32`.
    """

    network: nn.Module
    mean: Tensor
    stddev: Tensor
    precision: str

    @property
    def device(self) -> torch.device:
        """Where the network lives."""
        return next(self.network.parameters()).device

    def describe(self) -> str:
        """Returns where and how it computes: 'cpu, bf16'."""
        return f"{self.device}, {self.precision}"

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the context of a forward pass in the chosen precision."""
        enabled = self.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    def normalise(self, images: Tensor) -> Tensor:
        """Returns uint8 (B, H, W, C) as float32 (B, C, H, W): (pixels - mean) / stddev."""
        mean, stddev = self.mean.to(images.device), self.stddev.to(images.device)
        # NHWC in memory is channels_last already: the permutation copies nothing.
        return ((images.to(torch.float32) - mean) / stddev).permute(0, 3, 1, 2)

    @torch.inference_mode()
    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K), CPU; evaluation mode, no augmentation."""
        self.network.eval()
        with self.autocast():
            logits = [
                self.network(self.normalise(batch.to(self.device))).float().cpu()
                for batch in features.split(INFERENCE_BATCH)
            ]
        return torch.cat(logits)

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns softmax of logits / temperature, float64 (m, K), CPU."""
        return (self.scores(features).to(torch.float64) / temperature).softmax(1)


def adopt(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies `weights` into the parameters and buffers of `network` that have their names.

    Raises:
        InputError: a name or a shape that the network does not have.
    """
    own = network.state_dict()
    for name, values in weights.items():
        if name not in own or own[name].shape != values.shape:
            there = f"the network has {tuple(own[name].shape)}" if name in own else "it has none"
            raise InputError(
                f"pre-trained weights do not fit the network: {name} has shape "
                f"{tuple(values.shape)}, {there} (use pretrain=none, or images of the same shape)"
            )
        own[name].copy_(values)  # shares memory with the network


def pixel_scale(pixels: str | Sequence[Sequence[float]], images: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the shift and the divisor of each channel, float32 (C,), that `pixels` names."""
    channels = images.shape[-1]
    if pixels == "unit":
        return torch.zeros(channels), torch.full((channels,), 255.0)
    if isinstance(pixels, str):
        return channel_statistics(images)
    mean, stddev = (torch.tensor(values, dtype=torch.float32) * 255 for values in pixels)
    if len(mean) != channels:
        raise InputError(
            f"trainer.pixels must name one mean and one standard deviation for each of "
            f"{channels} channels, got {len(mean)}"
        )
    return mean, stddev


def _check_pixels(pixels: object) -> None:
    if isinstance(pixels, str) or not isinstance(pixels, Sequence):
        check_choice("trainer.pixels", pixels, PIXELS)
        return
    rows = [row for row in pixels if isinstance(row, Sequence) and not isinstance(row, str)]
    if len(rows) != len(pixels) or len(rows) != 2 or len(rows[0]) != len(rows[1]):
        raise InputError(
            "trainer.pixels must be one of standardised, unit, or two lists, means and standard "
            f"deviations, got {pixels!r}"
        )
    for mean, stddev in zip(*rows, strict=True):
        check_number("trainer.pixels", mean)
        check_number("trainer.pixels", stddev, above=0)


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation of each channel, float32 (C,), of uint8 NHWC images.

    Images are public; nothing here depends on a label.
    """
    values = torch.arange(256, dtype=torch.float64)
    moments = []
    for channel in images.unbind(-1):
        share = torch.bincount(channel.flatten(), minlength=256) / channel.numel()
        mean = (share * values).sum()
        moments.append((mean, (share * (values - mean) ** 2).sum().sqrt().clamp_min(1.0)))
    means, stddevs = zip(*moments, strict=True)
    return torch.stack(means).float(), torch.stack(stddevs).float()


def resolve_precision(precision: str, device: torch.device) -> str:
    """Returns `bf16` or `float32`; `auto` takes bf16 only where the hardware computes in it."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    # Emulated bf16 is several times slower than float32; torch has no public test for a CPU.
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    native = any(getattr(torch.cpu, test, lambda: False)() for test in tests)
    return "bf16" if native else "float32"
