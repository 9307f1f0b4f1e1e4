"""Laws that audits compare draws with, from the scales that mechanisms state."""

import torch
from torch import Tensor


def laplace_law(outputs: Tensor, means: Tensor, scale: float) -> Tensor:
    """Returns -|z - m|_1 / scale, float64 (n, I), of outputs (n, D) and means (I, D).

    The law of Laplace noise up to a constant, and of geometric noise on integers.
    """
    return -torch.cdist(outputs.double(), means, p=1) / scale
