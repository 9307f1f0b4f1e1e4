"""Examples whose releases choose between fits: no true label is needed."""

import torch
from torch import Tensor

from labeldp.support import seeding


def held_out_rows(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Returns which of `count` examples fit and which choose, int64; one at least in each.

    Args:
        count: number of examples, >= 2.
        share: of those that choose, in (0, 1).
        seed: of the run.
    """
    order = torch.randperm(count, generator=seeding.generator(seed, "train", "held_out"))
    kept_out = min(max(1, round(share * count)), count - 1)
    return order[kept_out:], order[:kept_out]
