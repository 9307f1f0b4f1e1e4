"""Histograms and learners that are broken on purpose, to see which audit notices.

No run can reach them.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labeldp.audit.group_channels import (
    STORE_HISTOGRAM,
    Histogram,
    histogram_scale,
    store_histogram,
)
from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.store import LabelStore


def exact_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns exact counts, which the store books at eps = inf."""
    return store_histogram(labels, num_classes, math.inf, seed)


def narrow_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns counts with 3 % less noise."""
    return store_histogram(labels, num_classes, eps / 0.97, seed)


def narrower_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns counts with noise for one count that moves, not two."""
    return store_histogram(labels, num_classes, 2 * eps, seed)


HISTOGRAMS = {
    "none": STORE_HISTOGRAM,
    "no noise": Histogram(exact_histogram),
    "3 % less noise": Histogram(narrow_histogram),
    "wrong sensitivity": Histogram(narrower_histogram),
    "wrong sensitivity, and says so": Histogram(
        narrower_histogram, scale=lambda eps: histogram_scale(2 * eps)
    ),
}


def asks_every_epoch(store: LabelStore, mechanism: RandomizedResponse) -> Tensor:
    """A learner that asks for fresh noise in every epoch and averages it away."""
    outputs = [store.release(mechanism).outputs for _ in range(3)]
    return torch.stack(outputs).double().mean(0)


def counts_first(store: LabelStore, mechanism: RandomizedResponse) -> Tensor:
    """A learner that takes its prior from exact counts of all labels, before the release."""
    counts = torch.bincount(store.trusted_labels(NoPrivacy(), "prior", torch.arange(len(store))))
    return store.release(mechanism).outputs + counts.argmax()


def asks_once(store: LabelStore, mechanism: RandomizedResponse) -> Tensor:
    """An honest learner."""
    return store.release(mechanism).outputs


LEARNERS: dict[str, Callable[[LabelStore, RandomizedResponse], Tensor]] = {
    "none": asks_once,
    "fresh noise every epoch": asks_every_epoch,
    "a peek before the release": counts_first,
}
