"""The benchmark of many classes learns, and its table has a row for each mechanism and size."""

import csv

from benchmarks import many_classes


def test_it_learns_and_writes(tmp_path, capsys, monkeypatch):
    # A process for each row imports torch: two of them show what eight would.
    monkeypatch.setattr(many_classes, "MECHANISMS", ("rr",))
    assert many_classes.main(["classes=3,40", "rows=60", f"out={tmp_path}"]) == 0
    [table] = tmp_path.glob("many_classes_*.csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["mechanism"], row["num_classes"]) for row in rows] == [("rr", "3"), ("rr", "40")]
    assert [row["bytes_of_all_likelihoods"] for row in rows] == ["720", "9600"]  # float32 N x K
    assert all(int(row["peak_bytes"]) > 10**8 for row in rows)  # torch alone has more
    assert all(float(row[key]) > 0 for row in rows for key in ("fit_seconds", "predict_seconds"))
    assert "| rr" in capsys.readouterr().out
