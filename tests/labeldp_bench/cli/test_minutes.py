"""`minutes=`: a sweep that ends in time and says what is left."""

import pytest

from tests.conftest import TINY_CIRCLE
from tests.shell import quick, records_under

SWEEP = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor", "seed=0,1"]


def test_sweep_without_time_starts_nothing_and_names_what_is_left(tmp_path):
    # A cluster job would be killed in the middle, or its loop would not know to go on.
    outcome = quick([*SWEEP, "minutes=1e-9"], tmp_path)
    assert outcome.returncode == 75
    assert records_under(tmp_path) == []
    last = outcome.stdout.splitlines()[-1]
    assert last.startswith("4 of 4 cells left (the same command goes on): ")
    assert last.count("rr (plain) on circle") == 2 and last.count("rappor (bce) on circle") == 2
    assert outcome.stderr == ""


def test_sweep_with_time_is_as_without(tmp_path):
    # `minutes=` would be part of a run's identity, or a finished sweep would ask for another go.
    outcome = quick([*SWEEP, "minutes=600"], tmp_path)
    assert outcome.returncode == 0
    assert len(records_under(tmp_path)) == 4
    again = quick(SWEEP, tmp_path)
    assert again.lines[1] == "4 cells: 4 done in results/runs, 0 to run in 0 jobs"


def test_failed_cells_are_not_what_is_left(tmp_path):
    # A loop that waits for exit 0 would start a cell that cannot work for ever.
    outcome = quick(["-m", *TINY_CIRCLE, "model.k=20,5000", "minutes=600"], tmp_path)
    assert outcome.returncode == 1
    assert "1 of 2 cells failed" in outcome.stdout


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (["minutes=5"], "minutes is for a sweep (add -m)"),
        (["-m", "minutes=0"], "minutes must be a number > 0, got 0.0"),
        (["-m", "minutes=1,2"], "minutes takes one value in a sweep, got 1,2"),
        (["-m", "minutes=soon"], "minutes must be a number, got 'soon'"),
    ],
)
def test_bad_minutes_are_one_line(line, why, tmp_path):
    # A typo would be read as "no limit".
    outcome = quick([*line, *TINY_CIRCLE], tmp_path)
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines() == [f"error: {why}"]
    assert records_under(tmp_path) == []
