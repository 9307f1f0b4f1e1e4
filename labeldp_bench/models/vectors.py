"""Features as plain vectors, whatever they were."""

import torch
from torch import Tensor


def as_vectors(features: Tensor) -> Tensor:
    """Returns features as float32 (N, d); pixels, uint8, are shares of 255."""
    flat = features.flatten(1).to(torch.float32)
    return flat / 255 if features.dtype == torch.uint8 else flat
