"""Choosing a recipe by held-out releases: it finds the better one, and sees releases alone."""

import functools
from dataclasses import replace

import pytest
import torch

from labeldp.mechanisms import RandomizedResponse, RandomizedResponseWithPrior, Rappor
from labeldp.store import LabelStore
from labeldp.supervision import Supervision
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.cli.sweeper import CHOSEN_BY_TUNING, check_effect
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners import MultiStage, SingleStage
from labeldp_bench.learners.stages import split
from labeldp_bench.models import CNN
from labeldp_bench.models import tuning as trial
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.models.tuning import HeldOutReleases, Trial, explained
from labeldp_bench.training.fit import Fit
from labeldp_bench.training.schedules import WarmupLinear
from tests.learning import session
from tests.training import images_and_labels, supervision_of, trainer

TINY = functools.partial(CNN, kernel_size=3, widths=[4, 4], hidden=8, dropout=0.0)
GRID = HeldOutReleases(learning_rates=[1e-9, 0.03], averages=[0.9], epochs=3, held_out=0.3)
NETWORK = NetworkModel(TINY, trainer())


@pytest.mark.parametrize(
    ("mechanism", "loss"), [(RandomizedResponse(2.0), "plain"), (Rappor(2.0), "bce")]
)
def test_the_rate_that_learns_is_chosen_and_noted(mechanism, loss):
    # One untuned recipe for all methods would decide which of them is the best.
    images, labels = images_and_labels(300)
    supervision = supervision_of(labels, mechanism, loss)
    said: list[str] = []
    here = replace(session(), say=said.append)
    fitted = GRID.of(NETWORK).fit(images, supervision, here)
    assert said[1] == "  recipe 2 of 2 is tried: lr=0.03, average=0.9"  # minutes pass in between
    chosen = here.notes["tuned"]
    assert chosen["lr"] == 0.03 and chosen["average"] == 0.9 and 1 <= chosen["epochs"] <= 3
    # The last fit is that of the chosen recipe on all releases, and of nothing else.
    recipe = replace(GRID.recipes(trainer())[1], epochs=chosen["epochs"])
    alone = NetworkModel(TINY, recipe).fit(images, supervision, session())
    assert torch.equal(fitted.scores(images), alone.scores(images))


def test_a_second_fit_to_agreeing_releases_takes_the_recipe_of_the_first(monkeypatch):
    # Releases that the first network picked are near certain, and choose whoever repeats it.
    images, labels = images_and_labels(300)
    trained, real = [], NetworkModel.fit

    def fit(self, *rest):
        trained.append((self.trainer.optimizer.keywords, self.trainer.epochs))
        return real(self, *rest)

    monkeypatch.setattr(NetworkModel, "fit", fit)
    door, here = LabelStore(labels, 3).open(2.0, seed=5), session()
    learner = SingleStage("plain", retrain="consensus")
    learner.fit(images, door, RandomizedResponse(2.0), GRID.of(NETWORK), here)
    assert len(trained) == 4 and trained[2] == trained[3]  # two tried, the last fit, and again
    chosen = here.notes["tuned"]
    assert trained[3] == ({"lr": chosen["lr"]}, chosen["epochs"]) and here.notes["consensus_share"]


def test_recipes_are_judged_by_releases_that_they_were_not_fitted_to(monkeypatch):
    # Else the longest training that fits the noise best would be chosen.
    images, labels = images_and_labels(300)
    supervision = supervision_of(labels, RandomizedResponse(2.0), "plain")
    fitted, judged, real = [], [], NetworkModel.fit

    def fit(self, features, supervision, *rest):
        fitted.append(supervision.indices)
        return real(self, features, supervision, *rest)

    def see(scores, centred_log_likelihood):
        judged.append((scores, centred_log_likelihood))
        return 0.0

    monkeypatch.setattr(NetworkModel, "fit", fit)
    monkeypatch.setattr(trial, "explained", see)
    GRID.of(NETWORK).fit(images, supervision, session())
    held_out = torch.ones(300, dtype=torch.bool).index_fill(0, fitted[0], False)
    assert 50 < held_out.sum() < 130 and torch.equal(fitted[1], fitted[0]) and len(fitted[2]) == 300
    for scores, centred_log_likelihood in judged:
        assert len(scores) == len(centred_log_likelihood)
        assert torch.equal(centred_log_likelihood, supervision.centred_log_likelihood[held_out])


def test_a_later_stage_is_judged_by_its_own_releases_alone(monkeypatch):
    # The first network learnt from all earlier ones: few steps from it would score best.
    images, labels = images_and_labels(300)
    fitted, real = [], NetworkModel.fit

    def fit(self, features, supervision, *rest):
        fitted.append(supervision.indices)
        return real(self, features, supervision, *rest)

    monkeypatch.setattr(NetworkModel, "fit", fit)
    door, here = LabelStore(labels, 3).open(2.0, seed=5), session()
    learner = MultiStage(
        "plain", fractions=[0.6, 0.4], first=RandomizedResponse(2.0), warm_start=True
    )
    learner.fit(images, door, RandomizedResponseWithPrior(2.0), GRID.of(NETWORK), here)
    own = split(300, [0.6, 0.4], here.seed)[1]
    assert len(fitted) == 6 and len(fitted[5]) == 300  # two recipes and the last fit, twice
    judges = fitted[5][~torch.isin(fitted[5], fitted[3])]
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
        with pytest.raises(InputError, match=f"trainer.{key} has no effect: tuning=held_out_rel"):
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
    with pytest.raises(InputError, match="image height must be >= 8"):
        GRID.of(network).check_images(images[:, :4])


def test_too_few_epochs_are_said_with_the_key_that_changes_them():
    images, labels = images_and_labels(30)
    said: list[str] = []
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    GRID.of(NETWORK).fit(images, supervision, replace(session(), say=said.append))
    assert [line for line in said if "(give tuning.epochs=" in line]
    assert not [line for line in said if "trainer.epochs" in line]


@pytest.mark.parametrize("rates", [[1e30, 0.03], [0.03, 1e30], [1e30]])
def test_a_rate_whose_last_step_diverged_is_not_chosen(rates):
    # The epoch's loss, of the weights before its only step, is finite. NaN was the largest score.
    images, labels = images_and_labels(40)
    supervision = supervision_of(labels, RandomizedResponse(2.0), "plain")
    grid = replace(GRID, learning_rates=rates, averages=[None], epochs=1)
    tuned, here = grid.of(replace(NETWORK, trainer=trainer(batch_size=100))), session()
    if rates == [1e30]:
        with pytest.raises(Diverged, match=r"every one of tuning.learning_rates diverged"):
            tuned.fit(images, supervision, here)
        return
    assert bool(tuned.fit(images, supervision, here).scores(images).isfinite().all())
    assert here.notes["tuned"]["lr"] == 0.03


def test_a_last_fit_that_diverges_names_a_key_that_has_an_effect(monkeypatch):
    images, labels = images_and_labels(40)
    supervision = supervision_of(labels, RandomizedResponse(2.0), "plain")

    def diverge(self, number):
        if len(self.indices) == len(images):
            raise Diverged("the loss became nan (lower trainer.optimizer.lr, or another)")
        return 1.0

    monkeypatch.setattr(Fit, "mean_loss", diverge)
    with pytest.raises(Diverged, match=r"\(lower tuning.learning_rates, or another"):
        GRID.of(NETWORK).fit(images, supervision, session())


def test_the_epoch_of_the_largest_score_is_chosen():
    assert Trial(trainer(), {"scores": [0.1, 0.3, 0.2]}).epoch == 2
    recipe = GRID.recipes(trainer())[1]
    assert str(Trial(recipe, {"scores": [0.1]})) == "lr=0.03, average=0.9, 1 epoch"


def test_scores_are_judged_by_their_order_and_spread_not_by_their_unit():
    # Scores of a network that was fitted to noisy labels are flatter than class probabilities.
    labels = torch.arange(900) % 3
    release = RandomizedResponse(1.0)
    drawn = release.release(labels, 3, torch.Generator().manual_seed(0))
    centred_log_likelihood = release.centred_log_likelihood(drawn, 3)
    right = torch.nn.functional.one_hot(labels, 3).double()
    none, wrong = torch.zeros(900, 3), right.roll(1, 1)
    values = [
        explained(scores, centred_log_likelihood) for scores in (right, right / 4, none, wrong)
    ]
    assert abs(values[0] - values[1]) < 0.01
    assert values[0] > values[2] + 0.05 and values[1] > values[2] + 0.05
    assert values[3] <= values[2] + 0.002
    # Known by hand: uniform probabilities give the mean of a row's likelihoods.
    assert values[2] == pytest.approx(
        centred_log_likelihood.double().exp().mean(1).log().mean().item()
    )


def test_releases_follow_the_examples_that_are_taken():
    _, labels = images_and_labels(40)
    one, other = (supervision_of(labels, RandomizedResponse(eps), "plain") for eps in (1.0, 3.0))
    second = replace(other.releases[0], indices=torch.arange(40, 80))
    both = Supervision.of([one.releases[0], second], one.loss)
    kept = torch.arange(80) % 3 == 0
    assert torch.equal(both.take(kept).centred_log_likelihood, both.centred_log_likelihood[kept])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (NearestNeighbours(k=3), {}, "is for networks that a trainer trains"),
        (
            replace(NETWORK, trainer=trainer(selection="best_validation")),
            {},
            r"trainer\.selection=best_validation chooses the epoch by true labels",
        ),
        (NETWORK, {"held_out": 1e-9}, "leaves one side of 30 releases empty"),
        (NETWORK, {"learning_rates": []}, "tuning.learning_rates must be a list of numbers"),
        (NETWORK, {"averages": [1.0]}, "tuning.averages must be"),
        (NETWORK, {"epochs": 0}, "tuning.epochs must be"),
    ],
)
def test_what_makes_no_sense_is_refused(model, changes, message):
    images, labels = images_and_labels(30)
    with pytest.raises(InputError, match=message):
        tuned = replace(GRID, **changes).of(model)
        tuned.fit(images, supervision_of(labels, RandomizedResponse(1.0), "plain"), session())


def test_label_enhancement_says_that_it_is_not_tuned():
    # It said that model=cnn was needed, which was there.
    mechanism = ["dataset=mnist", "mechanism=ple", "trainer.selection=last"]
    with pytest.raises(InputError, match=r"needs a network .*and tuning=none"):
        compose_cell([*mechanism, "tuning=held_out_releases"]).build()
    compose_cell(mechanism).build()


def test_targets_that_are_not_of_releases_are_refused():
    images, labels = images_and_labels(30)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    with pytest.raises(InputError, match="this learner has others"):
        GRID.of(NETWORK).fit(images, replace(supervision, releases=()), session())


def test_a_mean_of_weights_is_the_classifier_and_survives_an_interruption():
    # The epoch's report and the result must be those of the mean, not of the last weights.
    images, labels = images_and_labels(110)
    supervision = supervision_of(labels, RandomizedResponse(3.0), "plain")
    seen = []
    last = NetworkModel(TINY, trainer(average=0.9))
    reporting = replace(
        session(), on_epoch=lambda epoch, classifier: seen.append(classifier.scores(images))
    )
    result = last.fit(images, supervision, reporting).scores(images)
    assert torch.equal(result, seen[-1])
    plain = NetworkModel(TINY, trainer()).fit(images, supervision, session()).scores(images)
    assert not torch.equal(result, plain)
    nothing_kept = NetworkModel(TINY, trainer(average=0.0)).fit(images, supervision, session())
    assert torch.allclose(nothing_kept.scores(images), plain, atol=1e-5)
