"""Answers of people who randomised themselves: any table of chances, given by its numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism
from labeldp.mechanisms.noise import Noise, Prior, draw_columns, group_counts
from labeldp.support.validate import InputError, check_labels

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AnswerTable(ClassMechanism):
    """Gives one of M answers to each of K labels, with the chances of a table.

    eps-label-DP under label replacement, tight: eps is the largest log ratio within a column, and
    infinite where an answer rules out a class. It must be the table's own, so that no file can
    claim less.

    What it releases are numbers of answers, int64 (N,), not of classes.

    Attributes:
        eps: of the table; `epsilon_of` says it.
        table: chance of each answer, K rows of M numbers; a row for each class.
        answers: M names.

    >>> AnswerTable(math.log(3), ((0.75, 0.25), (0.25, 0.75)), ("a", "b")).eps == math.log(3)
    True
    """

    table: tuple[tuple[float, ...], ...]
    answers: tuple[str | int | float | bool, ...]

    outputs_are_classes: ClassVar[bool] = False
    identity_at_inf: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        chances = checked_table(self.table)
        object.__setattr__(self, "table", tuple(map(tuple, chances.tolist())))
        object.__setattr__(self, "answers", tuple(self.answers))
        if len(self.answers) != chances.shape[1]:
            raise InputError(
                f"answers must be {chances.shape[1]} names, one for each column of the table, got "
                f"{len(self.answers)}"
            )
        own = epsilon_of(chances)
        if not math.isclose(self.eps, own, rel_tol=1e-9):
            raise InputError(f"eps must be that of the table, {own:g}, got {self.eps:g}")

    def _chances(self, num_classes: int) -> Tensor:
        """Returns the table, float64 (K, M)."""
        if num_classes != len(self.table):
            raise InputError(
                f"the table is of {len(self.table)} classes, and {num_classes} are asked for"
            )
        return torch.tensor(self.table, dtype=torch.float64)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns the number of an answer for each label, int64 (N,)."""
        check_labels(labels, num_classes)
        return draw_columns(self._chances(num_classes), labels, generator)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log of the table's column of each answer, float64 (N, K)."""
        columns = self._chances(num_classes).log().T
        check_labels(released, len(columns))
        return columns[released]

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the numbers of all answers."""
        return torch.arange(self._chances(num_classes).shape[1])

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns how many in each group gave each answer, float64 (G, M)."""
        released = self.release(labels, num_classes, generator)
        return group_counts(released, len(self.answers), groups, num_groups).to(torch.float64)

    def ruled_out(self) -> tuple[str, int] | None:
        """Returns an answer that some class never gives, and that class; None: there is none."""
        for number, row in enumerate(self.table):
            if 0 in row:
                return str(self.answers[row.index(0)]), number
        return None


def checked_table(table: Sequence[Sequence[float]]) -> np.ndarray:
    """Returns the chances of answers, float64 (K, M), if they tell the classes apart.

    Raises:
        InputError: no such numbers; a row does not sum to 1; an answer that nobody gives; classes
            that the answers do not tell apart.
    """
    try:
        chances = np.ma.array(table, dtype=np.float64).filled(np.nan)
    except (TypeError, ValueError):
        chances = np.empty(0)
    if chances.ndim != 2 or min(chances.shape) < 2:
        raise InputError(
            "table must hold the chances of two answers or more, a row for each of two classes or "
            f"more, got {' '.join(repr(table).split())[:60]}"
        )
    if not ((chances >= 0) & (chances <= 1)).all():
        raise InputError("table must hold chances in [0, 1], got others")
    for number in np.flatnonzero(np.abs(chances.sum(1) - 1) > SUM_TOLERANCE)[:1]:
        raise InputError(f"row {number} of table must sum to 1, got {chances[number].sum():.10g}")
    for number in np.flatnonzero(chances.max(0) == 0)[:1]:
        raise InputError(f"column {number} of table is an answer that nobody gives (leave it out)")
    if np.linalg.matrix_rank(chances) < len(chances):
        raise InputError(
            "the answers do not tell the classes apart: the chances under one class are a mixture "
            "of those under the others (such as Warner's design with p=0.5)"
        )
    return chances


def epsilon_of(chances: np.ndarray) -> float:
    """Returns the largest log ratio within a column; infinite where one is 0."""
    low, high = chances.min(0), chances.max(0)
    if (low == 0).any():
        return math.inf
    return float((np.log(high) - np.log(low)).max())
