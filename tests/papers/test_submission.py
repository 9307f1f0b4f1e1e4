"""The check of a record that somebody sends: a sound one passes, each wrong one is named."""

import json

import pytest

from labeldp.mechanisms.noise import DRAWS
from labeldp_bench.cli.submit import main
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.record import checksum, new_record, write_record
from labeldp_bench.reports.submission import REQUIRED, check_submission
from tests.shell import quick


@pytest.fixture
def record(tmp_path):
    """A sound record as its file has it."""
    cell = compose_cell(["dataset=mnist", "mechanism=rappor", "eps=1", "trainer.epochs=3"])
    classes = [0.9] * 5 + [0.8] * 5
    record = new_record(
        cell, dataset="mnist", task="classification", eps=1.0, draws=DRAWS, accuracy=0.86,
        per_class_accuracy=classes, per_class_mean=0.85, eps_spent=1.0, delta=0.0, trust="local",
        private=True, released_agreement=0.2, response_accuracy=0.2, selection="last",
        precision="float32", epochs=3, n_train=60_000, n_test=10_000, wall_seconds=9.0,
        images_per_second=1.0, device="cpu", ledger=[{"trust": "local"}],
    )  # fmt: skip
    write_record(tmp_path, record | {"git_commit": "a" * 40})
    return json.loads((tmp_path / "record.json").read_text())


def problems_of(record, **changes):
    changed = record | changes
    return check_submission(changed | {"checksum": checksum(changed)}).problems


def test_a_sound_record_has_no_problem_and_needs_every_field(record):
    problems, notes = check_submission(record)
    assert problems == [] and any("noise is seeded" in note for note in notes)
    for key in REQUIRED:
        less = {name: value for name, value in record.items() if name != key}
        assert f"{key} is missing" in check_submission(less).problems


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"eps_spent": 1.01}, "eps_spent is 1.01, more than eps=1"),
        ({"eps": "nan"}, "eps must be a finite number, got 'nan'"),
        ({"eps_spent": "nan"}, "eps_spent must be a finite number, got 'nan'"),
        ({"eps": "nan", "eps_spent": "nan"}, "must be a finite number"),
        ({"delta": "nan"}, "delta must be a finite number"),
        ({"accuracy": "nan"}, "accuracy must be a finite number"),
        ({"per_class_accuracy": ["nan"] * 10}, "per_class_accuracy must be a finite number"),
        ({"wall_seconds": "inf"}, "wall_seconds must be a finite number"),
        ({"n_train": "nan"}, "n_train must be a finite number"),
        ({"n_test": 10**400}, "a field has a value of the wrong kind"),
        ({"eps_spent": "inf"}, "private is true, and eps is infinite"),
        ({"delta": 1.0}, "delta must be in [0, 1), got 1"),
        ({"trust": "none"}, "private is true, and trust is none"),
        ({"trust": "nobody"}, "trust must be one of local, central, none"),
        ({"ledger": [{"trust": "central"}]}, "trust is local, and the ledger"),
        ({"noise": "loud"}, "noise must be one of seeded, secret"),
        ({"noise": "secret"}, "noise is secret, and the identity says seeded"),
        ({"per_class_mean": 0.86}, "per_class_mean is 0.86, and the classes have 0.85"),
        ({"accuracy": 0.95}, "outside of its classes' 0.8000 to 0.9000"),
        ({"accuracy": 86.0}, "accuracy must be a fraction of 1, got 86.0"),
        ({"per_class_accuracy": [0.85] * 9}, "has 9 classes, and the data set 10"),
        ({"selection": "best_epoch"}, "an epoch that test labels chose is not taken"),
        ({"selection": "best_validation"}, "the budget does not cover those labels"),
        ({"git_commit": "a" * 40 + "-dirty"}, "its files were changed"),
        ({"config": {"dataset": {"file": "/home/me/x.csv"}}}, "config.dataset.file is a path"),
        ({"seed": 7}, "seed is 7, and the identity says 0"),
        ({"config_hash": "0" * 16}, "config_hash is 0000000000000000, and the identity has"),
        ({"task": "regression"}, "task must be classification"),
        ({"accuracy": None}, "accuracy is empty"),
        ({"mechanism": None}, "mechanism is empty"),
        ({"draws": None}, "draws is empty"),
        ({"delta": "small"}, "a field has a value of the wrong kind"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(record, changes, said):
    assert any(said in line for line in problems_of(record, **changes))


def test_a_number_changed_by_hand_is_found(record):
    [line] = check_submission(record | {"wall_seconds": 10.0}).problems
    assert line.startswith("checksum is ") and "it was changed after its run" in line


def test_the_command_tells_by_its_exit_status(record, tmp_path, capsys):
    sound, wrong, no_json = (tmp_path / name for name in ("sound", "wrong", "text"))
    sound.write_text(json.dumps(record))
    wrong.write_text(json.dumps({"eps": 1}))
    no_json.write_text("accuracy: 1")
    assert main([str(sound)]) == 0 and "it can be sent" in capsys.readouterr().out
    assert main([str(sound), str(wrong)]) == 1
    assert f"  {len(REQUIRED) - 1} things to mend" in capsys.readouterr().out
    for bad in ([str(no_json)], [str(tmp_path / "absent")], []):
        assert main(bad) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    outcome = quick(["submit-check", "sound"], tmp_path)  # before Hydra reads it as an override
    assert outcome.returncode == 0 and outcome.stderr == ""
