"""Garbage in any file that is read: one line that a user can act on, never another exception."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from labeldp.io.labels import codes_of
from labeldp.io.tables import TableFile
from labeldp.manifest import Manifest
from labeldp.models import load_model, model_for, save_model
from labeldp.privatization import privatize
from labeldp.release import load_release
from labeldp.release_file import read_rows
from labeldp.support.validate import InputError
from labeldp_bench.data.images import ImageData
from labeldp_bench.pretraining.weights import read as read_weights
from labeldp_bench.records.collect import (
    COMMITTED,
    merge_choices,
    read_choices,
    read_committed,
    read_diagnoses,
)
from labeldp_bench.records.record import KEYS, checksum, read_record, write_record
from labeldp_bench.records.validation import contradictions
from labeldp_bench.training.checkpoint import Checkpoint

LEAN = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
INSERTED = [b"null", b"[]", b"{}", b"NaN", b"-1", b'"', b",", b"\n", b"\x00", b"1e999"]


@st.composite
def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file that was cut off, overwritten, shortened or added to somewhere, or quite another."""
    start = draw(st.integers(0, len(whole) - 1))
    kind = draw(st.sampled_from(["cut", "other", "bytes", "hole", "more"]))
    if kind == "cut":
        return whole[:start]
    if kind == "other":
        return draw(st.binary(max_size=60))
    end = start + draw(st.integers(1, 30))
    if kind == "hole":
        return whole[:start] + whole[end:]
    if kind == "more":
        return whole[:start] + draw(st.sampled_from(INSERTED)) + whole[start:]
    return whole[:start] + draw(st.binary(min_size=1, max_size=4)) + whole[end:]


def one_line_or_nothing(read: Callable[[], object]) -> None:
    """Reads a file; whatever is wrong with it is said in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read()
        except InputError as error:
            assert str(error) and "\n" not in str(error)


def release():
    return privatize(["a", "b", "b"], classes=["a", "b"], eps=1.0, seed=0)


def head_of(path: Path) -> bytes:
    return b"".join(path.read_bytes().splitlines(keepends=True)[:4])


def coded(path: Path, column: str) -> object:
    """Reads a column in parts, as `labeldp release` does."""
    table = TableFile(path, secret=column)
    return [codes_of(part, pd.Index(["yes", "no"])) for part in table.batches(column, 2)]


def checkpoint(path: Path) -> Checkpoint:
    return Checkpoint(path, {"torch": str(torch.__version__)}, every=1)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "record": ("record.json", lambda path: contradictions(read_record(path.parent))),
    "records.csv": ("records.csv", read_committed),
    "enhancement.csv": ("enhancement.csv", read_diagnoses),
    "tuned.csv": ("tuned.csv", read_choices),
    "images": ("tiny.npz", lambda path: ImageData("tiny", 3).draw(path.parent, 0)),
    "release of own labels": ("mine.parquet", load_release),
    "people.csv": ("people.csv", lambda path: TableFile(path).features()),
    "table.csv": ("table.csv", lambda path: TableFile(path, secret="answer").features()),
    "table.parquet": ("mine.parquet", lambda path: TableFile(path).features()),
    "rows of a release": ("mine.parquet", read_rows),
    "labels of people.csv": ("people.csv", lambda path: coded(path, "answer")),
    "labels of a Parquet file": ("mine.parquet", lambda path: coded(path, "row")),
    "model": ("mine.skops", load_model),
    "pre-trained weights": ("weights.safetensors", read_weights),
    "checkpoint": ("checkpoint.pt", lambda path: checkpoint(path).resume()),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    write_record(folder, dict.fromkeys(KEYS, 1.0) | {"notes": {"a": [1, None]}})
    for table in ("records.csv", "enhancement.csv"):
        (folder / table).write_bytes(head_of(COMMITTED.with_name(table)))
    chosen = {"lr": 0.1, "average": 0.5, "epochs": 2, "held_out_log_likelihood": -1.0}
    record = dict.fromkeys(("config_hash", "dataset", "mechanism", "loss", "seed"), "x") | {
        "eps": 1
    }
    merge_choices([record | {"notes": {"tuned": chosen}}], folder / "tuned.csv", kept=())
    images, labels = np.zeros((6, 4, 4), np.uint8), np.array([0, 1, 2] * 2)
    np.savez(folder / "tiny.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release().save(folder / "mine.parquet")
    people = pd.DataFrame({"age": range(12)})
    whole = privatize(["a", "b", "b"] * 4, classes=["a", "b"], eps=3.0, seed=0)
    save_model(model_for(people).fit(people, whole), folder / "mine.skops")
    (folder / "weights.safetensors").write_bytes(save({"a": torch.zeros(3)}, {"recipe": "{}"}))
    state = checkpoint(folder / "checkpoint.pt")
    state.next_fit()
    state.after_epoch(lambda: {"epoch": 1, "network": {}}, finished=False)
    for table in ("people.csv", "table.csv"):
        (folder / table).write_text("age,answer\n31,yes\n47,no\n")
    return folder


@pytest.mark.parametrize("kind", READERS)
def test_every_reader_takes_what_was_written(kind, good):
    # The property below would hold for a reader that refuses everything.
    name, read = READERS[kind]
    read(good / name)


@pytest.mark.parametrize("kind", READERS)
@LEAN
@given(data=st.data())
def test_damaged_files_are_refused_in_one_line(kind, good, tmp_path, data):
    # A file cut by a full disk would end every later command in a traceback.
    name, read = READERS[kind]
    path = tmp_path / name
    path.write_bytes(data.draw(damage((good / name).read_bytes())))
    one_line_or_nothing(lambda: read(path))


@LEAN
@given(key=st.sampled_from(sorted(KEYS)), value=JSON)
def test_a_record_with_a_value_of_another_kind(key, value, tmp_path):
    # Whoever edits a record may compute the checksum anew.
    record = dict.fromkeys(KEYS, 1.0) | {key: value}
    (tmp_path / "record.json").write_text(json.dumps(record | {"checksum": checksum(record)}))
    one_line_or_nothing(lambda: read_record(tmp_path))


@settings(LEAN, max_examples=60)
@given(data=st.data())
def test_a_manifest_with_a_value_of_another_kind(data, good, tmp_path):
    # A release from somewhere else would fail in the middle of a fit, in the words of torch.
    content = json.loads(release_text(good))
    content[data.draw(st.sampled_from(sorted(content)))] = data.draw(JSON)
    text = json.dumps(content)
    one_line_or_nothing(lambda: Manifest.from_json(text))
    table = pq.read_table(good / "mine.parquet").replace_schema_metadata({"labeldp": text})
    pq.write_table(table, tmp_path / "mine.parquet")
    one_line_or_nothing(lambda: load_release(tmp_path / "mine.parquet").summary())


COLUMNS = {
    "texts": pa.array(["x", "y", "z"]),
    "missing": pa.array([0, None, 1]),
    "lists": pa.array([[1], [2, 3], []]),
    "no class": pa.array([7, 8, 9]),
    "reals": pa.array([0.5, 1.5, 2.5]),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", ["row", "released", "eps_spent"])
def test_columns_of_another_kind(name, kind, good, tmp_path):
    table = pq.read_table(good / "mine.parquet")
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, name, COLUMNS[kind]), tmp_path / "mine.parquet")
    one_line_or_nothing(lambda: load_release(tmp_path / "mine.parquet").summary())
    if name == "released":
        with pytest.raises(InputError):
            load_release(tmp_path / "mine.parquet")


def release_text(good: Path) -> bytes:
    return pq.read_schema(good / "mine.parquet").metadata[b"labeldp"]
