"""The checkpoint of a run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from labeldp.support.files import remove_torn
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import State
from labeldp_bench.training.checkpoint import FitStates, read_state, write_state

FORMAT = "2"
OF_TRAINING = {"torch", "device", "precision"}
"""Where these differ, training cannot go on; what was released is the same."""


class Stateful(Protocol):
    """What a checkpoint keeps beside the fits."""

    def state_dict(self) -> State:
        """Returns the state."""

    def load_state_dict(self, state: State) -> None:
        """Takes the state back."""


@dataclass
class Checkpoint:
    """Saves a run after some epochs, and restores it once.

    Args:
        path: of the file; its folder exists.
        belongs_to: what must be the same when it is read, by name: identity, versions, hardware.
        every: epochs from one save to the next; None: one a minute.
        parts: what else has state, by name; that of `store` outlives another device or torch.
        is_secret: whether releases have secret noise: no second draw would be alike.
    """

    path: Path
    belongs_to: Mapping[str, str]
    every: int | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    is_secret: bool = False

    def __post_init__(self) -> None:
        self.belongs_to = {**self.belongs_to, "format": FORMAT}
        self.seconds_before = 0.0
        self._started = time.perf_counter()
        self.fits = FitStates(str(self.path), self._save, self.every)

    def resume(self) -> None:
        """Restores the parts from the file, if there is one that belongs to this run.

        Raises:
            InputError: the file is of no use, and what it held would be released a second time.
        """
        remove_torn(self.path)  # it may hold releases, which nobody would find and delete later
        if not self.path.is_file():
            return
        try:
            state = read_state(self.path)
            found = state["belongs_to"]
            others = {
                name: f"it is of {name} {found.get(name)!r}"
                for name in sorted(self.belongs_to.keys() | found.keys())
                if found.get(name) != self.belongs_to.get(name)
            }
            for name in others.keys() - OF_TRAINING:
                raise ValueError(others[name])
        except Exception as error:  # whatever `read_state` raises
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            if self.is_secret:
                raise InputError(
                    f"{self.path} cannot be used: {reason}; it held releases with secret noise, "
                    "and others of the same labels cost eps once more, which no record would say "
                    "(delete the file if so be it)"
                ) from None
            say(f"{self.path} cannot be used: {reason}; training starts afresh")
            self.path.unlink()
            return
        with self.fits.restoring():
            if others:  # the file stays, as it alone holds the releases until the next one
                if "store" in self.parts:
                    self.parts["store"].load_state_dict(state["parts"]["store"])
                reason = next(iter(others.values()))
                say(
                    f"{self.path} cannot be used: {reason}; training starts afresh, from the "
                    "releases that it holds"
                )
                return
            for name, part in self.parts.items():
                part.load_state_dict(state["parts"][name])
            self.seconds_before = state["seconds"]
            epoch = self.fits.restore(state["fits"])
            say(f"  goes on after epoch {epoch} ({self.path.name})")

    def remove(self) -> None:
        """Deletes the file."""
        self.path.unlink(missing_ok=True)

    def _save(self, fits: list[State]) -> None:
        state = {
            "belongs_to": dict(self.belongs_to),
            "seconds": self.seconds_before + time.perf_counter() - self._started,
            "fits": fits,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }
        write_state(self.path, state, "training")
