"""Recipes and experiments: what is written in YAML reaches the objects that train."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.reports.naming import setting_of
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training.augment import Mixup
from labeldp_bench.training.images import pixel_scale
from labeldp_bench.training.trainer import Trainer
from tests.conftest import CHECKOUT
from tests.shell import NPZ
from tests.spelling import expand

CPU = torch.device("cpu")
EXPERIMENTS = CHECKOUT / "configs" / "experiment"
PAPERS = ("vector_approximation", "blockrr")
TABLES = [path for paper in PAPERS for path in sorted((EXPERIMENTS / paper).glob("*.yaml"))]
COUNTS = {
    "blockrr/table3": 3 * 9 * 10,
    "blockrr/table5": 3 * 9 * 10,
    "blockrr/table7": 7 * 6 * 10,
    "vector_approximation/table1a": (1 + 4 * 6) * 5,
    "vector_approximation/table1b": (1 + 4 * 4) * 5,
    "vector_approximation/table2": (1 + 4 + 4 * 4 + 2) * 3,
    "vector_approximation/table3": (1 + 6 + 5 + 5) * 3,
}


def overrides_of(table):
    return expand(read_experiment(table).blocks, {})


def cell(table, **wanted):
    """The one cell of a table, at seed 0, whose overrides hold `wanted`."""
    texts = {f"{key}={value}" for key, value in (wanted | {"seed": 0}).items()}
    found = [overrides for overrides in overrides_of(table) if texts <= {*overrides}]
    assert len(found) == 1, found
    return compose_cell(found[0])


def trainer_of(recipe, *overrides):
    found = compose_cell(["dataset=cifar10", f"trainer={recipe}", *overrides])
    return found.build().model.trainer


@pytest.mark.parametrize("table", COUNTS)
def test_table_has_its_cells_and_each_can_be_built(table):
    # `experiment=` would stop in the middle, or a column of the table would stay empty.
    every = overrides_of(table)
    # A cell with another loss is a row of ours, below those of the paper.
    of_the_paper = [x for x in every if not any(text.startswith("learner.loss=") for text in x)]
    assert len(of_the_paper) == COUNTS[table]
    hashes = Counter()
    for overrides in every:
        if overrides[-1] == "seed=0":
            built = compose_cell(overrides)
            built.build()
            hashes[built.config_hash] += 1
    assert set(hashes.values()) == {1}
    seeds = len({overrides[-1] for overrides in every})
    assert len(hashes) * seeds == len(every)


@pytest.mark.parametrize(
    ("overrides", "setting"),
    [
        ("stages=halves", "halves"),
        ("stages=code_eps2", "code's stages"),
        ("stages=code_eps1 trainer=ghazi_cifar10 trainer.mixup.alpha=[16,8]", "code's recipe"),
        ("stages=code_eps1 learner.warm_start=false", ""),
        ("stages=halves learner.temperature=0.5", ""),
    ],
)
def test_what_is_called_lp_2st_has_a_name_for_each_of_its_settings(overrides, setting):
    # One name stood for three methods, whose numbers do not compare.
    found = compose_cell(["dataset=mnist", "mechanism=lp_2st", *overrides.split()])
    found.build()
    assert setting_of(found.identity) == setting


def test_naming_the_stages_is_no_other_run():
    # Committed records would lose their cells.
    spelled = ["learner.fractions=[0.7,0.3]", "learner.temperature=0.5"]
    spelled += ["learner.filter_earlier=true", "learner.warm_start=true"]
    for named, keys in (("halves", []), ("code_eps2", spelled)):
        one, other = (
            compose_cell(["dataset=mnist", "mechanism=lp_2st", *rest])
            for rest in ([f"stages={named}"], keys)
        )
        assert one.config_hash == other.config_hash


@pytest.mark.parametrize(
    ("eps", "fractions", "temperature", "alphas"),
    [(1, [0.8, 0.2], 0.6, [16, 8]), (2, [0.7, 0.3], 0.5, [8, 8]), (4, [0.6, 0.4], 0.5, [8, 4])],
)
@pytest.mark.parametrize("mechanism", ["lp_2st", "lp_2st_star"])
def test_lp_2st_by_eps(mechanism, eps, fractions, temperature, alphas):
    found = cell("vector_approximation/table2", mechanism=mechanism, eps=eps)
    parts = found.build()
    assert parts.learner.fractions == fractions
    assert parts.learner.temperature == temperature
    assert parts.model.trainer.mixup.alpha == alphas
    assert (parts.pretrain is not None) == (mechanism == "lp_2st_star")


# {eps: (sigma, l)}
BLOCKRR = {
    "table3": {0.6: (1.4, 6), 0.8: (1.2, 5), 1: (1.2, 5), 2: (0.8, 2), 3: (0.78, 0)},
    "table5": {0.6: (1.2, 2), 0.8: (1.2, 6), 1: (1.2, 5), 2: (0.8, 6), 3: (0.8, 0)},
}
BLOCKRR["table3"] |= dict.fromkeys((4, 6, 8), (0.5, 0))
BLOCKRR["table5"] |= {4: (0.5, 0), 6: (0.2, 0), 8: (0.2, 0)}


@pytest.mark.parametrize("table", BLOCKRR)
def test_blockrr_has_sigma_and_l_of_its_appendix(table):
    # Tables 8 and 9: other blocks, other accuracies on the rare classes.
    for eps, (sigma, favoured) in BLOCKRR[table].items():
        parts = cell(f"blockrr/{table}", mechanism="blockrr", eps=eps).build()
        mechanism, trainer = parts.mechanism, parts.model.trainer
        assert (mechanism.eps, mechanism.sigma, mechanism.favoured) == (eps, sigma, favoured)
        epochs = 110 if eps == 0.6 else 160
        assert (trainer.epochs, trainer.schedule.epochs) == (epochs, epochs)
        assert trainer.selection == "mean_last_10"


@pytest.mark.parametrize("mechanism", ["rr", "rrwithprior", "blockrr"])
def test_blockrr_trains_on_the_data_that_the_paper_says(mechanism):
    # RR on all 33,500 images, the others on 99 %.
    learner = cell("blockrr/table3", mechanism=mechanism, eps="inf").build().learner
    assert getattr(learner, "fraction", None) == (None if mechanism == "rr" else 0.01)


def test_every_recipe_builds_a_trainer():
    for path in (CHECKOUT / "configs" / "trainer").glob("*.yaml"):
        assert isinstance(trainer_of(path.stem), Trainer)


def test_decays_of_ghazi_can_be_moved():
    # T4: text and code differ; either must be one override away.
    schedule = trainer_of("ghazi_cifar10", "trainer.schedule.decay_anchor=post_warmup").schedule
    assert schedule(35, 100) == 1
    assert trainer_of("ghazi_cifar10").schedule(35, 100) == pytest.approx(0.1)
    assert trainer_of("ghazi_cifar100").batch_size == 256


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        ("raw", "trainer.pixels must be one of standardised, unit; got 'raw'"),
        ([[0.5]], "two lists, means and standard deviations"),
        ([[0.5], [0]], "trainer.pixels must be a number > 0, got 0"),
    ],
)
def test_wrong_pixels_are_refused_in_one_line(pixels, message):
    with pytest.raises(InputError, match=message) as caught:
        replace(trainer_of("alibi"), pixels=pixels)
    assert "\n" not in str(caught.value)


def test_pixels_of_another_number_of_channels_are_refused():
    grey = torch.zeros(1, 2, 2, 1, dtype=torch.uint8)
    with pytest.raises(InputError, match="each of 1 channels, got 3"):
        pixel_scale([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]], grey, CPU)


def test_each_stage_trains_with_its_own_mixup(tmp_path, tiny_images, monkeypatch):
    # The list would be read, and one number used for both stages.
    alphas = []
    original = Mixup.__call__

    def spy(self, images, generator):
        alphas.append(self.alpha)
        return original(self, images, generator)

    monkeypatch.setattr(Mixup, "__call__", spy)
    recipe = ["augment=[]", "mixup.alpha=[16,8]", "epochs=1", "batch_size=120", "precision=float32"]
    recipe = ["trainer=ghazi_cifar10", *(f"trainer.{text}" for text in recipe)]
    found = compose_cell([*NPZ, "mechanism=lp_2st", *recipe])
    assert run_cells([found], Environment(tmp_path / "runs", tiny_images, torch.device("cpu"))) == 0
    assert alphas == [16, 8, 8]
