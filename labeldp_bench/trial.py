"""One trial: release, train, evaluate; of one cell, or of all that share a job."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from labeldp_bench.checkpoint import NAME, Checkpoint
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.evaluate import Evaluator, accuracy_of
from labeldp_bench.exchange import Classifier, Learner, Session
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.outcome import Run
from labeldp_bench.pack import Pack
from labeldp_bench.place import Place
from labeldp_bench.progress import say
from labeldp_bench.risk import empty_tally
from labeldp_bench.vault import LabelVault


@dataclass
class Trial:
    """A trial between its fit and its outcome.

    Attributes:
        run: whose trial it is.
        bundle: its data.
        seed: its own.
        vault: the run's labels, with its ledger.
        evaluator: counts on the test set.
        classifier: what the learner made; in a pack it is trained only after all have begun.
    """

    run: Run
    bundle: DataBundle
    seed: int
    vault: LabelVault
    evaluator: Evaluator
    classifier: Classifier


def begin(
    run: Run, bundle: DataBundle, model: Any, seed: int, place: Place, packed: Any = None
) -> Trial:
    """Releases and fits.

    Args:
        run: the cell while it runs.
        bundle: the data.
        model: what the learner fits.
        seed: of the trial.
        place: folders and device.
        packed: the pack that fits in place of `model`, if there is one.
    """
    mechanism: Mechanism = run.parts["mechanism"]
    learner: Learner = run.parts["learner"]
    vault = bundle.vault.open(budget=mechanism.eps, seed=seed, data=run.cell.data_name)
    vault.check_task(mechanism)  # before the learner finds something else to refuse
    has_epochs = hasattr(model, "trainer")
    # Learners hold one of its methods, so that it gets no way to training labels.
    nothing = LabelVault(torch.empty(0, dtype=torch.int64), max(2, bundle.num_classes))
    evaluator = Evaluator(
        replace(bundle, vault=nothing),
        selection=model.trainer.selection if has_epochs else "last",
        seed=seed,
        history=run.folder / "history.csv" if has_epochs else None,
        say=say,
    )
    session = Session(
        seed, place.device, evaluator.on_epoch, say, queries=bundle.test_features, notes=run.notes
    )
    if has_epochs:
        run.checkpoint = Checkpoint(
            run.folder / NAME,
            belongs_to={
                "identity": run.cell.config_hash,
                "data": bundle.sha256 or "",
                "torch": str(torch.__version__),
                "device": place.device.type,
                "precision": model.resolved_precision(place.device),
            },
            every=place.checkpoint_epochs,
            parts={"vault": vault, "evaluator": evaluator},
            share=run.share,
        )
        run.checkpoint.resume()
        session = replace(session, checkpoint=run.checkpoint)
    classifier = learner.fit(bundle.train_features, vault.door, mechanism, packed or model, session)
    return Trial(run, bundle, seed, vault, evaluator, classifier)


def end(trial: Trial) -> None:
    """Adds the outcome of a fitted trial to its run."""
    run, vault, evaluator, classifier = trial.run, trial.vault, trial.evaluator, trial.classifier
    bundle, seed = trial.bundle, trial.seed
    tally = run.tally or empty_tally(bundle)
    if tally is not None:
        run.tally = tally
        tally.add(classifier, bundle.test_features, seed)
    else:
        confusion = evaluator.finish(classifier)
        run.confusion = run.confusion + confusion
        run.accuracies.append(accuracy_of(confusion))
    run.epochs_averaged = evaluator.epochs_averaged
    run.best_epoch_accuracy = evaluator.best_epoch_accuracy
    run.extra_tests = evaluator.extra_tests(classifier)
    run.ledger, run.trust = [asdict(entry) for entry in vault.ledger], vault.trust
    run.eps_spent = max(run.eps_spent, vault.eps_spent)
    agreement = vault.released_agreement
    if agreement is not None:  # sums of releases agree with nobody
        run.agreements.append(agreement)
    run.train_seconds += evaluator.train_seconds
    run.trained_examples += evaluator.trained_examples


def trial_of_each(
    runs: list[Run], bundle: DataBundle, model: Any, seed: int, place: Place
) -> list[tuple[Run, Exception]]:
    """Runs one trial of every run; returns those that failed, and why."""
    keys = {run.cell.pack_key for run in runs}
    if len(runs) > 1 and len(keys) == 1 and None not in keys:
        return packed_trial(runs, bundle, model, seed, place)
    failed = []
    for run in runs:
        try:
            one_trial(run, bundle, model, seed, place)
        except Exception as error:
            failed.append((run, error))
    return failed


def one_trial(run: Run, bundle: DataBundle, model: Any, seed: int, place: Place) -> None:
    """Releases, trains and evaluates once; adds the outcome to `run`."""
    end(begin(run, bundle, model, seed, place))


def packed_trial(
    runs: list[Run], bundle: DataBundle, model: Any, seed: int, place: Place
) -> list[tuple[Run, Exception]]:
    """Runs one trial of cells that train as one; returns the runs that failed, and why."""
    pack = Pack(model)
    failed, begun = [], []
    for run in runs:
        try:
            run.share = 1 / len(runs)
            begun.append(begin(run, bundle, model, seed, place, pack))
        except Exception as error:
            failed.append((run, error))
    pack.train()
    for trial in begun:
        try:
            member = pack.member_of(trial.classifier)
            if member.error is not None:
                raise member.error
            trial.run.packed = member.together
            end(trial)
        except Exception as error:
            failed.append((trial.run, error))
    return failed
