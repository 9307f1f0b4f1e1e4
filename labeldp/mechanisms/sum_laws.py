"""Exact laws of sums: what many labels release together, drawn in one step per group.

The sum of n independent releases has a known law. One draw from it has the same distribution as n
draws that are added up (test_sum_laws.py), and costs as much as one of them.
"""

import math

import numpy as np
import torch
from scipy.stats import nbinom
from torch import Tensor

from labeldp.mechanisms.draws import Stream, check_scale, discrete_laplace
from labeldp.mechanisms.secret import SecretGenerator
from labeldp.support.validate import check_labels


def group_counts(labels: Tensor, num_classes: int, groups: Tensor, num_groups: int) -> Tensor:
    """Returns how often each class occurs in each group, int64 (G, K); checks the labels."""
    check_labels(labels, num_classes)
    pairs = groups * num_classes + labels
    counts = torch.bincount(pairs, minlength=num_groups * num_classes)
    return counts.reshape(num_groups, num_classes)


def group_sums(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Returns the sum of the values in each group, float64 (G,)."""
    sums = np.bincount(groups.numpy(), weights=values.numpy(), minlength=num_groups)
    return torch.from_numpy(sums)


def group_sizes(groups: Tensor, num_groups: int) -> Tensor:
    """Returns the number of labels in each group, int64 (G,)."""
    return torch.bincount(groups, minlength=num_groups)


def binomial(counts: Tensor, probability: float, stream: np.random.Generator) -> Tensor:
    """Returns the number of ones among `counts` independent bits, int64, same shape."""
    return torch.from_numpy(stream.binomial(counts.numpy(), probability))


def laplace_sums(counts: Tensor, scale: float, stream: Stream) -> Tensor:
    """Returns the sum of `counts` discrete Laplace variables of the scale, whole float64.

    Such a variable is a difference of two geometric ones, so that n of them are a difference of two
    negative binomial ones; 0 where there are none. Single ones are drawn digit by digit; of secret
    sums the uniforms are inverted, so that their law holds to 2^-53.

    Raises:
        InputError: see `check_scale`.
    """
    sizes = counts.numpy()
    if scale == 0 or not sizes.any():
        return torch.zeros(counts.shape, dtype=torch.float64)
    if sizes.max() == 1:
        single = discrete_laplace(counts.shape, scale, stream) * sizes
        return torch.from_numpy(single).to(torch.float64)
    check_scale(scale)
    share, some = -math.expm1(-1 / scale), np.maximum(sizes, 1)
    if isinstance(stream, SecretGenerator):
        parts = [nbinom.ppf(stream.random(sizes.shape), some, share) for _ in range(2)]
    else:
        parts = [stream.negative_binomial(some, share).astype(np.float64) for _ in range(2)]
    return torch.from_numpy(np.where(sizes > 0, parts[0] - parts[1], 0.0))
