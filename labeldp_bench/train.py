"""Training of networks: one loop, the same on a CPU and on a GPU."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from labeldp_bench import seeding
from labeldp_bench.augment import Augmentation, Mixup
from labeldp_bench.learners.base import Epoch, Session, Supervision
from labeldp_bench.losses import Loss
from labeldp_bench.pixels import check_pixels
from labeldp_bench.progress import Stopwatch, progress_bar
from labeldp_bench.schedules import Schedule
from labeldp_bench.validate import InputError, check_choice, check_integer

if TYPE_CHECKING:
    from labeldp_bench.models.network import NetworkClassifier

SELECTIONS = ("last", "mean_last_10", "best_validation")
INFERENCE_BATCH = 2000
PRECISIONS = ("auto", "bf16", "float32")

Mixing = tuple[Tensor, Tensor]
"""Of each example: its partner's position in the batch, int64 (B,), and its own weight, (B,)."""


@dataclass(frozen=True)
class Trainer:
    """Fits a network to supervision; a paper's recipe is a YAML of these numbers.

    Args:
        epochs: >= 1.
        batch_size: examples per step; the last, shorter batch of an epoch is kept.
        optimizer: called with the parameters and `fused=True`: torch.optim.SGD, Adam, AdamW.
        selection: which epochs the reported accuracy comes from: `last` or `mean_last_10`, both
            fixed before training, or `best_validation`, for supervision with validation labels.
            No test label chooses anything.
        precision: `bf16` (autocast), `float32`, or `auto`: bf16 where the hardware has it.
        schedule: factor of the optimizer's learning rate at each step; None for a constant one.
        augment: applied to every training batch, in order.
        mixup: mixes images and losses, after the augmentation; None for neither.
        pixels: `standardised` per channel over the training images, `unit`: divided by 255, or a
            mean for each channel and a standard deviation for each, of pixels in [0, 1].
        reshuffle: whether every epoch has an order of its own.
        views: how often each example is augmented in a step; its loss is the sum over its views.
        patience: with `best_validation`, stop after so many epochs without a better one; None for
            never.
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
    views: int = 1
    patience: int | None = None

    def __post_init__(self) -> None:
        check_integer("trainer.epochs", self.epochs, low=1)
        check_integer("trainer.batch_size", self.batch_size, low=1)
        check_choice("trainer.selection", self.selection, SELECTIONS)
        check_choice("trainer.precision", self.precision, PRECISIONS)
        check_pixels(self.pixels)
        check_integer("trainer.views", self.views, low=1)
        if self.patience is not None:
            check_integer("trainer.patience", self.patience, low=1)
            if self.selection != "best_validation":
                raise InputError("trainer.patience needs trainer.selection=best_validation")

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
        chooses = self.selection == "best_validation"
        if chooses and supervision.validate is None:
            raise InputError(
                "trainer.selection=best_validation needs validation labels, and this learner has "
                "none (use trainer.selection=last)"
            )
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
        best = Best()
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
                rows = rows.repeat(self.views)
                batch = classifier.normalise(images[indices[rows]])
                batch, mixed = self._augmented(batch, mixup, draws)
                with classifier.autocast():
                    losses, logits = objective(
                        parameters, buffers, network, batch, targets[rows], loss, mixed
                    )
                optimizer.zero_grad(set_to_none=True)
                (losses.mean() * self.views).backward()
                optimizer.step()
                loss_sum += losses.detach().sum()
                chosen = logits.detach().argmax(1, keepdim=True)
                hits += plausible[rows].gather(1, chosen).sum() / self.views
                stopwatch.lap(len(rows) // self.views, session.device)
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
            if supervision.refine is not None:
                seen = self._seen(classifier, images, indices, draws)
                targets = supervision.refine(number, seen).to(session.device)
            if chooses and supervision.validate is not None:
                best.offer(number, supervision.validate(classifier), network)
                if self.patience is not None and number - best.epoch >= self.patience:
                    break
        if chooses:
            network.load_state_dict(best.weights)
            session.notes.update(
                best_epoch=best.epoch, validation_accuracy=best.score, epochs_run=number
            )

    @torch.no_grad()
    def _seen(
        self, classifier: "NetworkClassifier", images: Tensor, indices: Tensor, draws: Generator
    ) -> Tensor:
        """Returns the mean log probabilities of each example over fresh views, float32 (n, K)."""
        classifier.network.eval()
        means = []
        for part in indices.split(INFERENCE_BATCH):
            batch = classifier.normalise(images[part])
            total = torch.zeros((), device=images.device)
            for _ in range(self.views):
                view, _ = self._augmented(batch, None, draws)
                with classifier.autocast():
                    logits = classifier.network(view)
                total = total + logits.float().log_softmax(1)
            means.append(total / self.views)
        return torch.cat(means)

    def _augmented(
        self, batch: Tensor, mixup: Mixup | None, draws: Generator
    ) -> tuple[Tensor, Mixing | None]:
        for augmentation in self.augment:
            batch = augmentation(batch, draws)
        if mixup is None:
            return batch, None
        mixed = mixup(batch, draws)
        return mixed.images, (mixed.partner, mixed.weight)


@dataclass
class Best:
    """The first epoch with the best validation score so far, and its weights."""

    epoch: int = 0
    score: float = -math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, epoch: int, score: float, network: nn.Module) -> None:
        """Keeps the weights of `network` if `score` beats what there was."""
        if score > self.score:
            self.epoch, self.score = epoch, score
            self.weights = {key: value.clone() for key, value in network.state_dict().items()}


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
