"""Verdicts of the frozen confirmations: what is compared, and what is not run."""

import math

import pytest

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.reports.statistics import NOTHING, from_seeds
from papers.site.confirmations import (
    PRINTED,
    cifar10_graphs,
    fresh_seeds,
    gaussian_process,
    kmnist,
    page,
    rare_events,
    verdicts,
)


def made_up(score_of, *names, field="accuracy", draws=lambda cell: 3):
    """Records of the cells of experiments, those for which `score_of` returns a score."""
    cells = [cell for name in names for cell in read_experiment(name).cells()]
    return {
        cell.config_hash: {field: score, "seed": cell.seed, "draws": draws(cell)}
        for cell in cells
        if (score := score_of(cell)) is not None
    }


def words(rows, key="verdict"):
    return [row[key] for row in rows]


def test_fresh_seeds_are_ten_of_each_cell_and_no_others():
    records = made_up(lambda cell: 0.5 + cell.seed / 1000, "confirmation/fresh_seeds")
    found = [apart for _, apart in fresh_seeds(records)]
    assert all(set(each.by_seed) == set(range(5, 15)) for each in found)
    means = [each.value for each in found]
    assert means == pytest.approx([50.95 - printed for printed in PRINTED.values()])
    expected = ["confirmed", "not confirmed", "not confirmed", "confirmed"]
    assert words(verdicts(fresh_seeds(records))) == expected


def test_runs_of_two_samplers_are_not_averaged():
    # As everywhere else: the newest version counts.
    records = made_up(
        lambda cell: 0.9 if cell.seed > 6 else 0.1,
        "confirmation/fresh_seeds",
        draws=lambda cell: 2 + (cell.seed > 6),
    )
    found = [apart for _, apart in fresh_seeds(records)]
    assert [len(each.by_seed) for each in found] == [8] * 4
    assert found[0].value == pytest.approx(90 - PRINTED["mnist", 0.1])


def test_graphs_are_compared_seed_by_seed_with_the_functions_beside_them():
    def score(cell):
        if cell.choices["model"] == "poisson_learning":
            return None  # not run
        gain = 0.02 + 0.001 * (cell.seed % 2) if cell.choices["model"] == "eigenmaps" else 0
        return 0.4 + cell.seed / 50 + gain

    names = ("confirmation/cifar10_graphs", "mechanisms/cifar10_features")
    rows = verdicts(cifar10_graphs(made_up(score, *names)))
    assert words(rows) == ["confirmed", "not run"] * 3
    assert words(rows, "difference")[:2] == ["+2.0 ± 0.1", "-"]


def test_tables_are_judged_by_their_log_likelihood():
    def score(cell):
        gain = 0.03 * (cell.config["learner"]["loss"] == "marginal")
        return gain + 0.001 * (cell.seed % 3) * gain

    field = "normalised_log_likelihood"
    rows = verdicts(rare_events(made_up(score, "confirmation/rare_events", field=field)))
    assert words(rows) == ["confirmed"] * 10 + ["not confirmed"]
    assert set(words(rows, "seeds")) == {"10"}


def test_kmnist_compares_losses_models_and_print():
    def score(cell):
        gain = (0.1 + 0.001 * (cell.seed % 2)) * (cell.config["learner"]["loss"] == "marginal")
        return 0.7 + gain + 0.001 * (cell.seed % 3)

    rows = verdicts(kmnist(made_up(score, "confirmation/kmnist")))
    assert words(rows) == ["confirmed"] * 4 + ["not confirmed"] * 3


def test_hypotheses_that_are_not_run_count_in_the_correction():
    one = ("one", from_seeds({0: 1.0, 1: 1.2, 2: 1.1}))
    made = ([one, *others] for others in ([], [("none", NOTHING)] * 4))
    alone, among = (float(verdicts(iter(each))[0]["p, Holm"]) for each in made)
    assert among == pytest.approx(5 * alone, rel=0.06) and math.isfinite(among)


def test_the_process_is_compared_on_the_same_releases_and_with_the_aim():
    def score(cell):
        if cell.dataset_name == "mnist" and cell.choices["model"] == "eigenmaps":
            return None  # not run
        gain = 0.03 + 0.001 * (cell.seed % 2)
        is_ours = cell.choices["model"] == "graph_gaussian_process"
        return 0.4 + cell.seed / 500 + gain * is_ours

    records = made_up(score, "confirmation/gaussian_process", "confirmation/fresh_seeds")
    found = [apart for _, apart in gaussian_process(records)]
    assert [len(each.by_seed) for each in found] == [10, 0, 10, 10]
    # By seed: the seeds themselves differ by more than the gain.
    assert found[0].value == pytest.approx(3.05) and found[0].half_width < 0.1
    assert found[3].value == pytest.approx(40 + 1.9 + 3.05 - 45)
    assert words(verdicts(gaussian_process(records)))[0] == "confirmed"
    assert "80 cells; 80 are not run" in page(records)


def test_two_shared_seeds_are_no_hypothesis_that_was_not_run():
    # Welch's difference has no values by seed, and was taken for missing.
    gap = from_seeds({0: 9.0, 1: 9.1}).minus(from_seeds({0: 1.0, 1: 1.2}))
    (row,) = verdicts(iter([("two", gap)]))
    assert row["difference"].startswith("+8.0 ± ") and row["verdict"] == "confirmed"
    assert row["seeds"] == "Welch"
