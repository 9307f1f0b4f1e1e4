"""Releases of own labels: what they hold, what they refuse, and that they add up."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import labeldp as ldp
from labeldp.support.validate import InputError

CLASSES = ["no", "yes", "refused", "other"]
LABELS = np.random.default_rng(0).choice(CLASSES, 4000)


def released(**changed):
    given = {"labels": LABELS, "classes": CLASSES, "eps": 1.0, "seed": 0}
    return ldp.privatize(**(given | changed))


@pytest.mark.parametrize(
    "name",
    ["rr", "rappor", "alibi", "optimal", "hadamard", "local_hashing", "subset_selection"],
)
def test_a_file_gives_back_the_release(name, tmp_path):
    release = released(mechanism=name)
    release.save(tmp_path / "a.parquet")
    again = ldp.load_release(tmp_path / "a.parquet")
    assert (again.mechanism, again.eps, again.classes) == (name, 1.0, sorted(CLASSES))
    assert again.eps_spent == 1.0
    assert len(again) == 4000
    assert np.array_equal(again.log_likelihood(), release.log_likelihood())
    assert b"seed" not in (tmp_path / "a.parquet").read_bytes().replace(b'"noise": "seeded"', b"")


def test_a_release_keeps_its_row_ids():
    # They were the caller's own array: what was changed there renamed the rows of the release.
    own = np.arange(4000)
    releases = [released(row_ids=own), released(row_ids=own, mechanism="rappor")]
    answers = ldp.Release.from_answers(["yes"] * 4000, ldp.designs.warner(p=0.7), row_ids=own)
    own[:] = -1
    assert all(np.array_equal(each.row_ids, np.arange(4000)) for each in [*releases, answers])


def test_a_warning_names_the_line_that_asked():
    asked = compile("privatize(labels, classes, 0.001)", "a script", "eval")
    with pytest.warns(UserWarning) as warned:
        eval(asked, {"privatize": ldp.privatize, "labels": LABELS, "classes": CLASSES})
    assert [each.filename for each in warned] == ["a script"]


@pytest.mark.parametrize("name", ["rr", "rappor", "alibi", "hadamard"])
def test_a_file_of_version_1_is_read(name, tmp_path):
    # It holds the outputs themselves, and does not say so.
    release = released(mechanism=name)
    outputs = release.manifest.encoding.outputs(release.messages)
    old = replace(release, messages=outputs, manifest=replace(release.manifest, stored="outputs"))
    old.save(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    manifest = json.loads(table.schema.metadata[b"labeldp"])
    assert manifest["version"] == 1 and manifest.pop("stored") == "outputs"
    pq.write_table(table.replace_schema_metadata({"labeldp": json.dumps(manifest)}),
                   tmp_path / "a.parquet")  # fmt: skip
    again = ldp.load_release(tmp_path / "a.parquet")
    assert np.array_equal(again.log_likelihood(), release.log_likelihood())


@pytest.mark.parametrize(
    ("name", "eps", "most"),
    [("rr", 1.0, 2), ("hadamard", 1.0, 2), ("local_hashing", 1.0, 12), ("oue", 5.0, 70)],
)
def test_a_release_of_many_classes_is_small_in_memory_and_in_its_file(name, eps, most, tmp_path):
    # K bytes a row would be 3 MB here; 10^7 rows of 10^5 classes would be a terabyte.
    labels = np.arange(3000) % 1000
    release = ldp.privatize(labels, classes=range(1000), eps=eps, mechanism=name, seed=0)
    assert release.messages[0].nbytes <= most + 30  # -1 after the last position
    release.save(tmp_path / "a.parquet")
    head = len(release.manifest.to_json())
    assert (tmp_path / "a.parquet").stat().st_size < 3000 * (most + 8) + 2 * head + 4000
    again = ldp.load_release(tmp_path / "a.parquet")
    assert np.array_equal(again[5:9].log_likelihood(), release[5:9].log_likelihood())
    assert "stored" not in vars(again) and "stored" not in vars(release)  # never made


def test_likelihood_says_what_was_drawn():
    # If labels were coded in another order than the likelihood's columns, the mean would be lower.
    release = released(eps=2.0, mechanism="rr")
    likelihood = np.exp(release.log_likelihood())
    own = likelihood[np.arange(4000), [release.classes.index(label) for label in LABELS]]
    keep = 1 / (1 + 3 * np.exp(-2))
    expected = keep**2 + (1 - keep) ** 2 / 3
    assert own.mean() == pytest.approx(expected, abs=0.02)


def test_polars_and_lists_are_taken():
    assert np.array_equal(
        released().log_likelihood(),
        ldp.privatize(pl.Series(LABELS), classes=CLASSES, eps=1.0, seed=0).log_likelihood(),
    )
    whole_numbers = ldp.privatize([0, 1, 1], classes=[0, 1], eps=1.0, seed=0)
    assert whole_numbers.classes == [0, 1]


def test_rows_can_be_chosen_as_of_an_array():
    release = released()
    part = release[np.array([5, 2])]
    assert part.row_ids.tolist() == [5, 2]
    assert np.array_equal(part.log_likelihood(), release.log_likelihood()[[5, 2]])
    assert len(release[release.row_ids < 7]) == len(release[:7]) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": None}, "classes must be given"),
        ({"classes": ["no", "yes"]}, r"row \d+: the label is none of the classes 'no', 'yes'"),
        # 1 and '1' looked alike, and the label is not shown.
        ({"labels": [1], "classes": ["1", "2"]}, "the label is none of the classes '1', '2'"),
        ({"classes": ["no", "no"]}, "classes must be different"),
        ({"eps": None}, "eps must be given"),
        ({"eps": -1.0}, "eps must be a number > 0"),
        ({"mechanism": "rapor"}, "did you mean rappor"),
        ({"parameters": {"size": 2}}, "mechanism=rr has no parameter size; it has none beside eps"),
        (
            {"mechanism": "subset_selection", "parameters": {"sise": 2}},
            r"has no parameter sise \(did you mean size\?\); it has size, rule beside eps",
        ),
        ({"bounds": (0, 1)}, "give classes, or bounds of numbers, not both"),
        # Their sum, or the distance, overflowed: every number was released as minus infinity.
        *(
            ({"classes": None, "labels": [1.0], "bounds": bounds}, "too large or too near each")
            for bounds in ((-1e308, 1e308), (1e308, 1.5e308), (0, 5e-324))
        ),
        ({"row_ids": [1] * 4000}, "row ids must be distinct"),
        # The release was made and saved, and its file could not be read back.
        (
            {"row_ids": pd.Series([7, "7", *range(8, 4006)], dtype=object)},
            "row ids must be distinct, got '7' twice",
        ),
        ({"most_rows": 2}, "give persons= too"),
        ({"classes": ["no", float("nan")]}, "classes must be texts or finite numbers, got nan"),
        ({"classes": [1.0, float("inf")]}, "classes must be texts or finite numbers, got inf"),
        ({"classes": [["no"], ["yes", "x"]]}, "classes must be a list of names"),
        (
            {"labels": [["a"], ["b", "c"]]},
            "a sequence or array of N labels, got list",
        ),
        ({"labels": pd.DataFrame({"a": ["x"]})}, r"got DataFrame \(of a table, give one column\)"),
        ({"row_ids": [[1], [2, 3]]}, "row ids must be a sequence or array"),
        ({"persons": [[1], [2, 3]]}, "persons must be a sequence or array"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
    ],
)
def test_wrong_input_is_one_line(change, message):
    with pytest.raises(InputError, match=message) as caught:
        released(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "labels",
    [
        [0, None, 1],
        [0.0, float("nan"), 1.0],
        np.ma.masked_array([0, 1, 1], mask=[0, 1, 0]),
        pd.Series([0, None, 1], dtype="Int64"),
        pd.Series([0, pd.NA, 1], dtype=object),
        pd.array([0, None, 1], dtype="int64[pyarrow]"),
        pa.array([0, None, 1]),
        pa.chunked_array([[0], [None, 1]]),
        pl.Series([0, None, 1]),
    ],
)
def test_a_missing_label_of_any_container_is_refused_with_its_row(labels):
    # What a mask hid was released.
    for kind in ({"classes": [0, 1]}, {"bounds": (0, 1)}):
        with pytest.raises(InputError, match="row 1: the label is missing"):
            ldp.privatize(labels, eps=1.0, seed=0, **kind)
    if isinstance(labels, np.ma.MaskedArray):
        for key in ("row_ids", "persons"):
            with pytest.raises(InputError, match="row 1"):
                ldp.privatize([0, 1, 0], [0, 1], 1.0, seed=0, **{key: labels})


@pytest.mark.parametrize("labels", [["hiv", "no"], ["männlich".encode(), b"frau"]])
def test_the_error_does_not_hold_the_label(labels):
    # Of bytes it said one and held all of them, of others its context did, for crash reports.
    with pytest.raises(InputError, match="row 0: the label is none of the classes") as caught:
        ldp.privatize(labels, classes=["no", "yes"], eps=1.0)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert not any(str(each) in str(caught.value) for each in labels if each != "no")


@pytest.mark.parametrize("key", ["row_ids", "persons"])
@pytest.mark.parametrize("names", [[b"\xff", b"b"], [[1], [2]]])
def test_names_that_are_no_texts_are_refused(key, names):
    # Such as UUIDs, which Parquet keeps as bytes.
    given = {key: pd.Series(names, dtype=object)}
    with pytest.raises(InputError, match="must be numbers or texts, got others, such as bytes"):
        ldp.privatize(["a", "b"], classes=["a", "b"], eps=1.0, seed=0, **given)


def test_scalars_of_numpy_are_taken():
    # A loop over np.arange or np.linspace gives them.
    for eps in (np.float32(1), np.int64(1), np.array([1.0])[0]):
        release = ldp.privatize(LABELS, classes=CLASSES, eps=eps, seed=0)
        assert type(release.eps) is float and np.array_equal(release.outputs, released().outputs)
        plan = ldp.plan(np.int64(4000), np.int64(4), eps=eps)
        assert plan.eps == 1 and ldp.manifest_for_clients(CLASSES, eps).eps == 1


def test_secret_noise_differs_and_seeded_noise_does_not():
    first, second = (ldp.privatize(LABELS, classes=CLASSES, eps=1.0, again=True) for _ in range(2))
    assert not np.array_equal(first.log_likelihood(), second.log_likelihood())
    assert np.array_equal(released().log_likelihood(), released().log_likelihood())
    assert "for tests only" in released().summary()


def test_warnings_of_no_privacy_and_of_noise():
    with pytest.warns(UserWarning, match="practically no privacy"):
        released(eps=12.0)
    with pytest.warns(UserWarning, match="practically noise"):
        released(eps=0.01)


@pytest.mark.parametrize("names", [("Ann", "Ann "), (7, "007"), ("7", "7.0")])
def test_a_person_is_one_however_the_name_is_written(names):
    # A blank after a name made two persons of one, who spent eps twice.
    labels, persons = ["no", "yes"] * 2, [*names, "Bob", " Bob"]
    release = ldp.privatize(
        labels, classes=["no", "yes"], eps=1.0, seed=0, persons=persons, most_rows=1
    )
    assert release.row_ids.tolist() == [0, 2]


def test_a_person_with_several_rows_spends_eps_in_all():
    persons = np.repeat(np.arange(1000), 4)
    release = released(persons=persons, most_rows=2, persons_column="person")
    assert len(release) == 2000
    assert release.eps == release.eps_spent == 1.0
    each = np.exp(release.log_likelihood())
    assert np.log(each.max() / each.min()) == pytest.approx(0.5)
    assert released(persons=persons).manifest.row_eps == 0.25


def test_numbers_are_released_without_bias():
    release = ldp.privatize([3.0] * 20_000, bounds=(0, 10), eps=1.0, seed=0)
    values = release.unbiased_values()
    assert values.mean() == pytest.approx(3.0, abs=4 * values.std() / 20_000**0.5)
    with pytest.raises(InputError, match="use LabelDPRegressor"):
        ldp.LabelDPClassifier().fit(np.zeros((20_000, 1)), release)


def test_reports_that_nobody_can_have_drawn_are_refused():
    manifest = ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism="subset_selection")
    with pytest.raises(InputError, match="report 1 cannot come from subset_selection"):
        ldp.Release.of_reports(manifest, [0, 1], [[1, 0, 0, 0], [1, 1, 1, 0]])
    with pytest.raises(InputError, match="reports must be what clients draw"):
        ldp.Release.of_reports(manifest, [0, 1], ["no", "yes"])
    with pytest.raises(InputError, match="reports must be what clients draw"):
        ldp.Release.of_reports(manifest, [0, 1], [[0], [0, 1]])
    rr = ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism="rr")
    with pytest.raises(
        InputError, match=r"reports do not fit rr: labels must be in \[0, 3\], got 4"
    ):
        ldp.Release.of_reports(rr, [0, 1], [0, 4])


def test_reports_are_taken_as_they_are_or_not_at_all():
    # 256 became bit 0, a report of NaN was kept, and a real of -2 became 254.
    rappor = ldp.manifest_for_clients(["no", "yes"], eps=1.0, mechanism="rappor")
    for wrong in (256, np.nan, 0.5):
        with pytest.raises(InputError, match="do not fit rappor: released bits must be 0 or 1"):
            ldp.Release.of_reports(rappor, [0, 1], [[wrong, 1], [0, 0]])
    alibi = ldp.manifest_for_clients(["no", "yes"], eps=1.0, mechanism="alibi")
    release = ldp.Release.of_reports(alibi, [0, 1], [[-2, 3], [0, 1]])
    assert release.outputs.tolist() == [[-2, 3], [0, 1]]
    with pytest.raises(InputError, match="report 1 cannot come from alibi"):
        ldp.Release.of_reports(alibi, [0, 1], [[-2, 3], [np.nan, 1]])


def test_a_release_waits_for_no_library_that_it_does_not_need():
    # `ldp.privatize` took 2 s beyond torch: half of it for scipy.stats.
    code = (
        "import sys, labeldp as ldp; ldp.privatize(['a', 'b'], ['a', 'b'], 9.0, 'rr', seed=0)\n"
        "print(*{'sklearn', 'pandas', 'pyarrow', 'scipy.stats', 'hydra'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_labels_collected_one_by_one_are_numbers():
    # Data loaders give tensors and arrays without a dimension: "1 is not '1'".
    for made in (torch.tensor, np.array):
        labels = [made(n % 2) for n in range(8)]
        assert ldp.privatize(labels, [0, 1], math.inf, seed=0).outputs.tolist() == [0, 1] * 4
