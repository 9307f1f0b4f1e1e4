"""Learners that are broken on purpose, and what two runs with other labels say of a learner."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.store import LabelStore

LABELS, K = 200, 4
Learn = Callable[[LabelStore, RandomizedResponse], Tensor]


@dataclass(frozen=True)
class IgnoresLabels(RandomizedResponse):
    """Randomised response that ignores the labels: every output is uniform."""

    def release(self, labels, num_classes, generator, prior=None):
        return torch.randint(num_classes, labels.shape, generator=generator)


def learner_faults(learn: Learn, eps: float = 1.0) -> list[str]:
    """Returns what a learner does that eps does not cover, a line each.

    It learns twice, from different true labels and a mechanism that ignores labels. What it returns
    must be equal bit for bit: any difference is a look past the release, before it or after. The
    store has an infinite budget, so that a learner which asks again is not stopped but found.

    Args:
        learn: (open store, mechanism) -> all that it learned, such as weights or predictions. It
            must draw its own random numbers from a fixed seed.
        eps: of the mechanism.
    """
    faults, learned = [], []
    for shift in (0, 1):
        labels = (torch.arange(LABELS) ** 2 // 3 + shift) % K
        store = LabelStore(labels, K).open(float("inf"), seed=0, data="audit")
        learned.append(learn(store, IgnoresLabels(eps)))
        if float(store.eps_spent) > eps * (1 + 1e-12) and shift == 0:
            lines = len(store.ledger)
            faults.append(
                f"a label costs eps = {store.eps_spent:g} in {lines} lines of the ledger, "
                f"not {eps:g}"
            )
    if not torch.equal(*learned):
        faults.append("what was learned depends on true labels beyond the release")
    return faults


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
