"""A window of neighbouring classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism
from labeldp.mechanisms.bits import check_bits
from labeldp.mechanisms.noise import Noise, Prior, integers, uniforms
from labeldp.support.validate import check_labels


@dataclass(frozen=True)
class Window(ClassMechanism):
    """Releases w = K/2 classes in a row (K is followed by 0), with the true one or without it.

    eps-label-DP under label replacement, tight: a window with the label weighs e^eps, any other
    1, and there are w and K - w of them whatever the label is.

    Source: ours, an example.
    """

    identity_at_inf: ClassVar[bool] = False

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K) with w ones each."""
        check_labels(labels, num_classes)
        width, size = num_classes // 2, (len(labels),)
        kept = 1 / (1 + (num_classes - width) / width * math.exp(-self.eps))
        inside = uniforms(size, generator) < kept
        near = integers(0, width, size, generator)
        far = integers(width, num_classes, size, generator)
        return _windows((labels - torch.where(inside, near, far)) % num_classes, num_classes)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(window | label = c), float64 (N, K)."""
        bits = check_bits(released, num_classes)
        width = num_classes // 2
        log_total = math.log(width + (num_classes - width) * math.exp(-self.eps))
        outside = torch.full(bits.shape, -self.eps - log_total, dtype=torch.float64)
        return outside.masked_fill_(bits == 1, -log_total)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the K windows, uint8 (K, K)."""
        return _windows(torch.arange(num_classes), num_classes)


def _windows(starts: Tensor, num_classes: int) -> Tensor:
    """Returns the windows that begin with these classes, uint8 (N, K)."""
    places = (torch.arange(num_classes) - starts[:, None]) % num_classes
    return (places < num_classes // 2).to(torch.uint8)
