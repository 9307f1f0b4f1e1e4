"""Files of releases: what is not written, not read and not replaced."""

import contextlib
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.io import tables
from labeldp.manifest import Manifest
from labeldp.named_mechanisms import CLASS_MECHANISMS, REAL_MECHANISMS
from labeldp.support.validate import InputError

CLASSES = ["no", "yes", "refused", "other"]
LABELS = np.random.default_rng(0).choice(CLASSES, 400)


def released():
    return ldp.privatize(LABELS, classes=CLASSES, eps=1.0, seed=0)


def test_a_file_of_another_release_is_not_replaced(tmp_path):
    # After a restart nothing is remembered: the first release, maybe handed out, would not count.
    path = tmp_path / "r.parquet"
    first = ldp.privatize(["a", "b"] * 50, classes=["a", "b"], eps=1.0, seed=1)
    first.save(path)
    first.save(path)
    before = path.read_bytes()
    second = ldp.privatize(["a", "b"] * 50, classes=["a", "b"], eps=1.0, seed=2)
    with pytest.raises(InputError, match=r"r\.parquet holds another release"):
        second.save(path)
    assert path.read_bytes() == before


def test_a_part_of_a_release_does_not_replace_the_whole(tmp_path):
    # The rows left out would count as never released, and a second release of them as the first.
    path, release = tmp_path / "r.parquet", released()
    release[:10].save(path)
    release.save(path)  # more rows lose nothing
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"r\.parquet holds 390 rows of this release that are not"):
        release[10:0:-1].save(path)
    assert path.read_bytes() == before
    release[::-1].save(path)
    assert len(ldp.load_release(path)) == 400


@pytest.mark.parametrize("name", ["r.csv", "r", "r.parquet.bak"])
def test_a_name_that_says_no_parquet_is_refused(name, tmp_path):
    # `labeldp release` would not find it beside its output, and count too little as spent.
    with pytest.raises(InputError, match=r"whose name must end in \.parquet, got .*" + name):
        released().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_is_longer_than_the_classes_is_refused_before_it_fills_the_memory(tmp_path):
    # 576 kB asked for 3.27 TiB.
    classes = [f"c{number}" for number in range(400)]
    given = {"classes": classes, "eps": 8.0, "mechanism": "subset_selection", "seed": 0}
    release = ldp.privatize(["c1"] * 300, parameters={"size": 2}, **given)
    release.save(tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    long = 3_000_000
    ends = np.array([0] + [long] * 300, np.int32)
    column = pa.ListArray.from_arrays(ends, np.zeros(long, np.int32))
    pq.write_table(table.set_column(1, "released", column), tmp_path / "bomb.parquet")
    with pytest.raises(InputError, match="more than 400 entries"):
        ldp.load_release(tmp_path / "bomb.parquet")


def bare(path):
    """Returns all of a release's file but the released column: bytes, metadata, order of rows."""
    raw, meta, found = path.read_bytes(), pq.read_metadata(path), []
    for group in (meta.row_group(number) for number in range(meta.num_row_groups)):
        for column in map(group.column, (0, 2)):
            start = column.dictionary_page_offset or column.data_page_offset
            about = column.to_dict()
            about = {key: about[key] for key in about if "offset" not in key}
            found.append((raw[start : start + column.total_compressed_size], about))
        found.append((group.num_rows, str(group.column(1).encodings)))
    return [*found, meta.created_by, str(pq.read_schema(path)), pq.read_schema(path).metadata]


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
@pytest.mark.parametrize("more", [[], ["--row-id", "id"], ["--unit", "who", "--most-rows", "1"]])
def test_a_file_tells_nothing_but_what_was_released(name, more, tmp_path, monkeypatch):
    # A row group for each block of the text file told how many bytes the labels have.
    monkeypatch.setattr(tables, "BLOCK_BYTES", 2**15)
    monkeypatch.setattr("labeldp.streaming.ROWS_AT_ONCE", 2**11)
    monkeypatch.setattr("labeldp.manifest.uuid.uuid4", lambda: type("U", (), {"hex": "0" * 32}))
    monkeypatch.chdir(tmp_path)
    stream, files = np.random.default_rng(0), []
    ids = stream.permutation(20_000)
    for labels in (["no"] * 20_000, stream.choice(["no", "perhaps never"], 20_000)):
        table = pd.DataFrame({"id": ids, "who": ids // 3, "sec": labels})
        if name.endswith("parquet"):
            table.to_parquet(name, row_group_size=7_000)
        else:
            table.to_csv(name, index=False)
        given = ["--classes", "no,perhaps never", "--eps", ".1", "--seed", "0"]
        folder = tmp_path / str(len(files))  # else it is asked whether the first one is booked
        folder.mkdir()
        out = folder / "r.parquet"
        given += ["--out", str(out), "--ledger", str(folder / "ledger")]
        assert main(["release", name, "--label", "sec", *given, *more]) == 0
        files.append(bare(out))
    assert files[0] == files[1]


def test_irregular_row_groups_are_told_and_saved_clean(tmp_path):
    # Files of earlier versions, from CSV above 4 MiB, carry the leak.
    ldp.privatize(LABELS, classes=CLASSES, eps=1.0, seed=0).save(tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    for name, cuts, is_told in (("a", [150, 150, 100], 0), ("b", [150, 149, 101], 1)):
        with pq.ParquetWriter(tmp_path / name, table.schema) as writer:
            for start, size in zip(np.cumsum([0, *cuts]), cuts, strict=False):
                writer.write_table(table.slice(start, size))
        with pytest.warns(UserWarning, match="row groups") if is_told else contextlib.nullcontext():
            read = ldp.load_release(tmp_path / name)
        read.save(tmp_path / f"{name}2.parquet")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ldp.load_release(tmp_path / f"{name}2.parquet")


def forged(path, spent=1.0, raw=None, ids=None, **changes):
    """Writes a release of 400 rows with other costs, ids or manifest."""
    released().save(path)
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"labeldp"]) | changes
    table = table.set_column(2, "eps_spent", [pa.array([spent] * 400)])
    if ids is not None:
        table = table.set_column(0, "row", [pa.array(ids)])
    pq.write_table(table.replace_schema_metadata({"labeldp": raw or json.dumps(content)}), path)


FORGED = [
    {"spent": 1e-9}, {"spent": -1.0}, {"spent": 0.0}, {"spent": 0.9}, {"spent": 1.1},
    {"spent": float("nan")}, {"spent": float("inf")}, {"spent": 0.9, "counted": ["a" * 32]},
    {"raw": "[" * 100_000}, {"raw": "[" * 500 + "]" * 500}, {"parameters": {"size": [[[]]] * 9}},
    {"row_id": "\x1b]0;owned\x07id"}, {"source": "a\x9bb"}, {"classes": ["a\x1b[2J", *CLASSES[1:]]},
    {"unit": {"column": "\x1b", "most_rows": 1}}, {"mechanism": "\x1b"},
    {"ids": [f"\x1b{row}" for row in range(400)]},
]  # fmt: skip


@pytest.mark.parametrize("fault", FORGED)
@pytest.mark.parametrize("command", ["fit", "release"])
def test_a_forged_file_is_one_line(fault, command, tmp_path, monkeypatch, capsys):
    # A cost of -1 was believed and printed, deep JSON was a traceback, and a name of a column could
    # write to the terminal whatever it liked.
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": range(400)}).to_csv("f.csv", index=False)
    pd.DataFrame({"s": LABELS}).to_csv("s.csv", index=False)
    forged(tmp_path / "r.parquet", **fault)
    given = {
        "fit": ["f.csv", "--release", "r.parquet", "--out", "m.skops"],
        "release": ["s.csv", "--label", "s", "--classes", ",".join(CLASSES), "--eps", "1",
                    "--out", "n.parquet", "--book", "r.parquet"],
    }  # fmt: skip
    if command == "release" and "ids" in fault:
        return  # which are read as keys only
    assert main([command, *given[command]]) == 2
    said = capsys.readouterr()
    [line] = [each for each in said.err.splitlines() if each.startswith("error")]
    assert "r.parquet" in line and not {"\x1b", "\x07", "\x9b"} & set(said.out + said.err)


def test_what_earlier_releases_cost_is_believed(tmp_path):
    forged(tmp_path / "r.parquet", spent=3.5, counted=["a" * 32])
    assert ldp.load_release(tmp_path / "r.parquet").eps_spent == 3.5


@pytest.mark.parametrize("name", [*CLASS_MECHANISMS, *REAL_MECHANISMS])
@pytest.mark.parametrize("eps", [20.0, 30.0, 80.0, 700.0, 740.0, 745.0, 746.0])
def test_what_is_saved_at_a_large_eps_can_be_loaded(name, eps, tmp_path):
    of = {"bounds": (0, 1)} if name in REAL_MECHANISMS else {"classes": [0, 1, 2]}
    labels, ledger, path = [0, 1] * 20, ldp.Ledger(tmp_path / "ledger"), tmp_path / "r.parquet"
    try:
        ldp.privatize(labels, eps=eps, mechanism=name, ledger=ledger, **of).save(path)
    except InputError as error:
        assert "eps" in str(error) and "\n" not in str(error)
        assert not ledger.entries()
    else:
        assert ldp.load_release(path).manifest.eps == eps


@pytest.mark.parametrize("drawn", [True, False])
def test_answers_of_persons_with_many_rows_can_be_loaded(drawn, tmp_path):
    # Their eps add up to more than one mechanism may have, and the file was refused.
    design, labels = ldp.designs.warner(p=0.999), ["no", "yes"] * 100
    persons, ledger = ["one"] * 200, ldp.Ledger(tmp_path / "ledger")
    if drawn:
        release = ldp.privatize(labels, design=design, persons=persons, ledger=ledger)
    else:
        release = ldp.Release.from_answers(labels, design, persons=persons)
    release.save(tmp_path / "r.parquet")
    loaded = ldp.load_release(tmp_path / "r.parquet")
    assert loaded.manifest == release.manifest and loaded.manifest.eps == 200 * design.eps > 700


@pytest.mark.parametrize("eps", ["2000", "-1", "true", "NaN", '"1"', "null"])
def test_a_manifest_with_an_eps_that_no_mechanism_has_is_refused(eps):
    text = ldp.privatize(["a", "b"], ["a", "b"], 1.0, seed=0).manifest.to_json()
    with pytest.raises(InputError, match="eps must be"):
        Manifest.from_json(text.replace('"eps": 1.0', f'"eps": {eps}', 1))
