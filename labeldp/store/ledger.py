"""The ledger of a store: what each label may spend, what it has spent, and on what."""

from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.support.validate import InputError


class BudgetError(InputError):
    """A release would have cost a label more than its privacy budget; nothing left the store."""


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: which mechanism touched how many labels, at what cost each.

    `reason` is given where true labels themselves left the store; `delta` is by how much a
    probability may exceed what eps allows.
    """

    mechanism: str
    trust: str
    eps: float
    num_labels: int
    reason: str | None = None
    delta: float = 0.0


class Budget:
    """What was spent on each label: releases of one label add up, those of different ones do not.

    Args:
        num_labels: N.
        eps: what each label may spend; 0: nothing.
    """

    def __init__(self, num_labels: int, eps: float) -> None:
        self.eps = eps
        self.spent = torch.zeros(num_labels, dtype=torch.float64)
        self.deltas = torch.zeros(num_labels, dtype=torch.float64)
        self.entries: list[LedgerEntry] = []

    def check_indices(self, indices: Tensor) -> Tensor:
        """Returns `indices` if they are distinct positions in [0, N), int64 (n,).

        Raises:
            InputError: another type or shape, a position out of range or twice.
        """
        last = len(self.spent) - 1
        if indices.dtype != torch.int64 or indices.dim() != 1:
            raise InputError(
                "indices must be an int64 tensor of shape (n,), got "
                f"{indices.dtype} of shape {tuple(indices.shape)}"
            )
        if indices.numel() and (indices.min() < 0 or indices.max() > last):
            raise InputError(f"indices must be in [0, {last}], got one outside")
        if len(indices.unique()) != len(indices):
            raise InputError("indices must be distinct: a label is released once")
        return indices

    def check(self, indices: Tensor | slice, eps: float) -> None:
        """Refuses a release that a label of `indices` cannot pay; called before anything leaves.

        Raises:
            BudgetError: one of them would have spent more than its eps.
        """
        after = self.spent[indices] + eps
        # The tolerance absorbs the rounding of an eps that was split into parts.
        if len(after) and after.max() > self.eps * (1 + 1e-12):
            raise BudgetError(
                f"privacy budget exceeded: a label has spent {float(self.spent[indices].max()):g}, "
                f"this release costs {eps:g}, the budget is {self.eps:g} "
                "(release each label once, or split eps over the releases)"
            )

    def book(
        self, mechanism: str, trust: str, eps: float, indices: Tensor | slice,
        reason: str | None = None, delta: float = 0.0,
    ) -> None:  # fmt: skip
        """Adds a line to the ledger, and its costs to those of each of the distinct `indices`."""
        self.spent[indices] += eps
        self.deltas[indices] += delta
        num_labels = len(self.spent[indices])
        self.entries.append(LedgerEntry(mechanism, trust, eps, num_labels, reason, delta))

    @property
    def trust(self) -> str:
        """Who saw true labels: the weakest of all lines."""
        order = ("local", "central", "none")
        return max((entry.trust for entry in self.entries), key=order.index, default="local")

    @property
    def worst(self) -> float:
        """What the worst-off label has spent."""
        return float(self.spent.max()) if len(self.spent) else 0.0

    @property
    def worst_delta(self) -> float:
        """The largest sum of deltas that a label has."""
        return float(self.deltas.max()) if len(self.deltas) else 0.0
