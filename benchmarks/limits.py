"""What a device can do at most, and what a training step asks of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness import seconds_of
from labeldp_bench.support.device import wait_for

SECONDS = 0.5
"""Timed for each limit, in all."""


@dataclass(frozen=True)
class Limits:
    """Measured limits of a device.

    Attributes:
        precision: of the product, `bf16` or `float32`.
        flops: floating point operations per second of a product of two square matrices.
        copied_bytes: bytes read and written per second by a copy.
    """

    precision: str
    flops: float
    copied_bytes: float

    def __str__(self) -> str:
        return (
            f"matmul {self.flops / 1e12:.3g} TFLOP/s ({self.precision}), "
            f"copy {self.copied_bytes / 1e9:.3g} GB/s"
        )

    @classmethod
    def of(cls, device: torch.device, precision: str) -> "Limits":
        """Returns the limits of `device`, measured now; other work on it lowers them."""
        cuda = device.type == "cuda"
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        size, length = (8192, 2**30) if cuda else (1024, 2**26)
        # Random, as products of equal numbers take less power, and run at a higher clock.
        left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
        product = _per_second(lambda: torch.mm(left, right), device) * 2 * size**3
        source = torch.ones(length, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        copied = _per_second(lambda: target.copy_(source), device) * 2 * length
        return cls(precision, product, copied)


def _per_second(call: Callable[[], object], device: torch.device) -> float:
    def several(calls: int) -> None:
        for _ in range(calls):
            call()
        wait_for(device)

    several(1)
    calls = 4 * max(1, round(SECONDS / 3 / seconds_of(lambda: several(4), 1)))
    return calls / seconds_of(lambda: several(calls))


class _Traffic(TorchDispatchMode):
    """Counts what every operation reads and writes; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, given: tuple = (), named: dict | None = None
    ) -> Any:
        result = operation(*given, **(named or {}))
        if not operation.is_view:
            tensors = [leaf for leaf in tree_leaves((given, result)) if isinstance(leaf, Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return result


def work_per_image(network: nn.Module, batch: Tensor, autocast: Any) -> tuple[float, float]:
    """Returns floating point operations and bytes of one image, forward and backward.

    The bytes are those of a step that fuses nothing, an upper bound of what must move. The
    optimizer and the augmentation are left out.

    Args:
        network: on the batch's device.
        batch: float (B, C, H, W).
        autocast: context of the forward pass.
    """
    traffic, flops = _Traffic(), FlopCounterMode(display=False)
    with traffic, flops:
        with autocast:
            scores = network(batch)
        scores.float().logsumexp(1).sum().backward()
    network.zero_grad(set_to_none=True)
    return flops.get_total_flops() / len(batch), traffic.bytes / len(batch)
