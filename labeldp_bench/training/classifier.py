"""A network with the scale of its input and its precision, and its weights by name."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labeldp.supervision import LogitClassifier
from labeldp.support.validate import InputError

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

    def describe(self) -> str:
        """Returns where and how it computes: 'cpu, bf16'."""
        return f"{self.device}, {self.precision}"

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
    """Returns `bf16` or `float32`; `auto` takes bf16 only where the hardware computes in it."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    # Emulated bf16 is several times slower than float32; torch has no public test for a CPU.
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    native = any(getattr(torch.cpu, test, lambda: False)() for test in tests)
    return "bf16" if native else "float32"
