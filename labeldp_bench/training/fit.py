"""A fit in epochs: what it keeps, and the classifier that it trains."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor, nn

from labeldp.supervision import LogitClassifier
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.interfaces import FitCheckpoint, State
from labeldp_bench.training.augment import Mixing

INFERENCE_BATCH = 2000
IMAGE_AXES = 4
"""Axes of (N, H, W, C)."""


@dataclass(frozen=True)
class NetworkClassifier(LogitClassifier):
    """A network with the statistics that standardise its input.

    Attributes:
        network: float (B, C, H, W) to logits (B, K).
        mean, stddev: float32 (C,), of pixels in [0, 255], where the network lives.
        precision: `bf16` or `float32`.
    """

    network: nn.Module
    mean: Tensor
    stddev: Tensor
    precision: str

    @property
    def device(self) -> torch.device:
        """Where the network lives."""
        return self.mean.device  # a network of fixed filters has no parameters

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the context of a forward pass in the chosen precision."""
        enabled = self.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    def normalise(self, images: Tensor) -> Tensor:
        """Returns (pixels - mean) / stddev, float32 (B, C, H, W), of uint8 (B, H, W, C)."""
        # NHWC in memory is channels_last already: the permutation copies nothing.
        return ((images.to(torch.float32) - self.mean) / self.stddev).permute(0, 3, 1, 2)

    @torch.no_grad()
    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K), CPU; evaluation mode, no augmentation."""
        self.network.eval()
        logits = torch.empty(0)
        with self.autocast():
            for start in range(0, len(features), INFERENCE_BATCH):
                batch = features[start : start + INFERENCE_BATCH].to(self.device)
                part = self.network(self.normalise(batch)).float()
                if not start:  # all in one piece from the start: joining parts takes twice as much
                    logits = part.new_empty((len(features), part.shape[1]))
                logits[start : start + INFERENCE_BATCH] = part
        return logits.cpu()  # one wait, not one for each batch


def check_images(features: Tensor) -> None:
    """Refuses features that are not images."""
    if features.dim() != IMAGE_AXES:
        raise InputError(
            f"a network needs images of shape (N, H, W, C), got {tuple(features.shape)} "
            "(use model=logistic or boosted_trees for tables, model=knn for points)"
        )


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


def below_classifier(network: nn.Module) -> dict[str, Tensor]:
    """Returns parameters and buffers without those of the last linear layer, CPU.

    Raises:
        InputError: nothing is left.
    """
    last = classifier_of(network)
    tensors = {
        name: values.detach().cpu().contiguous()
        for name, values in network.state_dict().items()
        if name.rpartition(".")[0] != last
    }
    if not tensors:
        raise InputError("pre-training needs a network with more than one layer (pretrain=none)")
    return tensors


def classifier_of(network: nn.Module) -> str:
    """Returns the name of the last linear layer."""
    return [name for name, each in network.named_modules() if isinstance(each, nn.Linear)][-1]


def resolve_precision(precision: str, device: torch.device) -> str:
    """Returns `bf16` or `float32`; `auto` takes bf16 where the device computes faster in it."""
    if precision != "auto":
        return precision
    is_faster = has_bf16(device) and (device.type == "cuda" or _bf16_is_faster())
    return "bf16" if is_faster else "float32"


def has_bf16(device: torch.device) -> bool:
    """Returns whether the hardware computes in bf16; emulated, it is several times slower."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # torch has no public ones
    return any(getattr(torch.cpu, test, lambda: False)() for test in tests)


@cache
def _bf16_is_faster() -> bool:
    """Returns whether a training step is clearly faster in bf16 on this CPU, once a process.

    Of CPUs with AVX512-BF16 some are, and some are not.
    """
    return 1.1 * step_seconds(torch.bfloat16) < step_seconds(torch.float32)


def step_seconds(dtype: torch.dtype) -> float:
    """Returns the least CPU time of a step through a convolution; draws nothing."""
    images = torch.linspace(-1, 1, 100 * 32 * 14 * 14).view(100, 32, 14, 14)
    images = images.contiguous(memory_format=torch.channels_last)
    kernels = torch.linspace(-1, 1, 64 * 32 * 9).view(64, 32, 3, 3).requires_grad_()
    least = math.inf
    for _ in range(5):
        started = time.process_time()  # which other programs slow down less
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = torch.nn.functional.conv2d(images, kernels).square().mean()
        loss.backward()
        least = min(least, time.process_time() - started)
    return least


class Fit(ABC):
    """One network while it is trained.

    Args:
        classifier: trained in place.
        optimizer: called with the parameters and `fused=True`, the same update in one kernel.
        indices: int64 (n,), the training examples that are used.
        checkpoint: where the fit leaves its state after an epoch; None: nowhere.
    """

    def __init__(
        self,
        classifier: NetworkClassifier,
        optimizer: Callable[..., torch.optim.Optimizer],
        indices: Tensor,
        checkpoint: FitCheckpoint | None,
    ) -> None:
        self.classifier, self.indices, self.checkpoint = classifier, indices, checkpoint
        self.optimizer = optimizer(classifier.network.parameters(), fused=True)
        self.peak_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.loss_sum = torch.zeros((), device=classifier.device)
        self.number = 0
        self.streams: tuple[Generator, ...] = ()

    def set_rate(self, factor: float) -> None:
        """Sets the learning rate to `factor` of its peak."""
        for group, rate in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
            group["lr"] = rate * factor

    def resume(self, order: Generator, draws: Generator) -> int:
        """Restores the fit from its checkpoint, if there is one; returns how many epochs it did.

        Args:
            order: stream of the epochs' orders, restored too.
            draws: stream of the augmentation, restored too.
        """
        self.streams = (order, draws)
        saved = self.checkpoint.next_fit() if self.checkpoint is not None else None
        if self.checkpoint is None or saved is None:
            return 0
        with self.checkpoint.restoring():
            self.number = self.restore(saved)
        return self.number

    def state(self) -> State:
        """Returns what the fit needs to go on, for a checkpoint."""
        return {
            "epoch": self.number,
            "network": self.classifier.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "streams": [stream.get_state() for stream in self.streams],
            "dropout": dropout_state(self.classifier.device),
        }

    def restore(self, saved: State) -> int:
        """Takes back what `state` returned; returns the number of finished epochs."""
        self.classifier.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for stream, state in zip(self.streams, saved["streams"], strict=True):
            stream.set_state(state)
        set_dropout_state(saved["dropout"], self.classifier.device)
        return int(saved["epoch"])

    def begin_epoch(self) -> None:
        """Clears the sums, which stay on the device and are read once, after the epoch."""
        self.classifier.network.train()
        self.loss_sum.zero_()

    @abstractmethod
    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch; reads nothing back from the device.

        Args:
            batch: float (B, C, H, W), augmented and mixed.
            rows: int64 (B,), the batch's positions in `indices`.
            mixing: how the batch was mixed; None: not at all.
        """

    @abstractmethod
    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Reports an epoch; returns whether to stop before the last one.

        Args:
            number: of the epoch, from 1.
            started: its start on the clock `time.perf_counter`.
            views: yields new augmented views of all examples, part by part.
        """

    def finish(self) -> None:
        """Ends the fit after its last epoch."""
        return None

    def descend(self, loss: Tensor) -> None:
        """Moves the weights by one step of the optimizer, down the gradient of `loss`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def mean_loss(self, number: int) -> float:
        """Returns the mean loss over the examples of epoch `number`; waits for the device.

        Raises:
            Diverged: the loss is NaN or infinite.
        """
        mean = float(self.loss_sum) / len(self.indices)
        if not math.isfinite(mean):
            raise Diverged(
                f"the loss became {mean} in epoch {number} "
                "(lower trainer.optimizer.lr, or set trainer.precision=float32)"
            )
        return mean


def dropout_state(device: torch.device) -> list[Tensor]:
    """Returns the state of the global streams, which dropout draws from."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_dropout_state(states: list[Tensor], device: torch.device) -> None:
    """Restores the state that `dropout_state` returned."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
