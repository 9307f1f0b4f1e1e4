"""The states of a run's fits, from which an interrupted run goes on, and the files they lie in."""

import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from labeldp.support.files import CannotWrite, replacing
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import State
from labeldp_bench.support.device import device_failed

SECONDS_BETWEEN_SAVES = 60.0
"""At least, where no number of epochs is given."""


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
        saved = self._saved[number] if number < len(self._saved) else {}
        self._fits.append(saved)
        return saved or None  # a fit that diverged left an empty one

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Is the context in which a saved state is restored; makes one line of any error.

        Raises:
            InputError: the state does not fit: another version of the code wrote it.
        """
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # a foreign state may raise anything
            if device_failed(error):
                raise
            raise InputError(
                f"{self._name} does not fit, as if another version wrote it (delete it, and "
                "training starts afresh)"
            ) from error

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the state of the fit under way.

        Args:
            state: returns it: `epoch`, `network`, `notes`, and what else the fit needs to go on.
            finished: whether that was the fit's last epoch.
        """
        self._epochs += 1
        if self._every is not None:  # 0: never
            is_due = self._every > 0 and self._epochs % self._every == 0
        else:
            is_due = time.perf_counter() - self._last_save >= SECONDS_BETWEEN_SAVES
        if not is_due and not finished:
            return
        self._fits[-1] = _finished(state()) if finished else state()
        if is_due:
            self._save(self._fits)
            self._last_save = time.perf_counter()
        if not finished:
            self._fits[-1] = {}  # its tensors are the fit's own, which change in the next epoch


def write_state(path: Path, state: State, what: str) -> None:
    """Writes a state; the old file stays whole until the new one is complete.

    Where it cannot be written a line says why, and no more: `what`, such as the training, needs it
    only after an interruption.
    """
    try:
        with replacing(path) as partial:
            torch.save(state, partial)
    except (CannotWrite, RuntimeError) as error:
        why = error.reason if isinstance(error, CannotWrite) else str(error).lower()
        why = " ".join(why.split())[:100]
        if "inline_container" in why:  # torch's message about its archive is a page long
            why = "is the disk full?"
        say(f"no checkpoint: cannot write {path} ({why}); {what} goes on")


def read_state(path: Path) -> State:
    """Returns what `write_state` wrote; a torn or foreign file may raise anything."""
    with zipfile.ZipFile(path) as archive:  # torch.load compares no checksums
        if archive.testzip() is not None:
            raise ValueError("a checksum is wrong")
    state: State = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _finished(state: State) -> State:
    """Returns what later fits need of a finished one, with tensors of its own on the CPU."""
    network: dict[str, Tensor] = state["network"]
    copies = {name: values.detach().cpu().clone() for name, values in network.items()}
    kept = {key: state[key] for key in ("epoch", "notes", "chooses") if key in state}
    return kept | {"network": copies, "finished": True}
