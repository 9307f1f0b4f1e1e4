"""Estimates of the one-hot label from a release, whose mean over the noise is exact."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms import AdditiveLaplace, ClassMechanism, RandomizedResponse
from labeldp.mechanisms.bits import BitMechanism
from labeldp.release import Release
from labeldp.support.validate import InputError


def unbiased_labels(release: Release) -> NDArray[np.float64]:
    """Returns an unbiased estimate of each row's one-hot label, float64 (N, K).

    The mechanism's own where it has one. Otherwise, with q the average law of outputs and
    w_c = P(o | c) / q(o), G^-1 w(o) for G = sum_o q w w^T: the mean of w under label y is column y
    of G.

    Raises:
        InputError: the channel cannot tell some classes apart.
    """
    mechanism, num_classes = release.manifest.class_mechanism(), len(release.classes)
    return _estimates(mechanism, release.outputs, num_classes)


def possible_values(release: Release) -> tuple[float, ...] | None:
    """Returns the values that the estimates of `unbiased_labels` can take, sorted.

    They follow from the law alone: a few rows may show one of two. None where they are not finitely
    many, or too many to list.
    """
    mechanism, num_classes = release.manifest.class_mechanism(), len(release.classes)
    if isinstance(mechanism, RandomizedResponse):
        other = mechanism.p_flip(num_classes)
        own = 1 - (num_classes - 1) * other
    elif isinstance(mechanism, BitMechanism):
        own, other = mechanism.bit_rates(num_classes)
    elif isinstance(mechanism, AdditiveLaplace) and mechanism.scale == 0:
        own, other = 1.0, 0.0
    else:
        try:
            outputs = mechanism.output_space(num_classes)
        except InputError:
            return None
        found = _estimates(mechanism, outputs, num_classes)
        size = np.abs(found).max()  # what differs less is rounding
        return tuple((np.unique((found / size).round(9)) * size).tolist())
    return -other / (own - other), (1 - other) / (own - other)


def _estimates(mechanism: ClassMechanism, outputs: Tensor, num_classes: int) -> NDArray[np.float64]:
    try:
        return mechanism.unbiased(outputs, num_classes).numpy()
    except InputError:
        law = mechanism.log_likelihood(mechanism.output_space(num_classes), num_classes).exp()
    average = law.mean(1, keepdim=True)
    gram = (law / average).T @ law
    if torch.linalg.matrix_rank(gram) < num_classes:
        raise InputError(
            f"{type(mechanism).__name__} cannot tell some of the classes apart"
        ) from None
    likelihood = mechanism.log_likelihood(outputs, num_classes).exp()
    weights = likelihood / likelihood.mean(1, keepdim=True)
    return (weights @ torch.linalg.inv(gram)).numpy()
