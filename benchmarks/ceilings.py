"""What a device can do at most: one large matrix product, one large copy."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from labeldp.support.progress import wait_for

SECONDS = 0.5
"""Timed for each; the best of three."""


@dataclass(frozen=True)
class Ceilings:
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


def ceilings(device: torch.device, precision: str) -> Ceilings:
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
    return Ceilings(precision, product, copied)


def _per_second(call: Callable[[], object], device: torch.device) -> float:
    call()
    best = 0.0
    for _ in range(3):
        wait_for(device)
        started, calls = time.perf_counter(), 0
        while time.perf_counter() - started < SECONDS / 3:
            for _ in range(4):
                call()
            wait_for(device)
            calls += 4
        best = max(best, calls / (time.perf_counter() - started))
    return best
