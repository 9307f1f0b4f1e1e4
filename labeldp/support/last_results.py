"""The last results of a costly step, for the next caller with the same arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class LastResults(Generic[Result]):
    """Keeps the last results that were made, each under the arguments it was made from.

    Tensors among the arguments match if they are one object, or have equal dtype, shape and
    values; all other arguments match by ==. So two callers share a result whether they hold the
    same tensor or equal ones, and the comparison of one object with itself costs nothing.

    By default the arguments are kept themselves. That is right for tensors that nobody changes,
    such as a data set's features: keeping them needs no memory, and comparing them no time. A
    tensor that was changed in place would still match itself and bring back the old result. With
    `copy=True` clones are kept, and every call compares all values: right for tensors that a
    caller may change in place, such as a prior.

    Arguments and results stay in memory until newer ones replace them. Callers must not change
    a result.

    Args:
        keep: how many results are kept, >= 1; the oldest goes first.
        copy: whether tensors among the arguments are kept as clones.

    >>> last = LastResults[int](keep=1)
    >>> last.get((torch.tensor([2]), 3), lambda: 6), last.get((torch.tensor([2]), 3), lambda: 0)
    (6, 6)
    """

    def __init__(self, keep: int = 1, copy: bool = False) -> None:
        self._copy = copy
        self._kept: deque[tuple[tuple[object, ...], Result]] = deque(maxlen=keep)

    def get(self, key: tuple[object, ...], make: Callable[[], Result]) -> Result:
        """Returns the result kept under `key`, or else makes it and keeps it.

        Args:
            key: all that the result depends on.
            make: computes the result; what it raises is passed on, and nothing is kept.
        """
        for kept, result in tuple(self._kept):  # another thread may add one
            if len(kept) == len(key) and all(map(_matches, kept, key)):
                return result
        result = make()
        stored = tuple(_clone(part) for part in key) if self._copy else key
        self._kept.append((stored, result))
        return result

    def clear(self) -> None:
        """Forgets all results, so that their memory is free before new ones are made."""
        self._kept.clear()


def _matches(kept: object, asked: object) -> bool:
    if kept is asked:
        return True
    if not isinstance(kept, Tensor) or not isinstance(asked, Tensor):
        # == of a tensor and something else would be a tensor.
        return not isinstance(kept, Tensor) and not isinstance(asked, Tensor) and kept == asked
    is_comparable = kept.dtype == asked.dtype and kept.device == asked.device
    return is_comparable and torch.equal(kept, asked)


def _clone(part: object) -> object:
    return part.clone() if isinstance(part, Tensor) else part
