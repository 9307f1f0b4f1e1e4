"""The ledger of a vault: what each label may spend, what it has spent, and on what."""

from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp_bench.support.validate import InputError


class BudgetError(InputError):
    """A release would have cost a label more than its budget; nothing left the vault."""


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: which mechanism touched how many labels, at what cost each.

    `reason` is given where true labels themselves left the vault.
    """

    mechanism: str
    trust: str
    eps: float
    num_labels: int
    reason: str | None = None


class Ledger:
    """What was spent on each label: releases of one label add up, those of different ones do not.

    Args:
        num_labels: N.
        budget: eps per label; 0: nothing may be spent.
    """

    def __init__(self, num_labels: int, budget: float) -> None:
        self.budget = budget
        self.spent = torch.zeros(num_labels, dtype=torch.float64)
        self.entries: list[LedgerEntry] = []

    def check(self, indices: Tensor | slice, eps: float) -> None:
        """Asks whether each of `indices` may spend `eps` more; called before anything leaves.

        Raises:
            BudgetError: one of them may not.
        """
        after = self.spent[indices] + eps
        # The tolerance absorbs the rounding of a budget that was split into parts.
        if len(after) and after.max() > self.budget * (1 + 1e-12):
            raise BudgetError(
                f"label budget exceeded: a label has spent {float(self.spent[indices].max()):g}, "
                f"this release costs {eps:g}, the budget is {self.budget:g} "
                "(release each label once, or split eps over the releases)"
            )

    def book(
        self, mechanism: str, trust: str, eps: float, indices: Tensor | slice,
        reason: str | None = None,
    ) -> None:  # fmt: skip
        """Adds a line, and `eps` to what each of `indices`, distinct ones, has spent."""
        self.spent[indices] += eps
        count = len(self.spent) if isinstance(indices, slice) else len(indices)
        self.entries.append(LedgerEntry(mechanism, trust, eps, count, reason))

    @property
    def trust(self) -> str:
        """Who saw true labels: the weakest of all lines."""
        order = ("local", "central", "none")
        return max((entry.trust for entry in self.entries), key=order.index, default="local")

    @property
    def worst(self) -> float:
        """What the worst-off label has spent."""
        return float(self.spent.max()) if len(self.spent) else 0.0
