"""Recipes that held-out releases choose."""

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor

from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import (
    Diverged,
    InputError,
    check_integer,
    check_list,
    check_number,
    check_numbers,
)
from labeldp_bench.interfaces import (
    Classifier,
    Epoch,
    FitCheckpoint,
    Model,
    Session,
    State,
    WeightsFor,
)
from labeldp_bench.models.networks import NetworkModel
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


@dataclass(frozen=True)
class HeldOutReleases:
    """The recipe that explains held-out releases best (`tuning=held_out_releases`).

    Each pair of a learning rate and an average trains one network on the other releases, at a
    constant rate. After each epoch it is scored by the mean log-likelihood of the held-out
    releases. The best pair and number of epochs then train a new network on all releases. Releases
    are all that this sees, so it costs no privacy, and no test label chooses anything.

    A later stage of `learner=multi_stage` holds out releases of its own alone. The network before
    has learnt from all earlier ones: weights that go on from it have seen them, and
    `filter_earlier` leaves those that agree with it. A second fit by `learner.retrain=consensus`
    takes the recipe of the first: the releases that it has agree with the first network, and would
    choose whoever repeats that.

    Source: ours.

    Args:
        learning_rates: > 0, to choose from.
        averages: `trainer.average`, to choose from; null in the list: no average.
        epochs: largest number of epochs, >= 1.
        held_out: share of the releases that choose, in (0, 1); of a later stage, of its own.
    """

    learning_rates: Sequence[float]
    averages: Sequence[float | None]
    epochs: int
    held_out: float

    def __post_init__(self) -> None:
        check_numbers("tuning.learning_rates", self.learning_rates, above=0)
        if not check_list("tuning.averages", self.averages, "numbers, or null"):
            raise InputError("tuning.averages must be a list of numbers, or null, got an empty one")
        for average in self.averages:
            if average is not None:
                check_number("tuning.averages", average, low=0, below=1)
        check_integer("tuning.epochs", self.epochs, low=1)
        check_number("tuning.held_out", self.held_out, above=0, below=1)

    def of(self, model: Model) -> "TunedNetwork":
        """Returns the model with a recipe that is chosen again in each fit.

        Raises:
            InputError: the model has no trainer, or one that chooses by validation labels.
        """
        if not isinstance(model, NetworkModel):
            raise InputError(
                "tuning=held_out_releases is for networks that a trainer trains (use model=cnn, "
                "or tuning=none)"
            )
        if model.trainer.selection == "best_validation":  # refused before a label is released
            raise InputError(
                "trainer.selection=best_validation chooses the epoch by true labels, and "
                "tuning=held_out_releases by releases (use trainer.selection=last, or tuning=none)"
            )
        return TunedNetwork(model, self)

    def recipes(self, trainer: Trainer) -> list[Trainer]:
        """Returns the recipes to choose from, each with the largest number of epochs.

        Each has a constant rate and images of full size, so that any epoch may be the last.
        """
        return [
            recipe_of(trainer, rate, average, self.epochs)
            for rate, average in product(self.learning_rates, self.averages)
        ]


def recipe_of(trainer: Trainer, rate: float, average: float | None, epochs: int) -> Trainer:
    """Returns the recipe of a trainer with another rate, average and number of epochs."""
    return replace(
        trainer,
        epochs=epochs,
        optimizer=functools.partial(trainer.optimizer, lr=rate),
        schedule=None,
        average=average,
        resolution=(),
    )


@dataclass(frozen=True)
class TunedNetwork(Model):
    """A network that chooses its recipe before it is fitted.

    Args:
        model: the network, with the recipe that the choices change.
        tuning: what is chosen from, and how.
    """

    model: NetworkModel
    tuning: HeldOutReleases

    @property
    def recipe(self) -> Trainer:
        """The trainer with the largest number of epochs."""
        return replace(self.model.trainer, epochs=self.tuning.epochs)

    def precision_on(self, device: torch.device) -> str:
        """Returns what a fit on `device` computes in."""
        return self.model.precision_on(device)

    def check_images(self, features: Tensor) -> None:
        """Refuses images that the network cannot take."""
        self.model.check_images(features)

    def representation(self, features: Tensor, session: Session) -> Tensor:
        """Returns where each example lies: what the network makes of it before it is trained."""
        return self.model.representation(features, session)

    def pretrained(self, weights_for: WeightsFor) -> "TunedNetwork":
        """Returns the model with a network that starts from the weights returned for it."""
        return replace(self, model=self.model.pretrained(weights_for))

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> Classifier:
        """Returns the network that the chosen recipe trains on all of the supervision.

        Raises:
            InputError: the learner's targets are not made of releases alone.
            Diverged: no recipe had a finite loss, or the chosen one has none on all releases.
        """
        if not supervision.releases:
            raise InputError(
                "tuning=held_out_releases needs targets that are made of releases alone, and this "
                "learner has others (use tuning=none)"
            )
        key = "tuned" if session.stages == 1 else f"tuned_stage_{session.stage + 1}"
        if key not in session.notes:  # else learner.retrain=consensus fits again
            validation_mask = self._validation_mask(supervision, session)
            choice = self._chosen(features, supervision, validation_mask, session)
            session.notes[key] = choice.note() | {"judges": int(validation_mask.sum())}
            session.say(f"  held-out releases choose {choice}")
        note = cast(dict[str, Any], session.notes[key])
        chosen = recipe_of(self.model.trainer, note["lr"], note["average"], note["epochs"])
        network = replace(self.model, trainer=chosen)
        try:
            return network.fit(features, supervision, replace(session, epochs_key="tuning.epochs"))
        except Diverged as error:  # it names a key of the trainer, which would have no effect
            key = "trainer.optimizer.lr"
            raise Diverged(str(error).replace(key, "tuning.learning_rates")) from None

    def _validation_mask(self, supervision: Supervision, session: Session) -> Tensor:
        """Returns which releases choose, bool (n,): a share of the newest."""
        stream = seeding.generator(session.seed, "train", "tuning")
        draws = torch.rand(len(supervision.indices), generator=stream)
        validation_mask = draws < self.tuning.held_out
        newest = len(supervision.releases[-1].indices)
        validation_mask[: len(validation_mask) - newest] = (
            False  # the network before has learnt from these
        )
        if not 0 < validation_mask.sum() < newest:
            raise InputError(
                f"tuning.held_out={self.tuning.held_out:g} leaves one side of {newest} releases "
                "empty (use more examples, a tuning.held_out nearer to 0.5, or tuning=none)"
            )
        return validation_mask

    def _chosen(
        self, features: Tensor, supervision: Supervision, validation_mask: Tensor, session: Session
    ) -> Trial:
        """Returns the recipe and epoch with the largest likelihood of the releases that choose."""
        fitted, held_out = supervision.take(~validation_mask), supervision.take(validation_mask)
        queries, centred_log_likelihood = (
            features[held_out.indices],
            held_out.centred_log_likelihood,
        )
        trials: list[Trial] = []
        recipes = self.tuning.recipes(self.model.trainer)
        for number, recipe in enumerate(recipes, 1):
            trial = Trial(recipe)
            session.say(f"  recipe {number} of {len(recipes)} is tried: {trial.recipe_name}")
            place = TrialCheckpoint.of(session.checkpoint)
            # Nothing in the history: these networks are thrown away.
            alone = replace(
                session,
                seed=seeding.derive(session.seed, "tuning"),
                on_epoch=functools.partial(
                    trial.see, queries=queries, centred_log_likelihood=centred_log_likelihood
                ),
                say=lambda text: None,
                notes=trial.notes,
                checkpoint=place,
            )
            if not trial.restored(place):
                try:
                    replace(self.model, trainer=recipe).fit(features, fitted, alone)
                except Diverged:
                    continue  # a rate that is too large is one that is not chosen
            trials.append(trial)
        if not trials:
            raise Diverged("every one of tuning.learning_rates diverged (give smaller ones)")
        return max(trials, key=lambda each: each.score)
