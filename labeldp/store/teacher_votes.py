"""Votes of teachers that learn from disjoint parts of the labels."""

from collections.abc import Callable

import torch
from torch import Tensor

from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError

Vote = Callable[[Tensor, Tensor], Tensor]
"""From positions and true labels of one part, int64 (m,) each, to a class for each query, (Q,)."""


def counted(
    vote: Vote, labels: Tensor, parts: Tensor, teachers: int, queries: int, num_classes: int
) -> Tensor:
    """Returns how many teachers vote for each class, float64 (Q, K).

    Args:
        vote: trains a teacher on one part and asks it.
        labels: true, int64 (N,); every label reaches one teacher.
        parts: int64 (N,), the teacher of each label.
        teachers: n.
        queries: Q.
        num_classes: K.

    Raises:
        InputError: a part out of range or empty, or a teacher that does not vote on each query.
    """
    sizes = torch.bincount(parts, minlength=teachers) if int(parts.min()) >= 0 else parts
    if len(sizes) != teachers or int(sizes.min()) < 1:
        raise InputError(
            f"each of {teachers} teachers needs labels of its own, and there are {len(parts)} "
            "labels (take fewer mechanism.teachers)"
        )
    counts = torch.zeros((queries, num_classes), dtype=torch.float64)
    rows = torch.arange(queries)
    own = parts.argsort(stable=True).split(sizes.tolist())
    for indices in progress_bar(own, teachers, "teachers"):
        votes = vote(indices, labels[indices].clone())
        if votes.dtype != torch.int64 or votes.shape != (queries,):
            raise InputError(f"a teacher must vote on {queries} queries, int64 of that many")
        counts[rows, votes] += 1
    return counts


def by_one_teacher(vote: Vote) -> Vote:
    """Returns a vote whose first teacher answers for all: the others are not trained."""
    answers: list[Tensor] = []

    def first(indices: Tensor, labels: Tensor) -> Tensor:
        answers[:] = answers or [vote(indices, labels)]
        return answers[0]

    return first
