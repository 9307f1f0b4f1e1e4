"""A circle, rings, releases, a session, a classifier that is a table, a model that remembers."""

import math
from dataclasses import dataclass, field

import torch

from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.interfaces import Session
from labeldp_bench.learners.stages import MultiStage
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.job import run_cells

CPU = torch.device("cpu")
CIRCLE = CircleGaussians(num_classes=4, sigma=0.3, n_train=400, n_test=50, trials=1)
RR_FIRST = RandomizedResponse(eps=1.0)
TWO_STAGES = MultiStage(loss="plain", fractions=[0.5, 0.5], first=RR_FIRST)


def session(seed=0):
    return Session(seed, CPU)


@dataclass(frozen=True)
class FixedClassifier:
    """Predicts the rows of a table; a feature is a row's number."""

    table: torch.Tensor

    def scores(self, features):
        return self.table[features]

    def probabilities(self, features, temperature=1.0):
        return (self.scores(features).double() / temperature).softmax(1)


@dataclass
class Spy:
    """A model that remembers what it was fitted to."""

    model: object
    fits: list = field(default_factory=list)

    def fit(self, features, supervision, session):
        fitted = self.model.fit(features, supervision, session)
        self.fits.append((supervision, session, fitted))
        return fitted


def circle(seed=0, eps=1.0):
    """Features and an open store."""
    bundle = CIRCLE.draw(None, seed)
    return bundle.train_features, bundle.store.open(eps, seed)


def rings(count, seed):
    """Returns points on three rings, float32 (count, 3) around an axis, and which ring."""
    draws = torch.Generator().manual_seed(seed)
    ring = torch.randint(3, (count,), generator=draws)
    angle = 2 * math.pi * torch.rand(count, generator=draws)
    height = (ring - 1).float() + 0.05 * torch.randn(count, generator=draws)
    return torch.stack([angle.cos(), angle.sin(), 1.5 * height], 1), ring


def released(mechanism, labels, loss="plain", classes=3, rows=None, seed=1):
    """Returns what examples released: all of them, or those at `rows`."""
    rows = torch.arange(len(labels)) if rows is None else rows
    outputs = mechanism.release(labels[rows], classes, torch.Generator().manual_seed(seed))
    return Supervision.of([StoredRelease(rows, outputs, mechanism, classes)], loss_named(loss))


def accuracy(fitted, features, labels):
    """Returns the share of features whose largest score is their label's."""
    return float((fitted.scores(features).argmax(1) == labels).double().mean())


def record_of(cell, environment):
    """Runs a cell; returns its record."""
    assert run_cells([cell], environment) == 0
    return read_record(environment.out_dir / cell.folder)
