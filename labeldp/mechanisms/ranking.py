"""Labels in the order of a prior, for mechanisms that keep the likely ones."""

import numpy as np
import torch
from torch import Tensor


def places(order: Tensor) -> Tensor:
    """Returns the place of each label in `order`, int64 (rows, K)."""
    counted = torch.arange(order.shape[1]).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, counted)


def by_falling_prior(prior: Tensor) -> Tensor:
    """Returns the labels by falling prior, int64 (rows, K).

    Ties go to the lower label. The last bits of each prior, as many as a label has, are replaced by
    the label, so that sorting the numbers sorts the labels: several times as fast as sorting
    indices. Priors that differ in those bits only therefore count as tied.

    Args:
        prior: (rows, K), >= 0.
    """
    last = prior.shape[1] - 1
    label = 2 ** last.bit_length() - 1
    # Floats >= 0 are in the order of their bits; + 0.0 makes a negative zero positive.
    keys = (prior.to(torch.float64) + 0.0).numpy().view(np.int64)
    keys &= ~label
    keys |= last - np.arange(last + 1)
    keys.sort(axis=1)
    keys &= label
    return torch.from_numpy(last - keys[:, ::-1])
