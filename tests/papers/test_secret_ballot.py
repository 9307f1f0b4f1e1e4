"""The table of hidden answers: means in percent, differences seed by seed, corrected after Holm."""

import math

import numpy as np
import pytest
from scipy import stats

from labeldp_bench.records.published import method_of
from papers.reproduce import load_table

SEEDS = 10


def record_of(cell, auc):
    return {
        "mechanism": cell.identity["mechanism"], "seed": cell.config["seed"], "draws": "1",
        "distribution": "1", "accuracy": auc - 0.1, "auc": auc,
    }  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Of loanapp at eps=1, and without privacy: marginal is better in every split by .02."""
    random = np.random.default_rng(0)
    easy, noise = random.normal(0, 0.05, SEEDS), random.normal(0, 0.003, SEEDS)
    table = load_table("tables/secret_ballot")
    records = {}
    for cell in table.experiment.cells():
        eps, seed = cell.identity.get("mechanism.eps"), cell.config["seed"]
        if cell.dataset_name != "loanapp" or eps not in (None, 1):
            continue
        lift = {"rr": 0.0, "rr+marginal": 0.02 + noise[seed], "none": 0.1}.get(method_of(cell))
        if lift is not None:
            records[cell.config_hash] = record_of(cell, 0.7 + easy[seed] + lift)
    assert len(records) == 3 * SEEDS
    return table, table.rows(records)


def test_methods_are_tested_against_plain_rr_seed_by_seed(rows):
    # Welch's test would see nothing: the splits differ by more than the losses.
    _, found = rows
    own = found[(found.dataset == "loanapp") & (found.score == "auc") & (found.n == SEEDS)]
    own = own.set_index("method")
    assert own.difference["rr+marginal"] == pytest.approx(2, abs=0.2)
    assert own.ours["none"] > own.ours["rr+marginal"] > own.ours["rr"]
    noise = np.random.default_rng(0)
    noise.normal(0, 0.05, SEEDS)
    alone = stats.ttest_1samp(0.02 + noise.normal(0, 0.003, SEEDS), 0).pvalue
    # The accuracy here is the AUC less .1: two tests, and each corrected for both.
    assert own.p["rr+marginal"] == pytest.approx(2 * alone)
    assert math.isnan(own.p["rr"]) and math.isnan(own.p["none"])


def test_a_cell_without_a_run_is_empty_and_a_difference_is_marked(rows):
    table, found = rows
    frame = next(
        part for part in table.parts(found) if "loanapp" in str(getattr(part, "columns", ""))
    )
    lines = frame.set_index(frame.columns[0])
    assert lines["AUC, eps=1"]["RR, marginal"].endswith("*")
    assert not lines["AUC, eps=1"]["RR"].endswith("*")
    assert lines["AUC, eps=4"]["RR"] == "-"
    # No privacy has no eps.
    assert lines["AUC, eps=4"]["no privacy"] == lines["AUC, eps=1"]["no privacy"] != "-"
