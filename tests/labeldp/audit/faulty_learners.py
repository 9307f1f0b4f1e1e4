"""Histograms and learners that are broken on purpose, to see which audit notices.

No run can reach them.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labeldp.audit.group_channels import (
    VAULT_HISTOGRAM,
    Histogram,
    vault_histogram,
)
from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.store.vault import LabelVault, histogram_scale


def exact_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns exact counts, which the vault books at eps = inf."""
    return vault_histogram(labels, num_classes, math.inf, seed)


def narrow_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns counts with 3 % less noise."""
    return vault_histogram(labels, num_classes, eps / 0.97, seed)


def narrower_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns counts with noise for one count that moves, not two."""
    return vault_histogram(labels, num_classes, 2 * eps, seed)


HISTOGRAMS = {
    "none": VAULT_HISTOGRAM,
    "no noise": Histogram(exact_histogram),
    "3 % less noise": Histogram(narrow_histogram),
    "wrong sensitivity": Histogram(narrower_histogram),
    "wrong sensitivity, and says so": Histogram(
        narrower_histogram, scale=lambda eps: histogram_scale(2 * eps)
    ),
}


def asks_every_epoch(vault: LabelVault, mechanism: RandomizedResponse) -> Tensor:
    """A learner that asks for fresh noise in every epoch and averages it away."""
    outputs = [vault.release(mechanism).outputs for _ in range(3)]
    return torch.stack(outputs).double().mean(0)


def counts_first(vault: LabelVault, mechanism: RandomizedResponse) -> Tensor:
    """A learner that takes its prior from exact counts of all labels, before the release."""
    counts = torch.bincount(vault.trusted_labels(NoPrivacy(), "prior", torch.arange(len(vault))))
    return vault.release(mechanism).outputs + counts.argmax()


def asks_once(vault: LabelVault, mechanism: RandomizedResponse) -> Tensor:
    """An honest learner."""
    return vault.release(mechanism).outputs


LEARNERS: dict[str, Callable[[LabelVault, RandomizedResponse], Tensor]] = {
    "none": asks_once,
    "fresh noise every epoch": asks_every_epoch,
    "a peek before the release": counts_first,
}
