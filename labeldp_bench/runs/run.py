"""The run, as one straight line: data, store, release, train, evaluate, record.

Cells that share data, model and seed run together, trial by trial, so that they draw and search
once; most often there is a single cell. What stands around the line is in `job.py`: locks,
progress, failures, worker processes.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import torch

from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.experiments.identity import SEEDED
from labeldp_bench.interfaces import Model, Session
from labeldp_bench.records.record import CHECKPOINT, write_confusion, write_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.evaluate import Evaluator
from labeldp_bench.runs.result import Outcome, learner_of_unit, record_of, share_of_unit
from labeldp_bench.training.checkpoint import Checkpoint


@dataclass(eq=False)
class Run:
    """One cell while it runs: its objects and what its trials gave."""

    cell: Cell
    folder: Path
    parts: Parts
    outcome: Outcome = field(default_factory=Outcome)
    checkpoint: Checkpoint | None = None


class TrialData:
    """The data of a job's trials; keeps the last, which pre-training and the record need too.

    Args:
        runs: of the job; all have the same data set and seed.
        environment: where files lie.
    """

    def __init__(self, runs: Sequence[Run], environment: Environment) -> None:
        self.dataset, self.environment = runs[0].parts.dataset, environment
        self.run_seed = runs[0].cell.seed
        self.is_secret = any(run.cell.noise != SEEDED for run in runs)
        self._trial = -1

    def seed(self, trial: int) -> int:
        """Returns the seed of a trial, from which data, noise and training have their streams."""
        return seeding.derive(self.run_seed, "trial", trial)

    def of(self, trial: int) -> DataBundle:
        """Returns the data of a trial."""
        if trial != self._trial:
            self.last = self.dataset.draw(self.environment.data_dir, self.seed(trial))
            self._trial = trial
            if self.last.remark and not self.is_secret:
                _say_once(self.last.remark)
        return self.last


@cache
def _say_once(text: str) -> None:
    """Says a line once per process, however often a file is read."""
    say(text, sys.stderr)


def run_trial(runs: Sequence[Run], trial: int, trial_data: TrialData) -> Iterator[Outcome]:
    """Yields what one trial of each run gave; a failure ends its own run alone."""
    seed, environment = trial_data.seed(trial), trial_data.environment
    for run in runs:
        model = run.parts.model
        outcome = Outcome(error=run.outcome.error)
        try:
            if outcome.error is None:
                data = trial_data.of(trial)  # data
                mechanism = share_of_unit(run.parts.mechanism, data.labels_per_unit)
                learner = learner_of_unit(run.parts.learner, data.labels_per_unit)
                store = open_store(run, data, seed)  # store
                store.check_task(mechanism)  # before the learner finds something else to refuse
                evaluator = evaluator_of(run, data, seed, environment.device)
                session = session_of(run, data, store, evaluator, seed, environment)
                classifier = learner.fit(  # release, train
                    data.train_features, store, mechanism, model, session
                )
                outcome = Outcome.of(  # evaluate
                    data, store, evaluator, classifier, session.notes, seed
                )
        except Exception as error:
            outcome = Outcome(error=error)
        yield outcome


def open_store(run: Run, data: DataBundle, seed: int) -> LabelStore:
    """Returns the store of one trial, with the run's eps, whose noise is seeded or secret.

    Raises:
        InputError: secret noise for a scheme that draws from the seed beside the store.
    """
    eps = run.cell.eps / data.labels_per_unit
    opened = partial(data.store.open, eps, again="the runs of one job share a data set")
    if run.cell.noise == SEEDED:
        return opened(seed, run.cell.data_name)
    if isinstance(run.parts.mechanism, LabelEnhancement):
        raise InputError(
            "noise=secret protects nothing here: mechanism=ple guarantees nothing, and draws its "
            "random labels from the seed (leave noise=secret out)"
        )
    return opened(None)


def record(run: Run, data: DataBundle, seconds: float, environment: Environment) -> None:
    """Writes the record of a run whose trials are all done; its presence means done."""
    if run.checkpoint is not None:
        seconds += run.checkpoint.seconds_before
    content = record_of(run.cell, run.parts, run.outcome, data, seconds, environment.device)
    if run.outcome.confusion is not None and data.bayes_accuracy is None:
        write_confusion(run.folder, run.outcome.confusion)
    write_record(run.folder, content)
    if run.checkpoint is not None:
        run.checkpoint.remove()


def share_data_and_model(runs: Sequence[Run], model: Model) -> None:
    """Gives all runs of a job one data set and one model: they share data and searches."""
    for run in runs:
        run.parts = replace(run.parts, dataset=runs[0].parts.dataset, model=model)


def evaluator_of(run: Run, data: DataBundle, seed: int, device: torch.device) -> Evaluator:
    """Returns what scores the run's classifier on test labels; learners never see it."""
    recipe = run.parts.model.recipe
    # Networks are scored after every epoch: their test images stay where the network is.
    features = data.test_features.to(device) if recipe else data.test_features
    return Evaluator(
        features,
        data.test_labels,
        data.num_classes,
        data.extra_tests,
        selection=recipe.selection if recipe else "last",
        seed=seed,
        history=run.folder / "history.csv" if recipe else None,
        say=say,
        probabilities=data.scores_probabilities,
    )


def session_of(
    run: Run,
    data: DataBundle,
    store: LabelStore,
    evaluator: Evaluator,
    seed: int,
    environment: Environment,
) -> Session:
    """Returns what a learner knows of its run; opens a checkpoint for a model with epochs."""
    if run.parts.model.recipe is not None and environment.checkpoint_epochs != 0:
        run.checkpoint = Checkpoint(
            run.folder / CHECKPOINT,
            belongs_to={
                "identity": run.cell.config_hash,
                "data": data.sha256 or "",
                "torch": str(torch.__version__),
                "device": environment.device.type,
                "precision": run.parts.model.precision_on(environment.device),
            },
            every=environment.checkpoint_epochs,
            parts={"store": store, "evaluator": evaluator},
            is_secret=run.cell.noise != SEEDED,
        )
        run.checkpoint.resume()
    return Session(
        seed,
        environment.device,
        on_epoch=evaluator.on_epoch,
        say=say,
        queries=data.test_features,
        notes=dict(run.outcome.notes),
        checkpoint=run.checkpoint,
        captures=environment.captures,
    )
