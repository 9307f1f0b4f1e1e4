"""Verdicts of the frozen confirmations: what is compared, and what is not run."""

import math

import pytest

from labeldp_bench.reports.statistics import from_seeds
from scripts.confirmations import (
    PRINTED,
    Hypothesis,
    Runs,
    cifar10_graphs,
    fresh_seeds,
    gaussian_process,
    rare_events,
    verdicts,
)


def made_of(scores, field="accuracy", draws=lambda cell: 3):
    """Returns a stand-in for `Runs.of`: each cell has the score that `scores` gives it."""

    def of(*names):
        runs = Runs.of(*names)
        found = {
            cell.config_hash: {field: scores(cell), "seed": cell.seed, "draws": draws(cell)}
            for cell in runs.cells
        }
        kept = {key: one for key, one in found.items() if one[field] is not None}
        return Runs(kept, runs.cells)

    return of


def test_fresh_seeds_are_ten_of_each_cell_and_no_others(monkeypatch):
    def score(cell):
        return 0.5 + cell.seed / 1000

    monkeypatch.setattr("scripts.confirmations.Runs", type("Made", (), {"of": made_of(score)}))
    found = list(fresh_seeds())
    assert [each.seeds for each in found] == [10] * 4
    assert all(set(each.found.by_seed) == set(range(5, 15)) for each in found)
    means = [each.found.value for each in found]
    assert means == pytest.approx([50.95 - printed for printed in PRINTED.values()])
    assert list(verdicts(found).verdict) == [
        "confirmed",
        "not confirmed",
        "not confirmed",
        "confirmed",
    ]


def test_runs_of_two_samplers_are_not_averaged(monkeypatch):
    # As everywhere else: the newest version counts.
    of = made_of(lambda cell: 0.9 if cell.seed > 6 else 0.1, draws=lambda cell: 2 + (cell.seed > 6))
    monkeypatch.setattr("scripts.confirmations.Runs", type("Made", (), {"of": of}))
    found = list(fresh_seeds())
    assert [each.seeds for each in found] == [8] * 4
    assert found[0].found.value == pytest.approx(90 - PRINTED["mnist", 0.1])


def test_graphs_are_compared_seed_by_seed_with_the_functions_beside_them(monkeypatch):
    def score(cell):
        if cell.choices["model"] == "poisson_learning":
            return None  # not run
        gain = 0.02 + 0.001 * (cell.seed % 2) if cell.choices["model"] == "eigenmaps" else 0
        return 0.4 + cell.seed / 50 + gain

    monkeypatch.setattr("scripts.confirmations.Runs", type("Made", (), {"of": made_of(score)}))
    rows = verdicts(cifar10_graphs())
    assert list(rows.verdict) == ["confirmed", "not run"] * 3
    assert list(rows.difference)[:2] == ["+2.0 ± 0.1", "-"]


def test_tables_are_judged_by_their_log_likelihood(monkeypatch):
    def score(cell):
        gain = 0.03 * (cell.config["learner"]["loss"] == "marginal")
        return gain + 0.001 * (cell.seed % 3) * gain

    made = made_of(score, "normalised_log_likelihood")
    monkeypatch.setattr("scripts.confirmations.Runs", type("Made", (), {"of": made}))
    rows = verdicts(rare_events())
    assert list(rows.verdict) == ["confirmed"] * 10 + ["not confirmed"]
    assert set(rows.seeds) == {10}


def test_hypotheses_that_are_not_run_count_in_the_correction():
    one = Hypothesis("one", from_seeds({0: 1.0, 1: 1.2, 2: 1.1}))
    none = Hypothesis("none", from_seeds({}))
    alone, among = (float(verdicts([one, *others])["p, Holm"][0]) for others in ([], [none] * 4))
    assert among == pytest.approx(5 * alone, rel=0.06) and math.isfinite(among)


def test_the_process_is_compared_on_the_same_releases_and_with_the_aim(monkeypatch):
    def score(cell):
        if cell.dataset_name == "mnist" and cell.choices["model"] == "eigenmaps":
            return None  # not run
        gain = 0.03 + 0.001 * (cell.seed % 2)
        is_ours = cell.choices["model"] == "graph_gaussian_process"
        return 0.4 + cell.seed / 500 + gain * is_ours

    monkeypatch.setattr("scripts.confirmations.Runs", type("Made", (), {"of": made_of(score)}))
    found = list(gaussian_process())
    assert [each.seeds for each in found] == [10, 0, 10, 10]
    # By seed: the seeds themselves differ by more than the gain.
    assert found[0].found.value == pytest.approx(3.05) and found[0].found.half_width < 0.1
    assert found[3].found.value == pytest.approx(40 + 1.9 + 3.05 - 45)
    assert verdicts(found).verdict.iloc[0] == "confirmed"


def test_two_shared_seeds_are_no_hypothesis_that_was_not_run():
    # Welch's difference has no values by seed, and was taken for missing.
    gap = from_seeds({0: 9.0, 1: 9.1}).minus(from_seeds({0: 1.0, 1: 1.2}))
    (row,) = verdicts([Hypothesis("two", gap)]).to_dict("records")
    assert row["difference"].startswith("+8.0 ± ") and row["verdict"] == "confirmed"
    assert row["seeds"] == "Welch"
