"""Gaussian noise: how much (eps, delta) asks for, and its draws."""

import math

import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri
from torch import Tensor

from labeldp.mechanisms.draws import Noise, step_of, uniforms
from labeldp.mechanisms.secret import SecretGenerator

SENSITIVITY = math.sqrt(2)
"""A replaced label moves a row of length at most 1 from one column to another."""

SMALLEST_DELTA = 1e-12
"""Rounding adds up to 1e-14 to a delta, so that accounting for much less would be of rounding."""


def gaussian_noise(shape: tuple[int, ...], stddev: float, generator: Noise) -> Tensor:
    """Returns independent normal noise, float64."""
    # Half a step away from 0 and 1, where the variable would be infinite; next to 1 it is rounded.
    uniform = (uniforms(shape, generator) + 2.0**-54).clamp_max(1 - 2.0**-53)
    return stddev * torch.from_numpy(ndtri(uniform.numpy()))


def as_released(noisy: Tensor, stddev: float, generator: Noise) -> Tensor:
    """Returns sums with normal noise as they may leave: with secret noise, in whole steps.

    Only 2^53 values of a normal variable can be drawn. Whoever knows all labels but one subtracts
    the sums that each label would give, and sees which difference is such a value. In steps of a
    thousandth of the noise, each stands for billions of them. From a seed the noise can be undone
    anyhow, and stays as records have it.

    Args:
        noisy: float64, of any shape.
        stddev: of the noise; 0: none.
        generator: what the noise was drawn from.
    """
    if stddev == 0 or not isinstance(generator, SecretGenerator):
        return noisy
    step = step_of(stddev)
    return (noisy / step).round() * step


def gaussian_stddev(eps: float, delta: float) -> float:
    """Returns the least noise that makes an answer of sensitivity 1 (eps, delta)-DP.

    Source: Balle, Wang (2018), arXiv:1805.06530, theorem 8, which holds with equality.

    >>> round(gaussian_stddev(1.0, 1e-5), 4), round(gaussian_stddev(0.1, 1e-5), 3)
    (3.7306, 30.75)
    """
    if math.isinf(eps):
        return 0.0

    def excess(log_stddev: float) -> float:
        return gaussian_delta(eps, math.exp(log_stddev)) - delta

    return math.exp(brentq(excess, math.log(1e-3 / (1 + eps)), math.log(1e6 / min(eps, 1.0))))


def gaussian_delta(eps: float, stddev: float) -> float:
    """Returns the delta that Gaussian noise has at eps, for an answer of sensitivity 1."""
    near, far = 1 / (2 * stddev) - eps * stddev, -1 / (2 * stddev) - eps * stddev
    # The second term is a product of something huge and something tiny.
    return math.exp(log_ndtr(near)) - math.exp(eps + log_ndtr(far))
