"""The check of a record: a sound one passes, and each contradiction is named."""

import json
import math

import pytest

from labeldp.mechanisms.noise import DRAWS
from labeldp.support.validate import InputError
from labeldp_bench.cli.submit import main, problems_of
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.collect import collect, read_with_classes
from labeldp_bench.records.record import checksum, new_record, write_record
from labeldp_bench.records.validation import REQUIRED, TEST_SET, validate_record
from tests.shell import quick

CLASSES = [0.9] * 5 + [0.8] * 5
ACCURACY = sum(map(math.prod, zip(CLASSES, TEST_SET["mnist"], strict=True))) / 10_000


@pytest.fixture
def record(tmp_path):
    """A sound record as its file has it."""
    cell = compose_cell(["dataset=mnist", "mechanism=rappor", "eps=1", "trainer.epochs=3"])
    record = new_record(
        cell, dataset="mnist", task="classification", eps=1.0, draws=DRAWS, distribution=1,
        accuracy=ACCURACY,
        per_class_accuracy=CLASSES, per_class_mean=0.85, eps_spent=1.0, delta=0.0, trust="local",
        private=True, released_agreement=0.2, response_accuracy=0.2, selection="last",
        precision="float32", epochs=3, n_train=60_000, n_test=10_000, wall_seconds=9.0,
        images_per_second=1.0, device="cpu", ledger=[{"trust": "local", "eps": 1.0}],
    )  # fmt: skip
    write_record(tmp_path, record | {"git_commit": "a" * 40})
    return json.loads((tmp_path / "record.json").read_text())


def problems(record, **changes):
    changed = record | changes
    return problems_of(changed | {"checksum": checksum(changed)})


def test_a_sound_record_has_no_problem_and_needs_every_field(record):
    assert problems_of(record) == []
    for key in REQUIRED:
        less = {name: value for name, value in record.items() if name != key}
        assert f"{key} is missing" in problems_of(less)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"eps": 8.0}, "eps"),  # beside an identity that says 1
        ({"eps_spent": 1.01}, "eps_spent"),
        ({"eps_spent": -1.0}, "eps_spent"),
        ({"eps_spent": 0.5}, "eps_spent"),  # and the ledger says 1
        ({"eps": "nan"}, "eps"),
        ({"eps_spent": "nan"}, "eps_spent"),
        ({"delta": "nan"}, "delta"),
        ({"delta": "small"}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"dataset": "kmnist"}, "dataset"),
        ({"mechanism": "rr"}, "mechanism"),
        ({"model": "linear"}, "model"),
        ({"learner": "moments"}, "learner"),
        ({"loss": "plain"}, "loss"),
        ({"seed": 7}, "seed"),
        ({"budget": "quick"}, "budget"),
        ({"pretrain": "simclr"}, "pretrain"),
        ({"noise": "secret"}, "noise"),
        ({"noise": "loud"}, "noise"),
        ({"config_hash": "0" * 16}, "config_hash"),
        ({"trust": "none"}, "trust"),
        ({"trust": "nobody"}, "trust"),
        ({"ledger": [{"trust": "central", "eps": 1.0}]}, "trust"),
        ({"private": False}, "private"),
        ({"private": "yes"}, "private"),
        ({"n_train": 10**400}, "int too large"),
        ({"n_test": -1}, "n_test"),
        ({"wall_seconds": "inf"}, "wall_seconds"),
        ({"accuracy": "nan"}, "accuracy"),
        ({"accuracy": 86.0}, "accuracy"),
        ({"accuracy": 0.95}, "accuracy"),
        ({"accuracy": 0.86}, "accuracy"),  # not what these classes of MNIST's test set give
        ({"accuracy": None}, "accuracy"),
        ({"released_agreement": 1.5}, "released_agreement"),
        ({"per_class_mean": 0.86}, "per_class_mean"),
        ({"per_class_accuracy": ["nan"] * 10}, "per_class_accuracy"),
        ({"per_class_accuracy": [0.85] * 9}, "per_class_accuracy"),
        ({"selection": "best_epoch"}, "selection"),
        ({"selection": "best_validation"}, "selection"),
        ({"git_commit": "a" * 40 + "-dirty"}, "git_commit"),
        ({"config": {"dataset": {"file": "/home/me/x.csv"}}}, "config.dataset.file"),
        ({"config": {"mechanism": {"eps": 8.0}}}, "config.mechanism.eps"),
        ({"task": "regression"}, "task"),
        ({"mechanism": None}, "mechanism"),
        ({"draws": None}, "draws"),
        ({"distribution": None}, "distribution"),
        ({"identity": 3}, "wrong kind"),
    ],
)
def test_what_is_wrong_is_named(record, changes, field):
    # A record with eps=1 beside a run at eps=8 stood in tables at eps=1.
    assert any(field in line for line in problems(record, **changes))


def test_a_trust_model_is_never_stronger_than_the_mechanism():
    cell = compose_cell(["dataset=mnist", "mechanism=noisy_moments", "eps=1"])
    record = new_record(
        cell, dataset="mnist", task="classification", eps=1.0, draws=DRAWS, distribution=1,
        accuracy=0.9,
        eps_spent=1.0, trust="local", private=True,
    )  # fmt: skip
    assert [line for line in validate_record(record) if "trust" in line]
    assert not validate_record(record | {"trust": "central"})


def test_a_number_changed_by_hand_is_found(record):
    [line] = problems_of(record | {"wall_seconds": 10.0})
    assert line.startswith("checksum is ")


def test_collect_refuses_what_contradicts_itself(record, tmp_path):
    # Tables and figures would be drawn from it.
    (tmp_path / "runs").mkdir()
    write_record(tmp_path / "runs", record | {"seed": 3})
    tables = tmp_path / "records.csv", tmp_path / "per_class.csv"
    with pytest.raises(InputError, match=r"record\.json.*seed is 3"):
        collect(tmp_path / "runs", *tables)
    assert not tables[0].exists()


def test_every_committed_record_passes():
    for record in read_with_classes().values():
        classes = record.get("per_class_accuracy")
        known = None if classes is None else [None if math.isnan(x) else x for x in classes]
        assert validate_record(record | {"per_class_accuracy": known}) == []


def test_the_command_tells_by_its_exit_status(record, tmp_path, capsys):
    sound, wrong, no_json = (tmp_path / name for name in ("sound", "wrong", "text"))
    sound.write_text(json.dumps(record))
    wrong.write_text(json.dumps({"eps": 1}))
    no_json.write_text("accuracy: 1")
    assert main([str(sound)]) == 0
    assert main([str(sound), str(wrong)]) == 1
    assert f"{len(REQUIRED) - 1} to fix" in capsys.readouterr().out
    for bad in ([str(no_json)], [str(tmp_path / "absent")], []):
        assert main(bad) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    outcome = quick(["submit-check", "sound"], tmp_path)  # before Hydra reads it as an override
    assert outcome.returncode == 0 and outcome.stderr == ""
