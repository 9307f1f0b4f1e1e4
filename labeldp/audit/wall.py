"""Whether a learner learns more of the labels than what was released, and asks for it once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.draws import Noise
from labeldp.store.vault import LabelVault

LABELS, K = 200, 4
Learn = Callable[[LabelVault, RandomizedResponse], Tensor]


@dataclass(frozen=True)
class IgnoresLabels(RandomizedResponse):
    """Randomised response that ignores the labels: every output is uniform. For audits."""

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Tensor | None = None
    ) -> Tensor:
        """Returns uniform labels, int64 (N,), from seeded noise."""
        assert isinstance(generator, torch.Generator)
        return torch.randint(num_classes, labels.shape, generator=generator)


def learner_faults(learn: Learn, eps: float = 1.0) -> list[str]:
    """Returns what a learner does that eps does not cover, a line each.

    It learns twice, from different true labels and a mechanism that ignores labels. What it returns
    must be equal bit for bit: any difference is a look past the release, before it or after. The
    vault has an infinite budget, so that a learner which asks again is not stopped but found.

    Args:
        learn: (open vault, mechanism) -> all that it learned, such as weights or predictions. It
            must draw its own random numbers from a fixed seed.
        eps: of the mechanism.
    """
    faults, learned = [], []
    for shift in (0, 1):
        labels = (torch.arange(LABELS) ** 2 // 3 + shift) % K
        vault = LabelVault(labels, K).open(float("inf"), seed=0, data="audit")
        learned.append(learn(vault, IgnoresLabels(eps)))
        if float(vault.eps_spent) > eps * (1 + 1e-12) and shift == 0:
            lines = len(vault.ledger)
            faults.append(
                f"a label costs eps = {vault.eps_spent:g} in {lines} lines of the ledger, "
                f"not {eps:g}"
            )
    if not torch.equal(*learned):
        faults.append("what was learned depends on true labels beyond the release")
    return faults
