"""The check of a record: a sound one passes, and each contradiction is named."""

import math

import pytest

from labeldp.mechanisms.noise import DRAWS
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.collect import collect, read_with_classes
from labeldp_bench.records.record import new_record, read_record, write_record
from labeldp_bench.records.validation import REQUIRED, TEST_SET, contradictions, problems_of

CLASSES = [0.9] * 5 + [0.8] * 5
ACCURACY = sum(map(math.prod, zip(CLASSES, TEST_SET["mnist"], strict=True))) / 10_000


@pytest.fixture
def record(tmp_path):
    """A sound record as it is read from its file."""
    cell = compose_cell(
        [
            "dataset=mnist",
            "mechanism=rappor",
            "eps=1",
            "trainer.epochs=3",
            "dataset.limit_train=6000",
        ]
    )
    record = new_record(
        cell, dataset="mnist", task="classification", eps=1.0, draws=DRAWS, distribution=1,
        accuracy=ACCURACY,
        per_class_accuracy=CLASSES, per_class_mean=0.85, eps_spent=1.0, delta=0.0, trust="local",
        private=True, released_agreement=0.2, response_accuracy=0.2, selection="last",
        precision="float32", epochs=3, n_train=6000, n_test=10_000, wall_seconds=9.0,
        images_per_second=1.0, device="cpu", ledger=[{"trust": "local", "eps": 1.0}],
    )  # fmt: skip
    write_record(tmp_path, record | {"git_commit": "a" * 40})
    return read_record(tmp_path)


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
        ({"delta": "small"}, "'small'"),
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
        ({"private": "yes"}, "private"),
        ({"n_train": 6001}, "n_train"),
        ({"n_test": 0}, "n_test"),
        ({"accuracy": "nan"}, "wrong kind"),
        ({"accuracy": 86.0}, "accuracy"),
        ({"accuracy": 0.95}, "accuracy"),
        ({"accuracy": 0.86}, "accuracy"),  # not what these classes of MNIST's test set give
        ({"per_class_mean": 0.86}, "per_class_mean"),
        ({"per_class_accuracy": ["nan"] * 10}, "wrong kind"),
        ({"per_class_accuracy": [85.0] * 10}, "per_class_accuracy"),
        ({"per_class_accuracy": [0.85] * 9}, "per_class_accuracy"),
        ({"selection": "best_validation"}, "selection"),
        ({"git_commit": "a" * 40 + "-dirty"}, "git_commit"),
        ({"config": {"dataset": {"file": "/home/me/x.csv"}}}, "/home/me/x.csv"),
        ({"config": {"mechanism": {"eps": 8.0}}}, "config.mechanism.eps"),
        ({"config": {"model": {"weights": "C:\\\\runs\\\\x.pt"}}}, "runs"),
        ({"mechanism": None}, "mechanism"),
        ({"identity": 3}, "wrong kind"),
    ],
)
def test_what_is_wrong_is_named(record, changes, field):
    # A record with eps=1 beside a run at eps=8 stood in tables at eps=1.
    assert any(field in line for line in problems_of(record | changes))


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
        assert contradictions(record | {"per_class_accuracy": known}) == []
