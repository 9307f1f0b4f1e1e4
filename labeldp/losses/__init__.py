"""Losses: what a learner does with a release.

Each says which numbers it needs from a release (`targets`), how a network is fitted to them
(called on logits) and what a voting learner adds up (`votes`). A loss is one file of this folder;
its name is what `learner.loss` takes, and no list elsewhere names it.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache

from labeldp.losses.base import Loss, decode
from labeldp.support.validate import InputError, check_choice

__all__ = ["LOSSES", "Loss", "decode", "loss_named"]

HELPERS = ("base",)
"""Files here that are no loss."""


def loss_named(name: str, key: str = "learner.loss") -> Loss:
    """Returns the loss that `learner.loss` names.

    Args:
        name: of a file of this folder, or `module.Class` of your own.
        key: what the user calls it.

    Raises:
        InputError: there is no such loss.
    """
    if isinstance(name, str) and "." in name:
        module, _, own = name.rpartition(".")
        return _own_loss(module, own)
    return LOSSES[check_choice(key, name, LOSSES)]


class _Losses(Mapping[str, Loss]):
    """The losses of this folder by name; each is imported when it is asked for."""

    def __init__(self) -> None:
        self._names = sorted({m.name for m in pkgutil.iter_modules(__path__)} - {*HELPERS})

    def __getitem__(self, name: str) -> Loss:
        if name not in self._names:
            raise KeyError(name)
        return _loss_in(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


LOSSES: Mapping[str, Loss] = _Losses()


@cache
def _loss_in(name: str) -> Loss:
    """Returns the one loss that a file of this folder defines."""
    module = importlib.import_module(f"{__name__}.{name}")
    kinds = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Loss) and kind.__module__ == module.__name__
    ]
    if len(kinds) != 1:
        raise InputError(
            f"losses/{name}.py must define one class derived from Loss, has "
            f"{len(kinds)}: {', '.join(kind.__name__ for kind in kinds) or 'none'}"
        )
    if vars(kinds[0]).get("name") != name:
        raise InputError(
            f"losses/{name}.py: the class attribute name of {kinds[0].__name__} must "
            f"be {name!r}, as the file's"
        )
    loss: Loss = kinds[0]()
    return loss


@cache
def _own_loss(module: str, name: str) -> Loss:
    """Returns a loss that is defined outside of this package."""
    try:
        kind = vars(importlib.import_module(module)).get(name)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise InputError(
            f"learner.loss={module}.{name}: no module {module} is found (run `python -m "
            f"labeldp_bench` in its folder, or name that in PYTHONPATH)"
        ) from None
    if not (inspect.isclass(kind) and issubclass(kind, Loss)):
        raise InputError(f"learner.loss={module}.{name} must be a class derived from Loss")
    loss: Loss = kind()
    return loss
