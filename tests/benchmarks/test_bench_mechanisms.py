"""The mechanisms' benchmark: every mechanism has a row, and the file says where it was measured."""

import csv
import inspect

import pytest

from benchmarks.mechanisms import main, opendp_client, plain_loop
from labeldp import mechanisms


def test_every_mechanism_is_measured(tmp_path, capsys):
    # A mechanism without a speed would be one whose cost a user meets first in a long run.
    assert main(["labels=50", f"out={tmp_path}"]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "mechanisms_cpu.csv"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    measured = {row["mechanism"] for row in rows}
    classes = {name: getattr(mechanisms, name) for name in mechanisms.__all__}
    of_class_labels = {
        name
        for name, each in classes.items()
        if issubclass(each, mechanisms.ClassMechanism)
        if not inspect.isabstract(each) and each.private
    }
    assert measured == of_class_labels
    assert all(int(row["labels_per_second"]) > 0 and row["device"] for row in rows)
    assert "| Rappor | 100 |" in capsys.readouterr().out


def test_plain_loop_draws_from_the_same_law():
    # A loop over another law would be another job, and the ratio meaningless.
    loop = plain_loop(mechanisms.RandomizedResponse(eps=1.0), 4)
    kept = sum(loop(2) == 2 for _ in range(20_000)) / 20_000
    assert kept == pytest.approx(0.4754, abs=0.02)


def test_opendp_draws_from_the_same_law():
    pytest.importorskip("opendp")
    client = opendp_client(mechanisms.RandomizedResponse(eps=1.0), 4)
    kept = sum(client(2) == 2 for _ in range(2_000)) / 2_000
    assert kept == pytest.approx(0.4754, abs=0.05)
    flips = opendp_client(mechanisms.Rappor(eps=1.0), 8)
    bits = [int.from_bytes(flips(2), "big") for _ in range(2_000)]
    assert sum(each >> 2 & 1 for each in bits) / 2_000 == pytest.approx(0.6225, abs=0.05)
    assert sum(each >> 3 & 1 for each in bits) / 2_000 == pytest.approx(0.3775, abs=0.05)


def test_no_labels_are_refused(capsys):
    assert main(["labels=0"]) == 2
    assert "labels must be >= 1, got 0" in capsys.readouterr().err
