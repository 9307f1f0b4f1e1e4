"""Two runs with other true labels and releases that ignore them: all that is learned is equal."""

from dataclasses import dataclass, replace

import pytest
import torch

from labeldp.mechanisms import BlockRR, Rappor
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Learner
from labeldp_bench.learners.stages import MultiStage
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.run import Run, TrialData, run_trial

CPU = torch.device("cpu")
DIAGNOSTICS = {"agreements", "responses", "train_seconds", "confusion"}
SIZE = 300
ONE = torch.arange(SIZE) % 3


@dataclass(frozen=True)
class DeafRappor(Rappor):
    """Releases the same, whatever the labels are."""

    def release(self, labels, num_classes, generator, prior=None):
        return super().release(torch.zeros_like(labels), num_classes, generator, prior)

    def release_groups(self, labels, num_classes, groups, num_groups, generator):
        zeros = torch.zeros_like(labels)
        return super().release_groups(zeros, num_classes, groups, num_groups, generator)


@dataclass(frozen=True)
class DeafBlockRR(BlockRR):
    """The same of a mechanism with a prior."""

    def release(self, labels, num_classes, generator, prior=None):
        return super().release(torch.zeros_like(labels), num_classes, generator, prior)


@dataclass(frozen=True)
class Points:
    """Points around three centres, with labels from outside."""

    labels: torch.Tensor
    images: bool = False
    trials: int = 1

    def draw(self, data_dir, seed):
        features = torch.randn(SIZE, 2, generator=torch.Generator().manual_seed(0))
        features += 3 * torch.nn.functional.one_hot(ONE)[:, :2]
        if self.images:
            features = (features.abs() * 40).byte()[:, :, None, None].expand(-1, -1, 4, 1)
        store = LabelStore(self.labels, 3)
        return DataBundle("points", features, store, features[:60], ONE[:60], 3)


@dataclass(frozen=True)
class Spy(Learner):
    """Learns like the learner that it stands for, and keeps what came out."""

    learner: Learner
    kept: list

    def fit(self, features, store, mechanism, model, session):
        classifier = self.learner.fit(features, store, mechanism, model, session)
        self.kept.append(classifier.scores(features))
        return classifier


@dataclass(frozen=True)
class Peeks(Learner):
    """Reads labels before it asks for a release, and uses them a little."""

    learner: Learner

    def fit(self, features, store, mechanism, model, session):
        labels = store._LabelStore__labels
        features = features + 1e-3 * labels[:, None]
        return self.learner.fit(features, store, mechanism, model, session)


@dataclass(frozen=True)
class CountsAll(Learner):
    """Takes its prior from exact counts of all labels."""

    learner: Learner

    def fit(self, features, store, mechanism, model, session):
        labels = store._LabelStore__labels
        session.notes["prior"] = torch.bincount(labels).tolist()
        return self.learner.fit(features, store, mechanism, model, session)


RECIPES = {
    "single_stage": ["mechanism=rappor", "model=knn", "model.k=20"],
    "consensus": ["mechanism=rappor", "model=knn", "model.k=20", "learner.retrain=consensus"],
    "multi_stage": ["mechanism=lp_2st", "model=knn", "model.k=20", "learner.loss=marginal"],
    "held_out_prior": ["mechanism=blockrr", "model=knn", "model.k=20", "learner.fraction=0.2"],
    "local_averages": ["mechanism=rappor", "model=clusters", "learner=local_averages"],
    "network": ["mechanism=rappor", "model=linear", "trainer.epochs=2"],
}


def learned(recipe, labels, folder, plant=None):
    """What a run of the recipe learns from these labels, and its outcome."""
    cell = compose_cell(["dataset=circle", "dataset.num_classes=3", *RECIPES[recipe], "eps=1"])
    parts, kept = cell.build(), []
    deaf = DeafBlockRR(1.0) if recipe == "held_out_prior" else DeafRappor(1.0)
    learner = parts.learner
    if isinstance(learner, MultiStage):
        learner = replace(learner, first=deaf)
    learner = Spy(plant(learner) if plant else learner, kept)
    parts = replace(
        parts, dataset=Points(labels, recipe == "network"), mechanism=deaf, learner=learner
    )
    folder.mkdir()
    run = Run(cell, folder, parts)
    trial_data = TrialData([run], Environment(folder, folder, CPU))
    [outcome] = run_trial([run], 0, trial_data)
    assert outcome.error is None, outcome.error
    rest = {key: value for key, value in vars(outcome).items() if key not in DIAGNOSTICS}
    history = folder / "history.csv"
    lines = history.read_text().splitlines() if history.is_file() else []
    return kept[0], outcome.confusion, rest, [line.rpartition(",")[0] for line in lines]


def other_labels(recipe):
    """Labels that differ everywhere, but for the part whose histogram is released."""
    other = (ONE + 1 + (torch.arange(SIZE) % 2)) % 3
    if recipe == "held_out_prior":
        seed = seeding.derive(0, "trial", 0)
        order = torch.randperm(SIZE, generator=seeding.generator(seed, "held_out"))
        other[order[:60]] = ONE[order[:60]]
    return other


def equal(one, other):
    return torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2:] == other[2:]


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_learned_depends_on_releases_alone(recipe, tmp_path):
    # Labels that are permuted after the release, as another test has it, miss a peek before it.
    one = learned(recipe, ONE, tmp_path / "a")
    assert equal(one, learned(recipe, other_labels(recipe), tmp_path / "b"))


@pytest.mark.parametrize("plant", [Peeks, CountsAll])
def test_a_peek_before_the_release_is_caught(plant, tmp_path):
    # Or the test above would pass on anything.
    recipe = "single_stage"
    one = learned(recipe, ONE, tmp_path / "a", plant)
    assert not equal(one, learned(recipe, other_labels(recipe) * 0, tmp_path / "b", plant))
