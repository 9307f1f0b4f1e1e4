"""The account of an open label store: what each label may spend, has spent, and on what."""

from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms.measurement import Trust
from labeldp.support.validate import InputError


class BudgetError(InputError):
    """A release would have cost a label more than its privacy budget; nothing left the store."""


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the account: which mechanism touched how many labels, at what cost each.

    `reason` is given where true labels themselves left the store; `delta` is by how much a
    probability may exceed what eps allows.
    """

    mechanism: str
    trust: Trust
    eps: float
    num_labels: int
    reason: str | None = None
    delta: float = 0.0


class Account:
    """What was spent on each label: releases of one label add up, those of different ones do not.

    Args:
        num_labels: N.
        eps: what each label may spend; 0: nothing.

    Attributes:
        spent: eps of each label so far, float64 (N,).
        deltas: the sum of deltas of each label so far, float64 (N,).
        entries: one line for each release, in order.
    """

    def __init__(self, num_labels: int, eps: float) -> None:
        self.eps = eps
        self.spent = torch.zeros(num_labels, dtype=torch.float64)
        self.deltas = torch.zeros(num_labels, dtype=torch.float64)
        self.entries: list[LedgerEntry] = []

    def check_rows(self, rows: Tensor) -> Tensor:
        """Returns `rows` if they are distinct positions in [0, N), int64 (n,).

        Raises:
            InputError: another type or shape, a position out of range or twice.
        """
        if rows.dim() != 1 or rows.dtype != torch.int64:
            raise InputError(f"rows must be an int64 tensor of shape (n,), got {rows.dtype}")
        last = len(self.spent) - 1
        if len(rows) and (int(rows.min()) < 0 or int(rows.max()) > last):
            raise InputError(f"rows must be in [0, {last}]")
        if len(rows.unique()) != len(rows):
            raise InputError("rows must be distinct: each label is released once")
        return rows

    def check(self, rows: Tensor | slice, eps: float) -> None:
        """Refuses a release that one of `rows` cannot pay; called before anything leaves.

        Raises:
            BudgetError: one of them would have spent more than its eps.
        """
        before = self.spent[rows]
        # The tolerance absorbs the rounding of an eps that was split into parts.
        if len(before) and (before + eps).max() > self.eps * (1 + 1e-12):
            raise BudgetError(
                f"privacy budget exceeded: a label has spent {float(before.max()):g}, "
                f"this release costs {eps:g}, the budget is {self.eps:g} "
                "(release each label once, or split eps over the releases)"
            )

    def book(self, entry: LedgerEntry, rows: Tensor | slice) -> None:
        """Adds a line, and its costs to those of each of the distinct `rows`."""
        self.spent[rows] += entry.eps
        self.deltas[rows] += entry.delta
        self.entries.append(entry)

    @property
    def trust(self) -> Trust:
        """Who saw true labels: the weakest of all lines."""
        weakest_last = list(Trust)
        spent = (entry.trust for entry in self.entries)
        return max(spent, key=weakest_last.index, default=Trust.LOCAL)
