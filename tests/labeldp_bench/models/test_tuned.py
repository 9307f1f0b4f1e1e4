"""Choosing a recipe by held-out releases: it finds the better one, and sees releases alone."""

import functools
from dataclasses import replace

import pytest
import torch

from labeldp.mechanisms import RandomizedResponse, RandomizedResponseWithPrior, Rappor
from labeldp.store import LabelStore
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.cli.sweep import CHOSEN_BY_TUNING, check_effect
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners.stages import MultiStage, SingleStage, split
from labeldp_bench.models import tuning as trial
from labeldp_bench.models.convolutional import CNN
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.models.tuning import HeldOutReleases, explained
from labeldp_bench.training.schedules import WarmupLinear
from tests.learning import session
from tests.training import images_and_labels, supervision_of, trainer

RANDOM = RandomizedResponse(2.0)
TINY = functools.partial(CNN, kernel_size=3, widths=[4, 4], hidden=8, dropout=0.0)
GRID = HeldOutReleases(learning_rates=[1e-9, 0.03], averages=[0.9], epochs=3, held_out=0.3)
NETWORK = NetworkModel(TINY, trainer())


@pytest.fixture
def fits(monkeypatch):
    """The trainer and the examples of each fit of a network, in order."""
    found, real = [], NetworkModel.fit

    def fit(self, features, supervision, *rest):
        found.append((self.trainer, supervision.indices))
        return real(self, features, supervision, *rest)

    monkeypatch.setattr(NetworkModel, "fit", fit)
    return found


def tune(size=30, mechanism=RANDOM, loss="plain", grid=GRID, model=NETWORK, **changes):
    """Returns the images, the tuned fit to what they released, its notes and what was said."""
    images, labels = images_and_labels(size)
    said: list[str] = []
    here = replace(session(), say=said.append)
    supervision = replace(supervision_of(labels, mechanism, loss), **changes)
    return images, grid.of(model).fit(images, supervision, here), here.notes, said


@pytest.mark.parametrize(("mechanism", "loss"), [(RANDOM, "plain"), (Rappor(2.0), "bce")])
def test_the_rate_that_learns_is_chosen_and_noted(mechanism, loss):
    # One untuned recipe for all methods would decide which of them is the best.
    images, fitted, notes, said = tune(300, mechanism, loss)
    assert "2 of 2" in said[1] and "lr=0.03" in said[1]  # minutes pass in between
    chosen = notes["tuned"]
    assert chosen["lr"] == 0.03 and chosen["average"] == 0.9 and 1 <= chosen["epochs"] <= 3
    # The last fit is that of the chosen recipe on all releases, and of nothing else.
    recipe = replace(GRID.recipes(trainer())[1], epochs=chosen["epochs"])
    supervision = supervision_of(images_and_labels(300)[1], mechanism, loss)
    alone = NetworkModel(TINY, recipe).fit(images, supervision, session())
    assert torch.equal(fitted.scores(images), alone.scores(images))


def test_a_second_fit_to_agreeing_releases_takes_the_recipe_of_the_first(fits):
    # Releases that the first network picked are near certain, and choose whoever repeats it.
    images, labels = images_and_labels(300)
    store, here = LabelStore(labels, 3).open(2.0, seed=5), session()
    learner = SingleStage("plain", retrain="consensus")
    learner.fit(images, store, RANDOM, GRID.of(NETWORK), here)
    recipes = [(trainer.optimizer.keywords, trainer.epochs) for trainer, _ in fits]
    assert len(fits) == 4 and recipes[2] == recipes[3]  # two tried, the last fit, and again
    chosen = here.notes["tuned"]
    assert recipes[3] == ({"lr": chosen["lr"]}, chosen["epochs"]) and here.notes["consensus_share"]


def test_recipes_are_judged_by_releases_that_they_were_not_fitted_to(fits, monkeypatch):
    # Else the longest training that fits the noise best would be chosen.
    judged = []
    monkeypatch.setattr(trial, "explained", lambda *given: judged.append(given) or 0.0)
    tune(300)
    first, second, last = (indices for _, indices in fits)
    held_out = torch.ones(300, dtype=torch.bool).index_fill(0, first, False)
    assert 50 < held_out.sum() < 130 and torch.equal(first, second) and len(last) == 300
    supervision = supervision_of(images_and_labels(300)[1], RANDOM, "plain")
    for scores, centred_log_likelihood in judged:
        assert len(scores) == len(centred_log_likelihood)
        assert torch.equal(centred_log_likelihood, supervision.centred_log_likelihood[held_out])


def test_a_later_stage_is_judged_by_its_own_releases_alone(fits):
    # The first network learnt from all earlier ones: few steps from it would score best.
    images, labels = images_and_labels(300)
    store, here = LabelStore(labels, 3).open(2.0, seed=5), session()
    learner = MultiStage("plain", fractions=[0.6, 0.4], first=RANDOM, warm_start=True)
    learner.fit(images, store, RandomizedResponseWithPrior(2.0), GRID.of(NETWORK), here)
    own = split(300, [0.6, 0.4], here.seed)[1]
    indices = [each for _, each in fits]
    assert len(fits) == 6 and len(indices[5]) == 300  # two recipes and the last fit, twice
    judges = indices[5][~torch.isin(indices[5], indices[3])]
    assert torch.isin(judges, own).all()
    assert here.notes["tuned_stage_2"]["judges"] == len(judges) == pytest.approx(36, abs=15)


def test_what_a_recipe_replaces_is_refused_on_the_command_line():
    # trainer.epochs=20 would be taken, stand in the record, and change nothing.
    own = trainer(schedule=WarmupLinear(), average=0.5, resolution=[[0.5, 0.5]])
    (recipe,) = replace(GRID, learning_rates=[0.5]).recipes(own)
    changed = {key for key in vars(own) if vars(own)[key] != vars(recipe)[key]}
    assert changed == {key.partition(".")[0] for key in CHOSEN_BY_TUNING}
    plain = ["dataset=mnist", "mechanism=rr"]
    tuned_cell, other = compose_cell([*plain, "tuning=held_out_releases"]), compose_cell(plain)
    for key in (*CHOSEN_BY_TUNING, "schedule.warmup"):
        with pytest.raises(InputError, match=rf"trainer\.{key} has no effect"):
            check_effect([f"trainer.{key}"], [tuned_cell])
        check_effect([f"trainer.{key}"], [tuned_cell, other])
    check_effect(["trainer", "trainer.batch_size", "trainer.optimizer.betas"], [tuned_cell])


def test_tuning_changes_neither_clusters_nor_the_images_that_a_network_takes():
    # Counts of clusters were of clusters of pixels, though the weights were pre-trained.
    images, _ = images_and_labels(30)
    begun = TINY(num_classes=3, image_shape=(8, 8, 1)).state_dict()
    weights = {key: value for key, value in begun.items() if not key.startswith("head.3")}
    network = NetworkModel(TINY, trainer(), initial=weights)
    rows = network.representation(images, session())
    assert rows.shape != images.flatten(1).shape
    assert torch.equal(GRID.of(network).representation(images, session()), rows)
    with pytest.raises(InputError, match="image height"):
        GRID.of(network).check_images(images[:, :4])


@pytest.mark.parametrize("rates", [[1e30, 0.03], [0.03, 1e30], [1e30]])
def test_a_rate_whose_last_step_diverged_is_not_chosen(rates):
    # The epoch's loss, of the weights before its only step, is finite. NaN was the largest score.
    grid = replace(GRID, learning_rates=rates, averages=[None], epochs=1)
    model = replace(NETWORK, trainer=trainer(batch_size=100))
    if rates == [1e30]:
        with pytest.raises(Diverged, match=r"tuning\.learning_rates"):
            tune(40, grid=grid, model=model)
        return
    images, fitted, notes, _ = tune(40, grid=grid, model=model)
    assert fitted.scores(images).isfinite().all() and notes["tuned"]["lr"] == 0.03


def test_the_epoch_of_the_largest_score_is_chosen(monkeypatch):
    scores = iter([0.1, 0.3, 0.2, 0.0, 0.0, 0.0])
    monkeypatch.setattr(trial, "explained", lambda *_: next(scores))
    chosen = tune()[2]["tuned"]
    assert (chosen["lr"], chosen["epochs"]) == (1e-9, 2)


def test_scores_are_judged_by_their_order_and_spread_not_by_their_unit():
    # Scores of a network that was fitted to noisy labels are flatter than class probabilities.
    labels = torch.arange(900) % 3
    release = RandomizedResponse(1.0)
    drawn = release.release(labels, 3, torch.Generator().manual_seed(0))
    centred_log_likelihood = release.centred_log_likelihood(drawn, 3)
    right = torch.nn.functional.one_hot(labels, 3).double()
    none, wrong = torch.zeros(900, 3), right.roll(1, 1)
    scores = (right, right / 4, none, wrong)
    values = [explained(each, centred_log_likelihood) for each in scores]
    assert abs(values[0] - values[1]) < 0.01
    assert values[0] > values[2] + 0.05 and values[1] > values[2] + 0.05
    assert values[3] <= values[2] + 0.002
    # Known by hand: uniform probabilities give the mean of a row's likelihoods.
    uniform = centred_log_likelihood.double().exp().mean(1).log().mean().item()
    assert values[2] == pytest.approx(uniform)


@pytest.mark.parametrize(
    ("model", "changes", "named"),
    [
        (NearestNeighbours(k=3), {}, "is for networks"),
        (replace(NETWORK, trainer=trainer(selection="best_validation")), {}, r"trainer\.selection"),
        (NETWORK, {"held_out": 1e-9}, r"tuning\.held_out=1e-09 .* 30 releases"),
        (NETWORK, {"learning_rates": []}, r"tuning\.learning_rates must be"),
        (NETWORK, {"averages": [1.0]}, r"tuning\.averages must be"),
    ],
)
def test_what_makes_no_sense_is_refused(model, changes, named):
    with pytest.raises(InputError, match=named):
        tune(model=model, grid=replace(GRID, **changes))


def test_targets_that_are_not_of_releases_are_refused():
    with pytest.raises(InputError, match="tuning=none"):
        tune(releases=())
    own_targets = ["dataset=mnist", "mechanism=ple", "trainer.selection=last"]
    with pytest.raises(InputError, match="tuning=none"):
        compose_cell([*own_targets, "tuning=held_out_releases"]).build()
    compose_cell(own_targets).build()


def test_a_mean_of_weights_is_the_classifier():
    # The epoch's report and the result must be those of the mean, not of the last weights.
    images, labels = images_and_labels(110)
    supervision = supervision_of(labels, RandomizedResponse(3.0), "plain")
    seen = []
    here = replace(session(), on_epoch=lambda _, each: seen.append(each.scores(images)))
    result, plain, nothing_kept = (
        NetworkModel(TINY, trainer(average=keep)).fit(images, supervision, here).scores(images)
        for keep in (0.9, None, 0.0)
    )
    assert torch.equal(result, seen[1]) and not torch.equal(result, plain)
    assert torch.allclose(nothing_kept, plain, atol=1e-5)
