"""Budgets: smaller versions of cells, marked as such and never mixed with the paper's."""

import itertools
import json

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell, key_of
from labeldp_bench.experiments.experiment import cells_of, read_experiment, scaled
from tests.shell import quick, records_under

BLOCKRR = ["dataset=cifar10_1", "trainer=blockrr", "model.network.preactivation=true"]
BLOCKRR += ["mechanism=rr", "eps=0.6", "trainer.epochs=110", "seed=3"]


def small(*overrides, asked=(), budget="quick"):
    return compose_cell(scaled([*overrides, f"budget={budget}"], asked=asked))


def trained(cell, trainer="trainer"):
    """How a network is trained, and which: keys of the trainer and of the network."""
    found = {
        key.removeprefix("pretrain."): value
        for key, value in cell.identity.items()
        if key.startswith((f"{trainer}.", "model"))
    }
    assert "trainer.epochs" in found
    return found


def test_paper_is_no_budget_at_all():
    # Finished cells would be trained again under another name.
    for spelled in (["budget=paper"], ["budget=null"], []):
        assert compose_cell(scaled([*BLOCKRR, *spelled])) == compose_cell(BLOCKRR)
    assert "budget" not in compose_cell(BLOCKRR).identity
    assert compose_cell(["budget=paper"]).config_hash == compose_cell([]).config_hash


@pytest.mark.parametrize("budget", ["card", "quick", "smoke"])
def test_a_smaller_cell_has_another_identity_and_says_so(budget):
    # A quick run would fill a cell of the paper's table.
    for overrides in (BLOCKRR, ["dataset=mnist", "trainer.epochs=1", "seed=0"], []):
        cell = small(*overrides, budget=budget)
        assert cell.identity["budget"] == cell.budget == cell.config["budget"] == budget
        # Even where the budget leaves every value as it is.
        assert cell.config_hash != compose_cell(overrides).config_hash
        assert cell.title.endswith(f"budget {budget}")
    fixed = {key: value for key, value in small().identity.items() if key != "budget"}
    assert fixed == compose_cell(["dataset.trials=50"]).identity


def test_quick_wins_over_an_experiment():
    # 110 epochs of an experiment would stay 110; or its mixup would come into another recipe.
    mixed = [*BLOCKRR[:-1], "trainer.mixup.alpha=4", "seed=2"]
    cell, recipe = small(*mixed), ["dataset=cifar10_1", "trainer=half_hour", "model=resnet18_w16"]
    assert trained(cell) == trained(compose_cell(recipe))
    assert (cell.identity["model"], cell.seed, small(*BLOCKRR).seed) == ("resnet18_w16", 2, 2)
    kept = small("dataset=cifar10", "model=linear", "trainer=blockrr")  # takes images of one size
    assert (kept.identity["trainer.epochs"], kept.identity["trainer.mixup"]) == (4, "Mixup")


def test_quick_shrinks_a_schedule():
    # The rate would never fall.
    trainer = small("dataset=mnist", "trainer=blockrr").build().model.trainer
    assert (trainer.epochs, trainer.schedule.epochs, trainer.selection) == (2, 2, "last")
    assert trainer.schedule(1, 2) < 0.01


def test_at_quick_all_methods_are_trained_alike():
    # What a method loses to another recipe or network would be called the method's.
    cells = read_experiment("vector_approximation/table2").cells("quick")
    assert len({str(trained(cell)) for cell in cells}) == 1
    assert {cell.seed for cell in cells} == {0, 1, 2}
    pretrained = {str(trained(c, "pretrain.trainer")) for c in cells if c.config["pretrain"]}
    assert pretrained == {str(trained(cells[0]))}


def test_the_command_line_wins_over_a_budget():
    # A user could not train a quick cell a little longer, or with another network.
    own = [*BLOCKRR[:-2], "trainer.epochs=7", "model=resnet18", "seed=3"]
    cell = small(*own, asked=["trainer.epochs", "model", "seed"])
    assert (cell.setting("trainer.epochs"), cell.identity["model"], cell.seed) == (7, "resnet18", 3)
    given = ["dataset=mnist", "++trainer.epochs=5", "budget=quick"]
    assert "++trainer.epochs=5" in scaled(given, asked=[key_of(text) for text in given])


def test_a_budget_never_makes_a_cell_larger():
    assert small("dataset.trials=7").setting("dataset.trials") == 7
    cell = small("dataset=mnist", "dataset.limit_train=100", budget="smoke")
    assert (cell.setting("dataset.limit_train"), cell.setting("dataset.limit_test")) == (100, 200)


@pytest.mark.parametrize(
    ("name", "budget"),
    [("blockrr/table3", "card"), ("vector_approximation/table2", "quick"), ("quickstart", "smoke")],
)
def test_every_cell_of_an_experiment_has_one_smaller_version(name, budget):
    # Seeds would be trained again and again, or a cell could not be built.
    experiment = read_experiment(name)
    paper, less = experiment.cells(), experiment.cells(budget)
    seeds = 3 if budget == "quick" else 1
    assert len(less) == len({cell.config_hash for cell in paper if cell.seed < seeds})
    assert not {cell.config_hash for cell in less} & {cell.config_hash for cell in paper}
    for cell in less[:2] + less[-1:]:
        cell.build()


@pytest.mark.parametrize(
    "asked",
    [
        "mechanism=pate_fm",
        "mechanism=pate_fm encoder=resnet18",
        "mechanism=rr learner=fixmatch",
        "mechanism=rr tuning=held_out_releases",
    ],
)
def test_a_smaller_cell_of_photographs_can_be_built(asked):
    # A rule sets what another part of the cell cannot take, and the user never gave the key.
    cell = small("dataset=cifar10", *asked.split())
    assert cell.build().model.recipe.epochs <= 16
    assert cell.choices["model"] == "resnet18_w16"


def test_budgets_on_the_command_line(tmp_path):
    # One run and a sweep of the same cell would differ, or a user's own value be ignored.
    tiny = ["dataset.n_test=100", "model.k=20", "dataset.num_classes=4", "mechanism=rr"]
    one = quick([*tiny, "budget=smoke"], tmp_path)
    assert one.returncode == 0, one.lines
    [path] = records_under(tmp_path)
    record = json.loads(path.read_text())
    assert record["budget"] == record["identity"]["budget"] == "smoke"
    assert (record["trials"], record["n_train"], record["n_test"]) == (2, 1000, 100)
    again = quick(["-m", *tiny, "budget=smoke", "seed=0"], tmp_path)
    assert again.lines[1].startswith("1 cell: 1 done")
    sweep = ["experiment=quickstart", "budget=smoke", "dataset.num_classes=3", "model.k=20"]
    outcome = quick([*sweep, "mechanism=rr", "out_dir=sweep"], tmp_path)
    assert outcome.returncode == 0 and outcome.lines[1].startswith("1 cell: 0 done")
    assert list((tmp_path / "sweep" / "sweeps").glob("quickstart_smoke-*.md"))


CIFAR_TABLES = ("vector_approximation/table2", "vector_approximation/table3", "blockrr/table5")


@pytest.mark.parametrize("name", CIFAR_TABLES)
def test_features_changes_the_network_and_nothing_else(name):
    # An order between mechanisms would be of other mechanisms, data or losses than the paper's.
    experiment = read_experiment(name)
    kept = ("dataset", "mechanism", "learner")

    def recipes(cells):
        return {
            json.dumps({k: v for k, v in cell.identity.items() if k.startswith(kept)})
            for cell in cells
        }

    cells = experiment.cells("features")
    assert recipes(cells) == recipes(experiment.cells())
    assert len(cells) == 5 * len(recipes(cells)) and {cell.seed for cell in cells} == set(range(5))
    # A loss that is not convex needs more iterations to the minimum of the same model.
    models = [json.loads(cell.model_name) for cell in cells]
    longer = [model.pop("model.iterations") > 10 for model in models]
    losses = [cell.identity["learner.loss"] for cell in itertools.compress(cells, longer)]
    assert set(losses) <= {"marginal"}
    networks = {json.dumps(model) for model in models}
    assert len(networks) == 1 and '"pretrain": "imagenet"' in networks.pop()
    for cell in cells[:1] + cells[-1:]:
        cell.build()


def test_features_leaves_out_what_it_has_no_version_of():
    # A CNN on MNIST would stand in the line of a linear probe.
    mnist = read_experiment("vector_approximation/table1a").blocks
    assert cells_of(mnist, {"budget": ["features"], "mechanism": ["rr"]}) == []
    cells = read_experiment("ple/figure2").cells("features")
    assert {cell.identity["mechanism"] for cell in cells} == {"none", "lp_2st", "alibi", "ple"}
    # PLE's client and server want epochs, which a probe lacks.
    ple = [cell for cell in cells if cell.identity["mechanism"] == "ple"]
    assert {cell.identity["model"] for cell in ple} == {"head"}
    assert not any(cell.setting("trainer.augment") for cell in ple)
    with pytest.raises(InputError, match="mnist"):
        small("dataset=mnist", budget="features")


def test_seeds_that_the_user_names_win_over_a_budget():
    axes = {"budget": ["features"], "eps": ["1"], "seed": ["7"]}
    blocks = read_experiment("vector_approximation/table2").blocks
    assert {cell.seed for cell in cells_of(blocks, axes)} == {7}
