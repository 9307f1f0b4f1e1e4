"""`minutes=`: which cells of a job are still started."""

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.record import read_record, write_record
from labeldp_bench.reports.estimates import finished_in_time
from labeldp_bench.runs.environment import Environment
from labeldp_bench.support.device import describe_device

CPU = torch.device("cpu")


def cell_of(seed, *more):
    """A network cell of five epochs on data that no committed record has."""
    data = ["dataset=npz", "dataset.name=unheard_of", "dataset.num_classes=3", "mechanism=rr"]
    return compose_cell([*data, "model=cnn", "trainer.epochs=5", f"seed={seed}", *more])


@pytest.fixture
def environment(tmp_path):
    """A folder with one run of a minute on this hardware."""
    cell = cell_of(9)
    (tmp_path / cell.folder).mkdir(parents=True)
    record = {
        "accuracy": 0.5, "config_hash": cell.config_hash, "dataset": "unheard_of", "eps": 1.0,
        "eps_spent": 1.0, "identity": cell.identity, "mechanism": "rr", "seed": 9, "model": "cnn",
        "device": describe_device(CPU), "wall_seconds": 60.0,
    }  # fmt: skip
    write_record(tmp_path / cell.folder, record)
    return Environment(tmp_path, tmp_path, CPU)


def test_cells_are_started_as_long_as_they_fit_and_the_others_are_named(environment, capsys):
    # A batch system would kill the last run, or hours would be left unused.
    cells = [cell_of(seed) for seed in (9, 0, 1, 2)]  # the first one is done
    assert finished_in_time(cells, environment, 130) == cells[1:3]
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"not started: {cells[3].title} (about 60 s, and 10 s are left)"
    assert finished_in_time(cells, environment, -1) == []
    assert capsys.readouterr().out.count("(the time is up)") == 3


def test_a_cell_that_goes_on_needs_its_last_epochs_alone(environment):
    # A run of a day that lacks one epoch would never be finished by jobs of an hour.
    cell = cell_of(0)
    folder = environment.out_dir / cell.folder
    folder.mkdir(parents=True)
    (folder / "history.csv").write_text("epoch\n1\n2\n3\n4\n")
    assert finished_in_time([cell], environment, 15) == []
    (folder / "checkpoint.pt").touch()
    assert finished_in_time([cell], environment, 15) == [cell]


def test_compiling_in_a_first_epoch_is_not_expected_again(environment):
    # On a GPU cells of a minute were left out, as the first of them had taken four.
    (history,) = [path.parent / "history.csv" for path in environment.out_dir.rglob("record.json")]
    history.write_text("epoch,seconds\n1,44\n2,4\n3,4\n4,4\n5,4\n")
    cells = [cell_of(seed) for seed in (0, 1)]
    assert finished_in_time(cells, environment, 50) == cells  # 60 s less the 36 beyond 2 x 4
    history.write_text("epoch\n1\n")
    assert finished_in_time(cells, environment, 70) == cells[:1]


def test_a_cell_of_unknown_length_measures_it(tmp_path):
    # Without any record nothing would ever be started.
    cells = [cell_of(0), cell_of(1)]
    assert finished_in_time(cells, Environment(tmp_path, tmp_path, CPU), 1) == cells


TUNED = "tuning=held_out_releases"
STAGES = "mechanism=lp_2st"


def test_a_tuned_cell_has_a_search_behind_or_before_it(environment, capsys):
    # Before its first epoch it was said to need eight, and outlived its job by far.
    done, cell = cell_of(9, TUNED), cell_of(0, TUNED)
    record = read_record(environment.out_dir / cell_of(9).folder)
    record |= {"config_hash": done.config_hash, "identity": done.identity}
    for each in (done, cell):
        (environment.out_dir / each.folder).mkdir(parents=True)
    write_record(environment.out_dir / done.folder, record)
    folder = environment.out_dir / cell.folder
    # A minute is for 8 + 3 x 8 x 0.8 = 27.2 epochs.
    for epochs, seconds in (("", 60), ("1\n2\n3\n4\n5\n", 6)):
        (folder / "history.csv").write_text("epoch\n" + epochs)
        (folder / "checkpoint.pt").touch()
        assert finished_in_time([cell], environment, seconds - 1) == []
        assert f"(about {seconds + bool(epochs)} s, and" in capsys.readouterr().out
        assert finished_in_time([cell], environment, seconds + 1) == [cell]


@pytest.mark.parametrize(
    "bad",
    [["trainer.epochs=0"], ["trainer.resolution=5"], ["dataset.limit_train=all"],
     [TUNED, "tuning.epochs=a"], [TUNED, "tuning.averages=3"], [STAGES, "learner.fractions=3"]],
    ids=" ".join,
)  # fmt: skip
def test_a_cell_that_cannot_be_built_does_not_stop_the_others(bad, tmp_path):
    # The sweep would end with a traceback, and start not one of its good cells.
    cells = [cell_of(0, *bad), cell_of(1)]
    assert finished_in_time(cells, Environment(tmp_path, tmp_path, CPU), 1) == cells
