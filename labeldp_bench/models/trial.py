"""One recipe that `tuning=held_out_releases` tries: its scores, and its place in a checkpoint."""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import cast

from torch import Tensor

from labeldp.support.validate import Diverged
from labeldp_bench.interfaces import Classifier, Epoch, FitCheckpoint, State
from labeldp_bench.training.trainer import Trainer

TEMPERATURES = tuple(2.0 ** (power / 2) for power in range(-8, 7))
"""From 1/16 to 8. Under some losses scores are odds of releases, under others odds of labels."""


@dataclass
class Trial:
    """A recipe, with the epoch at which it explained the held-out releases best.

    Attributes:
        recipe: with the largest number of epochs.
        notes: what a checkpoint keeps of it.
    """

    recipe: Trainer
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def scores(self) -> list[float]:
        """Mean log-likelihood of the held-out releases after each epoch.

        In nats, less that of releases whose classes are known.
        """
        return cast(list[float], self.notes.setdefault("scores", []))

    def restored(self, checkpoint: "TrialCheckpoint | None") -> bool:
        """Returns whether the fit had finished before an interruption; takes its scores if so."""
        saved = None if checkpoint is None else checkpoint.saved
        if saved is None or not saved.get("finished"):
            return False
        self.notes.update(saved["notes"])
        return True

    def see(
        self,
        epoch: Epoch,
        classifier: Classifier,
        *,
        queries: Tensor,
        centred_log_likelihood: Tensor,
    ) -> None:
        """Scores the classifier after an epoch.

        Raises:
            Diverged: the score is NaN or infinite, as that of weights which the epoch's last step
                made so. A NaN is no smaller than any score, and would be the largest.
        """
        score = explained(classifier.scores(queries), centred_log_likelihood)
        if not math.isfinite(score):
            raise Diverged(f"held-out releases have the score {score} in epoch {epoch.number}")
        self.scores.append(score)

    @property
    def score(self) -> float:
        """The largest score."""
        return max(self.scores)

    @property
    def epoch(self) -> int:
        """The epoch of the largest score, from 1."""
        return 1 + self.scores.index(self.score)

    @property
    def rate(self) -> float:
        """The learning rate."""
        assert isinstance(self.recipe.optimizer, functools.partial)
        return float(self.recipe.optimizer.keywords["lr"])

    def note(self) -> dict[str, float | int | None]:
        """Returns the choice for the record."""
        return {
            "lr": self.rate,
            "average": self.recipe.average,
            "epochs": self.epoch,
            "held_out_log_likelihood": self.score,
        }

    @property
    def recipe_name(self) -> str:
        """What of the recipe was chosen from, but for the epochs."""
        return f"lr={self.rate:g}, average={self.recipe.average}"

    def __str__(self) -> str:
        return f"{self.recipe_name}, {self.epoch} epoch{'s' * (self.epoch > 1)}"


@dataclass(frozen=True)
class TrialCheckpoint:
    """The place of one recipe's fit in the run's checkpoint: once finished, its scores alone.

    Args:
        checkpoint: of the run.
        saved: the state of this fit; None: it is new.
    """

    checkpoint: FitCheckpoint
    saved: State | None

    @classmethod
    def of(cls, checkpoint: FitCheckpoint | None) -> "TrialCheckpoint | None":
        """Returns the place of the run's next fit; None if the run has no checkpoint.

        Raises:
            InputError: the saved fit is none that chooses: an older version left none of these.
        """
        if checkpoint is None:
            return None
        saved = checkpoint.next_fit()
        with checkpoint.restoring():
            if saved is not None and not saved.get("chooses"):
                raise ValueError
        return cls(checkpoint, saved)

    def next_fit(self) -> State | None:
        """Returns the saved state of this fit."""
        return self.saved

    def restoring(self) -> AbstractContextManager[None]:
        """Returns the context in which the fit takes up its saved state."""
        return self.checkpoint.restoring()

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the fit's state, or its scores."""
        own: State = {"chooses": True} | ({"network": {}} if finished else {})
        self.checkpoint.after_epoch(lambda: state() | own, finished=finished)


def explained(scores: Tensor, centred_log_likelihood: Tensor) -> float:
    """Returns the mean log-likelihood of releases under class probabilities softmax(scores / T).

    T is the best of `TEMPERATURES`: one number that the same releases choose. A network that was
    fitted to releases, rather than to the classes behind them, gives probabilities of releases,
    which are flatter.

    Args:
        scores: float (m, K).
        centred_log_likelihood: of each release, float32 (m, K).
    """
    logs = [(scores.double() / temperature).log_softmax(1) for temperature in TEMPERATURES]
    return max(float((log + centred_log_likelihood.double()).logsumexp(1).mean()) for log in logs)
