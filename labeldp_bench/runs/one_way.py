"""Callbacks that a learner may call and cannot look behind."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class OneWay(Generic[P]):
    """Passes a call on and returns nothing; no public name leads to what it calls.

    A bound method would lead to its object by `__self__`, a lambda by `__closure__`: from a learner
    to test labels, or to the vault.

    Args:
        function: what is called.
    """

    __slots__ = ("__function",)

    def __init__(self, function: Callable[P, object]) -> None:
        self.__function = function

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> None:
        """Calls the function."""
        self.__function(*arguments, **named)
