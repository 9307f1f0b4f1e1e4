"""The first half of a run, in its own process: draws all releases and writes them to a file."""

import contextlib
import sys
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from labeldp.store import LabelStore
from labeldp.supervision import Supervision
from labeldp.support.files import only_one, remove_torn, writable_folder
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.data.images import unlabelled
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.interfaces import Averages, Classifier, Model, Session
from labeldp_bench.runs.environment import Environment, manifest_of
from labeldp_bench.runs.release_io import write_releases
from labeldp_bench.runs.result import learner_of_unit, share_of_unit
from labeldp_bench.runs.run import Run, TrialData, open_store


class Released(Exception):
    """Raised when a learner has its releases and begins to fit: the rest is not needed."""


class StopsAtFit(Model):
    """Stands for a model while its learner asks for releases.

    Args:
        model: gives the groups of learners that release sums over groups.
        pretrained: whether the model of the run starts from pre-trained weights.
    """

    def __init__(self, model: Model, pretrained: bool) -> None:
        self.model, self.starts_pretrained = model, pretrained

    def precision_on(self, device: torch.device) -> str:
        """Returns what the model computes in."""
        return self.model.precision_on(device)

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> Classifier:
        """Raises `Released`."""
        raise Released

    def fit_by(self, *_: object, **__: object) -> NoReturn:
        """Raises `Released`, as `fit`."""
        raise Released

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> Averages:
        """Returns the model's groups."""
        if self.starts_pretrained:
            raise InputError(
                "release_only= cannot group by the features of a pre-trained network (leave "
                "pretrain= or learner=local_averages out)"
            )
        return self.model.averaging(side, num_examples, dimension)


def release_only(cell: Cell, environment: Environment, path: Path) -> None:
    """Draws every release of a cell and writes them to `path`; trains nothing, leaves no record.

    Raises:
        InputError: releases of this cell need a fit first, or hold true labels, or there are
            several trials; no run could take them; or `path` exists.
    """
    if environment.releases is not None:
        raise InputError("release_only draws releases, releases= takes them: give one of the two")
    parts = cell.build()
    mechanism = parts.mechanism
    if not mechanism.private:
        raise InputError(
            f"release_only= would write true labels: mechanism={cell.identity['mechanism']} "
            "guarantees nothing"
        )
    if parts.learner.needs_first:
        raise InputError(
            f"release_only= draws from features and labels alone, and learner="
            f"{cell.identity['learner']} needs {parts.learner.needs_first} first (use a mechanism "
            "that releases single labels in one stage)"
        )
    try:
        unlabelled(parts.dataset)
    except InputError:
        raise InputError(
            "release_only= is for images from a file, as releases= could not take others (tables: "
            "labeldp release)"
        ) from None
    _check_new(path)
    writable_folder(str(path.parent), f"release_only must be in a folder one can write to: {path}")
    waiting = f"waits for another process that releases into {path}"
    with only_one(path, lambda: say(waiting, sys.stderr)):  # two at once would both draw
        _check_new(path)
        for left in remove_torn(path):  # with secret noise a draw of the same labels, not counted
            say(
                f"{left} is removed: it held part of a release that was cut off (if somebody has "
                "seen it, its labels have spent that eps too, which is counted nowhere)",
                sys.stderr,
            )
        _draw(cell, parts, environment, path)


def _check_new(path: Path) -> None:
    if path.exists():
        raise InputError(
            f"release_only={path} exists: a second draw of the same labels would add up (give "
            "another file for other labels, or use this one by releases=)"
        )


def _draw(cell: Cell, parts: Parts, environment: Environment, path: Path) -> None:
    """Draws the releases, writes them to `path`, and says what they cost."""
    mechanism = parts.mechanism
    run = Run(cell, path.parent, parts)
    trial_data = TrialData([run], environment)
    data, seed = trial_data.of(0), trial_data.seed(0)
    mechanism = share_of_unit(mechanism, data.labels_per_unit)
    learner = learner_of_unit(parts.learner, data.labels_per_unit)
    store = open_store(run, data, seed, environment)
    store.check_task(mechanism)
    session = Session(seed, environment.device, say=say, queries=data.test_features)
    model = StopsAtFit(parts.model, bool(cell.config["pretrain"]))
    with contextlib.suppress(Released):
        learner.fit(data.train_features, store, mechanism, model, session)
    write_releases(path, manifest_of(cell, data), store.state_dict())
    _show(path, store, cell)


def _show(path: Path, store: LabelStore, cell: Cell) -> None:
    for entry in store.ledger:
        say(
            f"released        {entry.num_labels:,} labels by {entry.mechanism}, "
            f"eps={entry.eps:g} each, trust: {entry.trust}"
        )
    say(f"eps spent       {store.eps_spent:g} on the worst-off label, {cell.noise} noise")
    say(f"file            {path}")
