"""The file from which an interrupted run or pre-training goes on."""

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from labeldp.support.files import CannotWrite, remove_torn, replacing
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import State
from labeldp_bench.support.device import device_failed

FORMAT = "2"
OF_TRAINING = {"torch", "device", "precision"}
"""Where these differ, training cannot go on; what was released is the same."""
SECONDS_BETWEEN_SAVES = 60.0
"""At least, where no number of epochs is given."""


class Stateful(Protocol):
    """What a checkpoint keeps beside the fits."""

    def state_dict(self) -> State:
        """Returns the state."""

    def load_state_dict(self, state: State) -> None:
        """Takes the state back."""


@dataclass
class Checkpoint:
    """Saves fits after some epochs: those that are finished, and the one under way.

    Args:
        path: of the file; its folder exists.
        belongs_to: what must be the same when it is read, by name: identity, versions, hardware.
        every: epochs from one save to the next; 0: none; None: after an epoch that ends a minute or
            more after the last save.
        parts: what else has state, by name; that of `store` outlives another device or torch.
        is_secret: whether releases have secret noise: no second draw would be alike.
        what: whose fits they are, for messages.
    """

    path: Path
    belongs_to: Mapping[str, str]
    every: int | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    is_secret: bool = False
    what: str = "training"

    def __post_init__(self) -> None:
        self.belongs_to = {**self.belongs_to, "format": FORMAT}
        self.seconds_before = 0.0
        self._saved: list[State] = []
        self._fits: list[State] = []
        self._started = self._last_save = time.perf_counter()
        self._epochs = 0

    def resume(self) -> None:
        """Restores parts and fits from the file, if there is one that belongs to this run.

        Raises:
            InputError: the file is of no use, and what it held would be released a second time; or
                another version of the code wrote it.
        """
        remove_torn(self.path)  # it may hold releases, which nobody would find and delete later
        if not self.path.is_file():
            return
        kept = OF_TRAINING if "store" in self.parts else set()
        try:
            state = _read(self.path)
            found = state["belongs_to"]
            others = {
                name: f"it is of {name} {found.get(name)!r}"
                for name in sorted(self.belongs_to.keys() | found.keys())
                if found.get(name) != self.belongs_to.get(name)
            }
            for name in others.keys() - kept:
                raise ValueError(others[name])
        except Exception as error:  # whatever a torn or foreign file may raise
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            if self.is_secret:
                raise InputError(
                    f"{self.path} cannot be used: {reason}; it held releases with secret noise, "
                    "and others of the same labels cost eps once more, which no record would say "
                    "(delete the file if so be it)"
                ) from None
            say(f"{self.path} cannot be used: {reason}; {self.what} starts afresh")
            self.remove()
            return
        with self.restoring():
            if others:  # the file stays, as it alone holds the releases until the next one
                self.parts["store"].load_state_dict(state["parts"]["store"])
                reason = next(iter(others.values()))
                say(
                    f"{self.path} cannot be used: {reason}; {self.what} starts afresh, from the "
                    "releases that it holds"
                )
                return
            for name, part in self.parts.items():
                part.load_state_dict(state["parts"][name])
            self.seconds_before, self._saved = state["seconds"], state["fits"]
            say(f"  goes on after epoch {int(self._saved[-1]['epoch'])} ({self.path.name})")

    def remove(self) -> None:
        """Deletes the file."""
        self.path.unlink(missing_ok=True)

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
                f"{self.path} does not fit, as if another version wrote it (delete it, and "
                f"{self.what} starts afresh)"
            ) from error

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the state of the fit under way.

        Args:
            state: returns it: `epoch`, `network`, `notes`, and what else the fit needs to go on.
            finished: whether that was the fit's last epoch.
        """
        self._epochs += 1
        if self.every is not None:  # 0: never
            is_due = self.every > 0 and self._epochs % self.every == 0
        else:
            is_due = time.perf_counter() - self._last_save >= SECONDS_BETWEEN_SAVES
        if not is_due and not finished:
            return
        self._fits[-1] = _finished(state()) if finished else state()
        if is_due:
            self._save()
            self._last_save = time.perf_counter()
        if not finished:
            self._fits[-1] = {}  # its tensors are the fit's own, which change in the next epoch

    def _save(self) -> None:
        """Writes the file; the old one stays whole until the new one is complete.

        Where it cannot be written a line says why, and no more: it is needed only after an
        interruption.
        """
        state = {
            "belongs_to": dict(self.belongs_to),
            "seconds": self.seconds_before + time.perf_counter() - self._started,
            "fits": self._fits,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }
        try:
            with replacing(self.path) as partial:
                torch.save(state, partial)
        except (CannotWrite, RuntimeError) as error:
            why = error.reason if isinstance(error, CannotWrite) else str(error).lower()
            why = " ".join(why.split())[:100]
            if "inline_container" in why:  # torch's message about its archive is a page long
                why = "is the disk full?"
            say(f"no checkpoint: cannot write {self.path} ({why}); {self.what} goes on")


def _read(path: Path) -> State:
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
