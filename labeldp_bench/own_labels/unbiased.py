"""Estimates of the one-hot label from a release, whose mean over the noise is exact."""

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp_bench.own_labels.release import Release
from labeldp_bench.support.validate import InputError


def unbiased_labels(release: Release) -> NDArray[np.float64]:
    """Returns an unbiased estimate of each row's one-hot label, float64 (N, K).

    The mechanism's own where it has one. Otherwise, with q the average law of outputs and
    w_c = P(o | c) / q(o), G^-1 w(o) for G = sum_o q w w^T: the mean of w under label y is column y
    of G.

    Raises:
        InputError: the channel cannot tell some classes apart.
    """
    inside = release.vaulted
    try:
        return inside.mechanism.unbiased(inside.outputs, inside.num_classes).numpy()
    except InputError:
        mechanism = release.manifest.class_mechanism()
        law = mechanism.log_likelihood(
            mechanism.output_space(inside.num_classes), inside.num_classes
        ).exp()
    average = law.mean(1, keepdim=True)
    gram = (law / average).T @ law
    if torch.linalg.matrix_rank(gram) < inside.num_classes:
        raise InputError(f"{release.mechanism} cannot tell some of the classes apart") from None
    likelihood = inside.log_likelihood.exp()
    weights = likelihood / likelihood.mean(1, keepdim=True)
    return (weights @ torch.linalg.inv(gram)).numpy()
