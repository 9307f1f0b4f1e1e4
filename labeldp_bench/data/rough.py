"""Functions on [0, 1] whose smoothness is known exactly: targets of the theory runs.

A function is its values at 2^14 + 1 equally spaced points, linear in between: so its values and
integrals are known exactly, and it is as rough as its formula down to cubes of side 2^-14.
"""

import math

import numpy as np
import torch
from torch import Tensor

from labeldp.support import seeding

LEVELS = 14
POINTS = 2**LEVELS
TARGETS = ("weierstrass", "bumps", "smooth")


def rough_function(target: str, smoothness: float, seed: int) -> Tensor:
    """Returns a function's values, float64 (2^14 + 1,), scaled to a largest size of 1.

    `weierstrass`: a sum of cosines with frequency 2^j, height 2^(-j smoothness) and random phase;
    `bumps`: at every dyadic scale the lower bound's bumps, tents of height 2^(-j smoothness), each
    with a random sign; `smooth`: two periods of a sine, which has every smoothness up to 1.

    Args:
        target: one of `TARGETS`.
        smoothness: Hölder exponent in (0, 1].
        seed: of phases and signs; the same function for the same seed.
    """
    generator = seeding.generator(seed, "target")
    x = torch.arange(POINTS + 1, dtype=torch.float64) / POINTS
    if target == "smooth":
        return torch.sin(4 * math.pi * x)
    total = torch.zeros_like(x)
    for level in range(1, LEVELS):
        height = 2.0 ** (-level * smoothness)
        if target == "weierstrass":
            phase = 2 * math.pi * float(torch.rand((), generator=generator))
            total += height * torch.cos(2 * math.pi * 2.0**level * x + phase)
        else:
            signs = 2.0 * torch.randint(2, (2**level + 1,), generator=generator) - 1
            position = x * 2**level
            tent = 1 - (2 * (position - position.floor()) - 1).abs()
            total += height * signs[position.long()] * tent
    return total / total.abs().max()


def values_at(function: Tensor, points: Tensor) -> Tensor:
    """Returns the values of a tabulated function, float64, at points in [0, 1], (N,)."""
    grid = np.linspace(0, 1, len(function))
    return torch.from_numpy(np.interp(points.numpy(), grid, function.numpy()))
