"""Exact laws of sums: what many labels release together, drawn in one step per group.

The sum of n independent releases has a known law. One draw from it has the same distribution as n
draws that are added up (tests/mechanisms/test_sum_laws.py), and costs as much as one of them.
"""

import numpy as np
import torch
from scipy.special import gammaincinv
from torch import Tensor

from labeldp_bench.mechanisms.draws import Stream
from labeldp_bench.mechanisms.secret import SecretGenerator
from labeldp_bench.support.validate import check_labels


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
    """Returns the sum of `counts` independent Laplace variables of the scale, float64.

    A Laplace variable is a difference of two exponentials, so n of them are a difference of two
    gamma variables of shape n; 0 where there are none.
    """
    shapes = counts.numpy().astype(np.float64)
    if isinstance(stream, SecretGenerator):
        gamma = [gammaincinv(shapes, stream.random(shapes.shape)) for _ in range(2)]
        return torch.from_numpy(scale * np.where(shapes > 0, gamma[0] - gamma[1], 0.0))
    difference = stream.standard_gamma(shapes) - stream.standard_gamma(shapes)
    return torch.from_numpy(scale * difference)
