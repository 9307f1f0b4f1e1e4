"""A run's checkpoint: one file, from which the same command goes on after the run was cut off.

It holds what the run has drawn and learned so far: outputs that left the vault, finished fits, the
fit under way with its random streams, the evaluator's counts. Releases are kept rather than drawn
again, so that a resumed run never draws noise for a label twice, whatever it ran on.
"""

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from labeldp_bench.files import replacing
from labeldp_bench.fit import out_of_memory
from labeldp_bench.progress import say
from labeldp_bench.validate import InputError

NAME = "checkpoint.pt"
FORMAT = "1"
SECONDS = 60.0
"""Between checkpoints, at least, where no number of epochs is given."""

OF_A_DEVICE: Any = getattr(torch, "AcceleratorError", ())
State = dict[str, Any]
"""Tensors, numbers, texts, None, and lists and dicts of them: what is read without executing."""


class Stateful(Protocol):
    """What a checkpoint keeps beside the fits."""

    def state_dict(self) -> State:
        """Returns the state."""

    def load_state_dict(self, state: State) -> None:
        """Takes it back."""


@dataclass
class Checkpoint:
    """Saves a run after an epoch now and then, and gives it back once.

    Args:
        path: of the file; its folder exists.
        belongs_to: what must be the same when it is read, by name: identity, versions, hardware.
        every: epochs from one save to the next; None saves after an epoch that ends a minute or
            more after the last save.
        parts: what else has state, by name.
        share: of the time that passes, which others may share.
    """

    path: Path
    belongs_to: Mapping[str, str]
    every: int | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    share: float = 1.0

    def __post_init__(self) -> None:
        self.belongs_to = {**self.belongs_to, "format": FORMAT}
        self.seconds_before = 0.0
        self._saved_fits: list[State] = []
        self._fits: list[State] = []
        self._started = self._last = time.perf_counter()
        self._epochs = 0

    def resume(self) -> None:
        """Restores the parts from the file, if there is one that belongs to this run."""
        if not self.path.is_file():
            return
        try:
            with zipfile.ZipFile(self.path) as archive:  # torch.load compares no checksums
                if archive.testzip() is not None:
                    raise ValueError("a checksum is wrong")
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            for name, value in self.belongs_to.items():
                if state["belongs_to"].get(name) != value:
                    raise ValueError(f"it is of {name} {state['belongs_to'].get(name)!r}")
        except Exception as error:  # a torn or foreign file may raise anything
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            say(f"{self.path} cannot be used: {reason}; training starts afresh")
            self.path.unlink()
            return
        with self.taking():
            for name, part in self.parts.items():
                part.load_state_dict(state["parts"][name])
            self.seconds_before = state["seconds"]
            self._saved_fits = state["fits"]
            say(f"  goes on after epoch {self._saved_fits[-1]['epoch']} ({self.path.name})")

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Holds while something takes up its state: says so in one line where it does not fit.

        Raises:
            InputError: the file is whole, but of code that kept other things.
        """
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            if out_of_memory(error) or isinstance(error, OF_A_DEVICE):
                raise
            raise InputError(
                f"{self.path} does not fit, as if another version wrote it (delete it, and "
                "training starts afresh)"
            ) from error

    def next_fit(self) -> State | None:
        """Returns the state of the run's next fit, counted from the first; None: not begun."""
        number = len(self._fits)
        saved = self._saved_fits[number] if number < len(self._saved_fits) else None
        self._fits.append(saved or {})
        return saved

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the state of the fit under way.

        Args:
            state: gives it: `epoch`, `network`, and what else the fit needs to go on.
            finished: whether that was the fit's last epoch.
        """
        self._epochs += 1
        now = time.perf_counter()
        if self.every is not None:
            due = self._epochs % self.every == 0
        else:
            due = now - self._last >= SECONDS
        if not due and not finished:
            return
        state_now = state()
        if finished:  # a later fit may start from its network, and asks for no more of it
            kept = state_now.keys() & {"epoch", "network", "notes", "together"}
            state_now = {key: _copied(state_now[key]) for key in kept} | {"finished": True}
        self._fits[-1] = state_now
        if due:
            self._save()
            self._last = time.perf_counter()
        if not finished:
            self._fits[-1] = {}  # the tensors are the fit's own, and it goes on with them

    def remove(self) -> None:
        """Deletes the file."""
        self.path.unlink(missing_ok=True)

    def _save(self) -> None:
        """Writes the state; what is there stays whole until the new one is."""
        state = {
            "belongs_to": dict(self.belongs_to),
            "seconds": self.seconds_before + self.share * (time.perf_counter() - self._started),
            "fits": self._fits,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }
        try:
            with replacing(self.path) as path:
                torch.save(state, path)
        except (OSError, RuntimeError) as error:  # the run itself needs none of it
            why = " ".join(str(getattr(error, "strerror", None) or error).lower().split())[:100]
            if "inline_container" in why:  # torch's words on its archive, a page of them
                why = "is the disk full?"
            say(f"no checkpoint: cannot write {self.path} ({why}); training goes on")


def _copied(value: Any) -> Any:
    """Returns the value with tensors of its own on the CPU."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
