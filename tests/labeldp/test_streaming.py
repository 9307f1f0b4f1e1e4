"""Releases of files that are read in parts: the law of the whole, and nothing half-done."""

import os
import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp import streaming
from labeldp.cli.__main__ import main

SIZE = 1000
CLASSES = ["yes", "no", "other"]
LABELS = np.random.default_rng(0).choice(CLASSES, SIZE)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["p.csv", "p.tsv.gz", "p.parquet"])
def people(request):
    """A file of people, by its name."""
    write(request.param, LABELS)
    return request.param


def write(name, labels):
    table = pd.DataFrame({"age": range(len(labels)), "answer": labels})
    if name.endswith(".parquet"):
        table.to_parquet(name)
    else:
        table.to_csv(name, index=False, sep="\t" if ".tsv" in name else ",")


def release(name, *more, classes=CLASSES, out="r.parquet"):
    options = ["--label", "answer", "--classes", ",".join(classes), "--eps", "1", "--out", out]
    return main(["release", name, *options, *more])


@pytest.mark.parametrize("mechanism", ["rr", "rappor", "subset_selection", "hadamard", "alibi"])
def test_one_part_is_what_privatize_gives(mechanism):
    write("p.csv", LABELS)
    assert release("p.csv", "--mechanism", mechanism, "--seed", "3") == 0
    whole = ldp.privatize(LABELS, classes=CLASSES, eps=1.0, mechanism=mechanism, seed=3)
    read = ldp.load_release("r.parquet")
    assert read.manifest.stored == whole.manifest.stored
    assert np.array_equal(read.log_likelihood(), whole.log_likelihood())


# A file without a header: the message listed its first row, label and all; a label with a blank
# before it, or in capitals, was no label to it; one that stands there twice was named.
FIRST = ["ann,no", "17,maybe", "no\tann", "ann, no", "ann,No", "ann,other,other", "ann,,NO"]
FIRST += ["ann no", "ann:maybe", "17;maybe;", "ann|no,x", "ann,basel,maybe pos."]


@pytest.mark.parametrize("first", FIRST)
def test_a_first_row_of_data_is_not_shown(first, capsys):
    name = "p.tsv" if "\t" in first else "p.csv"
    Path(name).write_text(f"{first}\n" + first.replace("no", "yes") + "\n")
    assert release(name) == 2
    said = capsys.readouterr().err
    assert "has no column answer" in said or "between its cells" in said
    assert not any(cell in said for cell in ("ann", "maybe", " no,", "17", "No", "NO", "other"))


@pytest.mark.parametrize(
    ("text", "named", "more"),
    [
        # A wrong --label lists the column as pandas calls it; that name was a traceback.
        ("age,\n1,yes\n2,no\n", "column Unnamed: 1", ["--label", "Unnamed: 1"]),
        # Cells after it would be in the columns of others. The message goes into log files.
        ("age,answer\n1,yes\n2,3,hiv\n", "row 2 has 3 cells", []),
        # It was skipped: each label after it belonged to the features of the row before.
        ("answer\nyes\n\nno\n", "p.csv, row 2, column answer", []),
    ],
)
def test_what_is_no_table_is_one_line_that_shows_no_cell(text, named, more, capsys):
    Path("p.csv").write_text(text)
    assert release("p.csv", *more) == 2 and os.listdir() == ["p.csv"]
    [line] = capsys.readouterr().err.splitlines()
    assert named in line and "hiv" not in line


def test_an_empty_line_between_rows_of_two_columns_is_no_row():
    Path("p.csv").write_text("age,answer\n1,yes\n\n2,no\n\n")
    assert release("p.csv") == 0 and len(ldp.load_release("r.parquet")) == 2


ODD = [{"answer": [each] * 2} for each in ([1], {"a": 1}, b"a", pd.Period("2026-11", "M"))]


@pytest.mark.parametrize("table", [*ODD, {"0": [1.0], "answers": ["yes"]}])
def test_what_parquet_holds_but_labels_is_one_line(table, capsys):
    # A typing error in --label was answered with "write a header", which the file has.
    pd.DataFrame(table).to_parquet("p.parquet")
    assert release("p.parquet") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert ("column answer" if "answer" in table else "columns: 0, answers") in line
    assert "header" not in line


ODD_VALUES = [
    pa.array([424242001, 0], pa.time64("ns")),
    pa.array([4242420, 0], pa.date32()),
    pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 4, 5], np.int32)),
                                pa.py_buffer(b"hiv\xffy")),
]  # fmt: skip


@pytest.mark.parametrize("column", ODD_VALUES, ids=lambda each: str(each.type))
@pytest.mark.parametrize("whose", ["answer", "id", "x"])
def test_a_value_without_a_text_is_one_line_that_does_not_show_it(column, whose, capsys):
    # Arrow's own message, in a traceback, showed the label.
    columns = {"answer": pa.array(["yes", "no"]), "id": pa.array([1, 2]), "x": pa.array([1, 2])}
    pq.write_table(pa.table(columns | {whose: column}), "p.parquet")
    is_read = whose == "x" or (whose == "id" and pa.types.is_time(column.type))
    assert release("p.parquet", "--row-id", "id") == (0 if is_read else 2)
    said = capsys.readouterr().err
    assert "hiv" not in said and "424242" not in said
    if not is_read:
        assert said.count("\n") == 1 and "p.parquet" in said
        assert os.listdir() == ["p.parquet"]


def test_many_parts_hold_every_row_once_with_noise_of_its_own(people, monkeypatch, capsys):
    # A part that was drawn with the noise of another would tell both their labels.
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 64)
    drawn = []
    original = streaming.draw

    def draw(manifest, labels, seed, part):
        drawn.append((len(labels), part))
        return original(manifest, labels, seed, part)

    monkeypatch.setattr(streaming, "draw", draw)
    assert release(people, "--mechanism", "rr", "--seed", "1") == 0
    assert "1,000 labels released by rr, eps=1" in capsys.readouterr().out
    read = ldp.load_release("r.parquet")
    assert read.row_ids.tolist() == list(range(SIZE))
    assert max(size for size, _ in drawn) <= 64 and sum(size for size, _ in drawn) == SIZE
    assert len({part for _, part in drawn}) == len(drawn) > 10
    codes = np.array([read.classes.index(label) for label in LABELS])
    kept = (read.outputs.numpy() == codes).mean()
    assert kept == pytest.approx(np.e / (np.e + 2), abs=4 * 0.5 / SIZE**0.5)
    moved = (read.outputs.numpy() != codes)[: 64 * 15].reshape(15, 64)
    assert len(np.unique(moved, axis=0)) == 15


def test_secret_parts_differ(monkeypatch):
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 100)
    write("p.csv", ["yes"] * 400)
    assert release("p.csv", "--mechanism", "rr") == 0
    parts = ldp.load_release("r.parquet").outputs.numpy().reshape(4, 100)
    assert len(np.unique(parts, axis=0)) == 4


@pytest.mark.parametrize("label", ["hiv", ""])
def test_a_bad_label_in_the_last_part_leaves_nothing(label, people, monkeypatch, capsys):
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 64)
    write(people, [*LABELS[:990], label, *LABELS[991:]])
    before = sorted(os.listdir())
    assert release(people) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {people}, row 991, column answer: ")
    assert "hiv" not in line and sorted(os.listdir()) == before


def test_persons_and_ids_across_parts(people, monkeypatch, capsys):
    # Half of the rows were left out, and nothing said so.
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 64)
    given = [people, "--mechanism", "rr", "--seed", "1", "--row-id", "age"]
    assert release(*given) == 0
    assert release(*given, "--again", out="s.parquet") == 0
    again, first = ldp.load_release("s.parquet"), ldp.load_release("r.parquet")
    assert again.eps_spent == 2 and again.manifest.identity == first.manifest.identity
    table = pd.DataFrame({"who": np.arange(SIZE) // 4, "answer": LABELS})
    table.to_csv("visits.csv", index=False)
    os.mkdir("d")
    given = ["visits.csv", "--unit", "who", "--mechanism", "rr"]
    assert release(*given, "--most-rows", "2", out="d/r.parquet") == 0
    capped = ldp.load_release("d/r.parquet")
    assert capped.row_ids.tolist() == [row for row in range(SIZE) if row % 4 < 2]
    assert capped.eps_spent == 1
    left_out = "500 of 1,000 rows are left out: --most-rows 2 keeps the first ones of each who"
    assert left_out in capsys.readouterr().out
    assert release(*given, "--again", out="d/s.parquet") == 0
    assert "left out" not in capsys.readouterr().out
    assert ldp.load_release("d/s.parquet").eps_spent == 2


@pytest.mark.parametrize(("limit", "file"), [(3_000, "p.csv.ledger"), (18_000, "r.parquet")])
def test_a_full_disk_is_one_line_and_leaves_nothing(limit, file, monkeypatch, capsys):
    # Half a release would pass for a whole one of fewer people.
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 64)
    write("p.csv", np.tile(LABELS, 5))
    before, (soft, hard) = os.listdir(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # of one file; the system says no
    try:
        assert release("p.csv") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [line] = capsys.readouterr().err.splitlines()
    assert file in line and "cannot" in line
    assert set(os.listdir()) - {"p.csv.ledger"} == set(before)
    if file == "r.parquet":
        assert ldp.Ledger("p.csv.ledger").entries() == [] and release("p.csv") == 0


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([1.0, 2.0, 1.0], ["1", "2"]),
        ([7, 8, 7], ["8", "7"]),
        (pd.Categorical(["a", "b", "a"]), ["a", "b"]),
        ([True, False, None], ["true", "false"]),
    ],
)
def test_labels_of_every_type_are_compared_as_texts(values, classes):
    pd.DataFrame({"answer": values}).to_parquet("p.parquet")
    status = release("p.parquet", "--eps", "inf", classes=classes)
    assert status == (2 if values[-1] is None else 0)
    if not status:
        texts = [f"{each:g}" if isinstance(each, float) else str(each) for each in values]
        read = ldp.load_release("r.parquet")
        assert [read.classes[each] for each in read.outputs.tolist()] == texts


def test_numbers_across_parts(people, monkeypatch, capsys):
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 64)
    line = ["release", people, "--label", "age", "--bounds", "0,999", "--eps", "2", "--out"]
    assert main([*line, "r.parquet"]) == 0
    values = ldp.load_release("r.parquet").unbiased_values()
    assert values.mean() == pytest.approx(499.5, abs=4 * values.std() / SIZE**0.5)
    assert main(["release", people, "--label", "answer", *line[4:], "s.parquet", "--again"]) == 2
    assert "row 1, column answer: the label is no finite number" in capsys.readouterr().err
