"""Identity, records and the committed tables."""

import csv
import json
import math
import os
import subprocess
from functools import partial

import pandas as pd
import pytest
import torch

from labeldp.mechanisms.noise import DRAWS
from labeldp.mechanisms.subsets import subset_information
from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import canonical
from labeldp_bench.records.collect import (
    COLUMNS,
    Chosen,
    collect,
    merge_choices,
    merge_diagnoses,
    read_choices,
    read_committed,
    read_diagnoses,
)
from labeldp_bench.records.record import KEYS, git_commit, is_done, read_record, write_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.support.checkout import CHECKOUT
from tests.conftest import TINY_CIRCLE

NETWORK = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "model=cnn"]
NET = " ".join(NETWORK)
SAME = {
    "": (
        "out_dir=elsewhere data_dir=elsewhere device=cpu experiment=quickstart sweep=circle "
        "mechanism=rappor dataset=circle model=knn eps=1 mechanism.eps=1 dataset.sigma=5e-2 "
        "learner.loss=bce learner.retrain=none model.k=200 trainer.epochs=7"  # knn has no trainer
    ),
    "eps=1": "eps=1.0",
    "eps=inf": "eps=1e400",
    "mechanism=none": "eps=3",
    NET: (
        "dataset.limit_train=null trainer.augment=[] trainer.reshuffle=true "
        "trainer.optimizer.lr=1e-3"
    ),
    "mechanism=lp_2st": "learner.warm_start=false learner.temperature=1",
}
"""{overrides of a cell: others, each of which leaves it the same cell}."""
OTHER = {
    "": (
        "eps=1.5 eps=inf seed=1 mechanism=rr learner.loss=marginal learner.retrain=consensus "
        "model.k=100 dataset.num_classes=10 dataset.sigma=2/K dataset.trials=99 "
        "dataset.n_train=9999 dataset.n_test=999"
    ),
    "mechanism=rr": "mechanism=lp_1st",
    "mechanism=unary": "mechanism.keep=0.7",
    "mechanism=subset_selection": "mechanism.size=2 mechanism.rule=variance",
    "mechanism=local_hashing": "mechanism.buckets=2",
    "mechanism=blockrr": "learner.fraction=0.02",
    "mechanism=lp_2st": "learner.fractions=[0.4,0.6] learner.temperature=0.5",
    NET: (
        "dataset.name=other dataset.limit_train=10 dataset.limit_test=10 trainer.epochs=6 "
        "trainer.batch_size=64 trainer.optimizer.lr=0.01 trainer.selection=mean_last_10 "
        "trainer.optimizer._target_=torch.optim.SGD model.network.dropout=0.1 model=linear"
    ),
}
"""The same, each of which makes it another cell."""


def each(overrides):
    return [(base, one) for base, texts in overrides.items() for one in texts.split()]


@pytest.mark.parametrize(("base", "same"), each(SAME))
def test_identity_is_unchanged_by(base, same):
    # A finished cell would be run again after a spelling or a folder has changed.
    cell = compose_cell(base.split())
    assert cell.config_hash == compose_cell([*base.split(), same]).config_hash


@pytest.mark.parametrize(("base", "other"), each(OTHER))
def test_identity_is_changed_by(base, other):
    # A cell of a table would be filled by another cell's record.
    cell = compose_cell(base.split())
    assert cell.config_hash != compose_cell([*base.split(), other]).config_hash


def test_identity_is_canonical_json_and_gives_the_folder():
    # A hash could not be recomputed by a reader, or two cells would share a folder.
    cell = compose_cell(["eps=inf", "seed=3"])
    text = canonical(cell.identity)
    assert list(json.loads(text)) == sorted(cell.identity)
    assert '"mechanism.eps":"inf"' in text
    assert len(cell.config_hash) == 16
    assert str(cell.folder) == f"circle/rappor/knn/eps=inf/seed=3-{cell.config_hash[:8]}"


def run(folder, *overrides: str) -> Cell:
    cell = compose_cell(list(overrides))
    environment = Environment(folder / "runs", folder / "data", torch.device("cpu"))
    assert run_cells([cell], environment) == 0
    return cell


def test_crash_while_writing_leaves_no_record(tmp_path, monkeypatch):
    # Half a record would count as done for ever.
    def crash(*arguments):
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(KeyboardInterrupt):
                write_record(tmp_path, {"eps": 1.0})
        assert not is_done(tmp_path)
    (tmp_path / "error.txt").write_text("an earlier try")
    record = dict.fromkeys(KEYS, 1.0) | {"eps": math.inf}
    write_record(tmp_path, record)
    assert is_done(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert read_record(tmp_path) == record


def test_an_edited_record_is_not_believed(tmp_path):
    # Somebody's number would stand in a table as that of a run.
    record = dict.fromkeys(KEYS, 1.0) | {"notes": {"b": math.inf, "a": [0.1, None], 3: "é"}}
    write_record(tmp_path, record)
    path = tmp_path / "record.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items())), indent=3))  # says the same
    assert read_record(tmp_path)["accuracy"] == 1.0
    path.write_text(json.dumps(content | {"accuracy": 0.99}))
    with pytest.raises(InputError, match=r"record\.json .*checksum"):
        read_record(tmp_path)
    del content["checksum"]  # as in records of older versions
    path.write_text(json.dumps(content))
    assert read_record(tmp_path)["accuracy"] == 1.0


def test_a_record_with_nan_is_refused(tmp_path):
    # NaN is no JSON: other readers would fail on the whole file.
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(tmp_path, {"accuracy": math.nan})
    assert not is_done(tmp_path)


def test_collect_merges_sorts_and_replaces(tmp_path, tiny_images):
    # A diff of the committed tables would be noise, or a cell would stand there twice.
    tables = tmp_path / "results" / "records.csv", tmp_path / "results" / "per_class.csv"
    tiny = [*NETWORK, "trainer.epochs=1", "dataset.limit_train=60"]
    cells = [
        run(tmp_path, *TINY_CIRCLE, "eps=10"),
        run(tmp_path, *TINY_CIRCLE, "eps=2"),
        run(tmp_path, *TINY_CIRCLE, "mechanism=none"),
        run(tmp_path, *tiny, "mechanism=rr", "eps=0.1234567890123"),
    ]
    assert collect(tmp_path / "runs", *tables) == 4
    first = [table.read_bytes() for table in tables]
    assert b"\r" not in first[0]
    with tables[0].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    keys = [(row["dataset"], row["mechanism"], row["eps"]) for row in rows]
    assert keys == [
        ("circle", "none", "inf"), ("circle", "rappor", "2"), ("circle", "rappor", "10"),
        ("tiny", "rr", "0.1234567890123"),
    ]  # fmt: skip
    with tables[1].open() as file:
        classes = list(csv.DictReader(file))
    assert [(row["dataset"], row["class"]) for row in classes] == [
        ("tiny", "0"), ("tiny", "1"), ("tiny", "2")]  # fmt: skip

    assert collect(tmp_path / "runs", *tables) == 4
    assert [table.read_bytes() for table in tables] == first
    (tmp_path / "none").mkdir()
    assert collect(tmp_path / "none", *tables) == 0
    assert [table.read_bytes() for table in tables] == first

    for cell in (cells[1], cells[3]):
        folder = tmp_path / "runs" / cell.folder
        old = read_record(folder)
        classes = [0.125, 1.0, *[None] * (len(old["per_class_accuracy"]) - 2)]
        new = {"accuracy": 0.125, "per_class_accuracy": classes, "per_class_mean": 0.5625}
        write_record(folder, old | new)
    collect(tmp_path / "runs", *tables)
    changed = [table.read_text().splitlines() for table in tables]
    before = [text.decode().splitlines() for text in first]
    assert len(set(changed[0]) - set(before[0])) == 2
    assert [len(text) for text in changed] == [len(text) for text in before]
    assert [row.rsplit(",", 1)[1] for row in changed[1][1:]] == ["0.125", "1", ""]
    last = [table.read_bytes() for table in tables]
    collect(tmp_path / "none", *tables)  # a whole number stays `1`, without new rows beside it
    assert [table.read_bytes() for table in tables] == last
    for table in tables:
        assert str(tmp_path) not in table.read_text()
        assert '"/' not in table.read_text()


def test_two_folders_of_one_run_count_once_and_are_refused_where_they_differ(tmp_path, tiny_images):
    # Each class stood twice, and which of the two accuracies counted was up to the folders' names.
    tables = tmp_path / "records.csv", tmp_path / "per_class.csv"
    tiny = [*NETWORK, "trainer.epochs=1", "dataset.limit_train=60", "mechanism=rr"]
    cell = run(tmp_path, *tiny)
    record = read_record(tmp_path / "runs" / cell.folder)
    (tmp_path / "runs" / "copy").mkdir()
    write_record(tmp_path / "runs" / "copy", record)
    assert collect(tmp_path / "runs", *tables) == 1
    assert pd.read_csv(tables[1])["class"].tolist() == [0, 1, 2]
    before = [table.read_bytes() for table in tables]
    write_record(tmp_path / "runs" / "copy", record | {"wall_seconds": 0.125})
    with pytest.raises(InputError, match="delete one"):
        collect(tmp_path / "runs", *tables)
    assert [table.read_bytes() for table in tables] == before


@pytest.mark.parametrize("damaged", ["", "a,b\n1,2\n", 'config_hash,eps,class\n"x\n'])
def test_a_damaged_table_of_classes_is_one_line_and_no_other_table_changes(tmp_path, damaged):
    # It was a traceback, and the records were merged without their classes.
    run(tmp_path, *TINY_CIRCLE)
    (tmp_path / "per_class.csv").write_text(damaged)
    with pytest.raises(InputError, match=r"per_class\.csv"):
        collect(tmp_path / "runs", tmp_path / "records.csv", tmp_path / "per_class.csv")
    assert not (tmp_path / "records.csv").exists()


def test_committed_records_come_back_as_they_were(tmp_path):
    # A table would be drawn from other numbers than the records hold.
    cells = [run(tmp_path, *TINY_CIRCLE, f"mechanism={name}") for name in ("none", "rappor")]
    collect(tmp_path / "runs", tmp_path / "records.csv", tmp_path / "per_class.csv")
    committed = read_committed(tmp_path / "records.csv")
    assert set(committed) == {cell.config_hash for cell in cells}
    for cell in cells:
        record, row = read_record(tmp_path / "runs" / cell.folder), committed[cell.config_hash]
        assert row["identity"] == cell.identity
        for column in set(COLUMNS) - {"identity", "information_bits"}:
            value = record.get(column)
            close = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
            assert row[column] == close, column
    assert committed[cells[0].config_hash]["eps"] == math.inf
    assert committed[cells[0].config_hash]["budget"] == "paper"
    assert {row["draws"] for row in committed.values()} == {DRAWS}
    assert read_committed(tmp_path / "absent.csv") == {}


def test_a_row_says_what_its_release_told(tmp_path):
    # The picture of accuracy against bits would put a method where it does not belong.
    run(tmp_path, *TINY_CIRCLE, "mechanism=none")
    run(tmp_path, *TINY_CIRCLE, "mechanism=rr", "dataset.num_classes=10", "eps=2")
    run(tmp_path, *TINY_CIRCLE, "mechanism=subset_selection", "mechanism.size=3")
    run(tmp_path, *TINY_CIRCLE, "mechanism=rrwithprior")
    collect(tmp_path / "runs", tmp_path / "records.csv", tmp_path / "per_class.csv")
    rows = {row["mechanism"]: row for row in read_committed(tmp_path / "records.csv").values()}
    classes = compose_cell([*TINY_CIRCLE]).num_classes
    assert rows["none"]["information_bits"] == pytest.approx(math.log2(classes), rel=1e-5)
    assert rows["rr"]["information_bits"] == pytest.approx(0.588154, rel=1e-5)
    sets = subset_information(classes, 3, rows["subset_selection"]["eps"]) / math.log(2)
    assert rows["subset_selection"]["information_bits"] == pytest.approx(sets, rel=1e-5)
    assert rows["rrwithprior"]["information_bits"] is None  # nobody kept its prior


def test_what_ple_gave_away_goes_with_its_record(tmp_path):
    # Rows of a retired run would stay for ever, in figures of nothing.
    path = tmp_path / "enhancement.csv"
    notes = {"notes": {"enhancement": {"chance": [0.5]}}}
    run = {"dataset": "mnist", "loss": "plain", "seed": 0} | notes
    merge_diagnoses([run | {"config_hash": name} for name in ("old", "new")], path, {"old", "new"})
    merge_diagnoses([], path, {"new"})  # the other is retired, and nothing is new
    assert list(read_diagnoses(path)) == ["new"]
    assert path.read_text().count("\n") == 2


def test_what_was_chosen_survives_collecting(tmp_path):
    # The page would have to say nothing of learning rates.
    path = tmp_path / "tuned.csv"
    one = {"lr": 1e-4, "average": None, "epochs": 3, "held_out_log_likelihood": -2.25}
    base = {"dataset": "mnist", "mechanism": "rr", "loss": "plain", "eps": math.inf, "seed": 0}
    records = [
        base | {"config_hash": "a" * 16, "notes": {"tuned": one | {"epochs": 8}, "compiled": 1}},
        base | {"config_hash": "0" * 16,
                "notes": {"tuned_stage_2": one, "tuned_stage_1": one | {"average": 0.995}}},
        base | {"config_hash": "b" * 16},
    ]  # fmt: skip
    kept = [record["config_hash"] for record in records]
    merge_choices(records[:2], path, kept)
    before = path.read_bytes()
    merge_choices(records[1:], path, kept)
    assert path.read_bytes() == before
    merge_choices([records[0] | {"notes": {"tuned": one}}], path, kept)  # run again: replaced
    merge_choices([records[2] | {"notes": {"tuned_stage_2": one}}], path, kept)
    assert read_choices(path) == {
        "a" * 16: [Chosen(1e-4, None, 3)],
        "0" * 16: [Chosen(1e-4, 0.995, 3), Chosen(1e-4, None, 3)],
        "b" * 16: [Chosen(1e-4, None, 3)],
    }
    merge_choices([], path, kept[:1])  # the other record is retired
    assert list(read_choices(path)) == kept[:1]
    assert read_choices(tmp_path / "absent.csv") == {}


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="no checkout of git")
def test_the_commit_is_that_of_the_code_also_inside_of_a_hook_of_another(tmp_path, monkeypatch):
    # A record would name a commit that its code never had.
    git = partial(subprocess.run, check=True, capture_output=True, text=True)
    own = git(["git", "-C", CHECKOUT, "rev-parse", "HEAD"]).stdout.strip()
    monkeypatch.delenv("LABELDP_COMMIT", raising=False)
    git(["git", "init", tmp_path])
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    git(["git", "-C", tmp_path, *name, "commit", "--allow-empty", "-m", "another"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert own in git_commit.__wrapped__()
