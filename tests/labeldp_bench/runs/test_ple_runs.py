"""Runs of ple by the command line: nobody takes their records, tables, figures for private."""

import json

import pytest

from labeldp_bench.records.collect import merge_diagnoses, read_diagnoses
from labeldp_bench.reports.rendering import markdown_of
from labeldp_bench.reports.sweeps import sweep_frame, sweep_parts
from tests.images import write_tiny
from tests.shell import quick, records_under

SHORT = ["mechanism=ple", "learner.client.epochs=3", "learner.k2=2", "mechanism.k1=2"]


@pytest.fixture(scope="module")
def both_losses(tmp_path_factory):
    """What a sweep over the server's losses and RR prints, and its records by mechanism, loss."""
    folder = tmp_path_factory.mktemp("ple")
    write_tiny(folder)
    data = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", f"data_dir={folder}"]
    data += ["trainer.epochs=2", "device=cpu"]
    printed = quick(["-m", *data, *SHORT, "learner.loss=enhanced,plain"], folder)
    assert printed.returncode == 0, printed.stderr
    records = [json.loads(path.read_text()) for path in records_under(folder)]
    found = {record["loss"]: record for record in records}
    private = {"mechanism": "rr", "private": True, "trust": "local", "eps": 1.0}
    identity = found["plain"]["identity"] | {"mechanism": "rr", "mechanism.eps": 1}
    return printed, found | {"private": found["plain"] | private | {"identity": identity}}


def test_record_says_that_nothing_is_guaranteed(both_losses):
    # A reader of records.csv would take PLE for a private method.
    _, records = both_losses
    for loss in ("enhanced", "plain"):
        record = records[loss]
        assert record["private"] is False and record["trust"] == "none"
        assert record["eps"] == record["eps_spent"] == "inf"
        assert not [key for key in record["identity"] if key.endswith("eps")]
        assert record["mechanism_summary"] == {"guarantee": "none"}
        ledger = [(line["num_labels"], line["trust"]) for line in record["ledger"]]
        assert ledger == [(192, "none"), (48, "none")]
        assert record["selection"] == "best_validation" and record["notes"]["best_epoch"] in (1, 2)
        found = record["notes"]["enhancement"]
        wrong = pytest.approx(1 - record["released_agreement"], abs=1e-5)
        assert found["unreliability"][0] == wrong
    # The ablation changes the server alone.
    assert records["plain"]["notes"]["enhancement"] == records["enhanced"]["notes"]["enhancement"]


def test_every_printed_number_says_no_guarantee(both_losses):
    # A number would be copied into a table of private methods.
    printed, _ = both_losses
    rows = [line for line in printed.lines if line.startswith("|") and "PLE" in line]
    assert len(rows) == 2 and all("no guarantee" in row for row in rows)


def test_no_column_holds_it_beside_private_methods(both_losses):
    # RR at eps=inf and PLE would stand in one column, as if one number could be held against both.
    _, records = both_losses
    frame = sweep_frame([records["private"], records["plain"]])
    first, second = markdown_of(sweep_parts(frame)).split("\n\ntiny")
    assert "RR" in first and "PLE" not in first
    assert "PLE" in second and "RR" not in second and "response accuracy" in second


def test_diagnoses_survive_collection(tmp_path, both_losses):
    # Figure 4 could be drawn only by who has the runs.
    _, records = both_losses
    path, records = tmp_path / "enhancement.csv", {k: records[k] for k in ("enhanced", "plain")}
    kept = {record["config_hash"] for record in records.values()}
    merge_diagnoses([*records.values()], path, kept)
    first = path.read_bytes()
    merge_diagnoses([records["plain"]], path, kept)
    assert path.read_bytes() == first
    found = read_diagnoses(path)
    assert found == {r["config_hash"]: r["notes"]["enhancement"] for r in records.values()}
    assert read_diagnoses(tmp_path / "none.csv") == {}
