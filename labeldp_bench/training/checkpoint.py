"""The fits of a run that was cut off: what a checkpoint keeps of them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from labeldp_bench.supervision.interfaces import State
from labeldp_bench.support.device import out_of_memory
from labeldp_bench.support.validate import InputError

SECONDS_BETWEEN_SAVES = 60.0
"""At least, where no number of epochs is given."""

DEVICE_ERROR: Any = getattr(torch, "AcceleratorError", ())


class FitStates:
    """The states of a run's fits: those that are finished, and the one under way.

    Args:
        name: of the file, for messages.
        save: writes the states, in the order of the fits.
        every: epochs from one save to the next; None saves after an epoch that ends a minute or
            more after the last save.
    """

    def __init__(self, name: str, save: Callable[[list[State]], None], every: int | None) -> None:
        self._name, self._save, self._every = name, save, every
        self._saved: list[State] = []
        self._fits: list[State] = []
        self._last_save = time.perf_counter()
        self._epochs = 0

    def restore(self, saved: list[State]) -> int:
        """Takes the states that were saved; returns the last epoch of the last fit."""
        self._saved = saved
        return int(saved[-1]["epoch"])

    def next_fit(self) -> State | None:
        """Returns the saved state of the run's next fit, counted from the first; None: new."""
        number = len(self._fits)
        saved = self._saved[number] if number < len(self._saved) else None
        self._fits.append(saved or {})
        return saved

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Holds while something takes up its state; one line says if the state does not fit.

        Raises:
            InputError: the file is whole, but another version of the code wrote it.
        """
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            if out_of_memory(error) or isinstance(error, DEVICE_ERROR):
                raise
            raise InputError(
                f"{self._name} does not fit, as if another version wrote it (delete it, and "
                "training starts afresh)"
            ) from error

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the state of the fit under way.

        Args:
            state: returns it: `epoch`, `network`, and what else the fit needs to go on.
            finished: whether that was the fit's last epoch.
        """
        self._epochs += 1
        now = time.perf_counter()
        if self._every is not None:
            due = self._epochs % self._every == 0
        else:
            due = now - self._last_save >= SECONDS_BETWEEN_SAVES
        if not due and not finished:
            return
        state_now = state()
        if finished:  # a later fit may start from its network, and asks for no more of it
            kept = state_now.keys() & {"epoch", "network", "notes"}
            state_now = {key: _copied(state_now[key]) for key in kept} | {"finished": True}
        self._fits[-1] = state_now
        if due:
            self._save(self._fits)
            self._last_save = time.perf_counter()
        if not finished:
            self._fits[-1] = {}  # the tensors are the fit's own, and it goes on with them


def _copied(value: Any) -> Any:
    """Returns the value with tensors of its own on the CPU."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
