"""The state of a pre-training, from which the same command goes on after an interruption."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeldp.support.progress import say
from labeldp_bench.interfaces import State
from labeldp_bench.training.checkpoint import FitStates, read_state, write_state


@dataclass(frozen=True)
class TrainingState:
    """A file beside the weights, until these are complete.

    Args:
        path: of the file; named by the recipe's hash, so that it belongs to one recipe.
        belongs_to: what must be the same when it is read, by name.
        every: epochs from one save to the next; None: one a minute.
    """

    path: Path
    belongs_to: Mapping[str, str]
    every: int | None = None

    def resumed(self) -> FitStates:
        """Returns where the training leaves its state, with what was left there before."""
        states = FitStates(str(self.path), self._save, self.every)
        if not self.path.is_file():
            return states
        try:
            saved = read_state(self.path)
            for name, value in self.belongs_to.items():
                if saved["belongs_to"].get(name) != value:
                    raise ValueError(f"it is of {name} {saved['belongs_to'].get(name)!r}")
            epoch = states.restore(saved["fits"])
        except Exception as error:  # whatever `read_state` raises
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            say(f"{self.path} cannot be used: {reason}; pre-training starts afresh")
            self.remove()
            return FitStates(str(self.path), self._save, self.every)
        say(f"  goes on after epoch {epoch} ({self.path.name})")
        return states

    def remove(self) -> None:
        """Deletes the file."""
        self.path.unlink(missing_ok=True)

    def _save(self, fits: list[State]) -> None:
        state = {"belongs_to": dict(self.belongs_to), "fits": fits}
        write_state(self.path, state, "pre-training")
