"""Model files of the command line: what `labeldp fit` writes is read, and nothing else."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.models import load_model, model_for, save_model

N = 120
FEATURES = pd.DataFrame({
    "x": np.arange(-N / 2, N / 2),
    "gap": np.where(np.arange(N) % 7 == 0, np.nan, np.arange(N) % 5),
    "never": np.full(N, np.nan),
    "town": [f"t{row % 60}" for row in range(N)],  # more than have an indicator
    "sex": ["f", "m"] * (N // 2),
    "same": ["z"] * N,
})  # fmt: skip


def fitted(columns=("x", "gap", "town", "sex"), name="linear", classes=("no", "yes")):
    labels = [classes[min(row * len(classes) // N, len(classes) - 1)] for row in range(N)]
    release = ldp.privatize(labels, classes=list(classes), eps=3.0, seed=0, again=True)
    table = FEATURES[list(columns)].set_axis(release.row_ids)
    return model_for(table, name).fit(table, release), table


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Returns the line in which the commands refuse a model file."""
    monkeypatch.chdir(tmp_path)
    FEATURES.to_csv("f.csv", index=False)

    def line(path):
        capsys.readouterr()
        assert main(["predict", "f.csv", "--model", str(path), "--out", "p.csv"]) == 2
        assert not Path("p.csv").exists()
        (said,) = capsys.readouterr().err.splitlines()
        assert said.isprintable()
        return said

    return line


@pytest.mark.parametrize("name", ["linear", "boosted_trees"])
@pytest.mark.parametrize(
    ("columns", "classes"),
    [
        (tuple(FEATURES), ("no", "yes", "maybe")),
        (("x",), ("no", "yes")),
        (("never",), (1, 0)),
        (("town",), ("a", 2, 3.5)),
        (("same", "sex"), (True, False)),
    ],
)
def test_every_model_that_a_fit_writes_is_read(name, columns, classes, tmp_path):
    model, table = fitted(columns, name, classes)
    save_model(model, tmp_path / "m.skops")
    found = load_model(tmp_path / "m.skops").predict_proba(table)
    np.testing.assert_array_equal(found, model.predict_proba(table))


def with_a_vote(model, other):
    x = FEATURES[["x"]].to_numpy()
    voting = VotingRegressor([("a", other)]).fit(x, x[:, 0])
    del voting.named_estimators_
    model.steps.insert(1, ("vote", voting))


@pytest.mark.parametrize("other", [SVR(), HistGradientBoostingRegressor(max_iter=1)])
def test_a_step_of_another_type_is_refused_by_name(other, refused):
    # libsvm read foreign memory for an SVR whose support vectors had been cut off.
    model, _ = fitted()
    with_a_vote(model, other)
    save_model(model, Path("evil.skops"))
    said = refused("evil.skops")
    assert "VotingRegressor" in said and "OneHotEncoder" in said and "fit again" in said


def more_steps(model):
    model.steps.insert(1, ("more", StandardScaler().fit(np.zeros((2, 54)))))


def more_steps_inside(model):
    numbers = model["columns"].named_transformers_["numbers"]
    numbers.steps.append(("more", StandardScaler().fit(np.zeros((2, 3)))))


def columns_of_the_encoder(model):
    # The encoder's indicators were written beyond the end of their array.
    model["columns"].named_transformers_["categories"]._n_features_outs[0] = 1


def categories(model):
    encoder = model["columns"].named_transformers_["categories"]
    encoder.categories_[0] = encoder.categories_[0][:-1]


def rare_categories(model):
    encoder = model["columns"].named_transformers_["categories"]
    encoder._default_to_infrequent_mappings[0] += 10**6


def scale(model):
    scaler = model["columns"].named_transformers_["numbers"]["standardscaler"]
    scaler.scale_ = scaler.scale_[:-1]


def coefficients(model):
    linear = model["classifier"].model_
    vars(linear)["coefficients"] = linear.coefficients[:, :-1]


def intercept(model):
    vars(model["classifier"].model_)["intercept"] = np.array([0.0, np.nan])


def classes(model):
    model["classifier"].classes_ = np.array(["yes", "yes"])


DAMAGES = [
    more_steps, more_steps_inside, columns_of_the_encoder, categories, rare_categories, scale,
    coefficients, intercept, classes,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_another_form_is_refused(damage, refused):
    model, _ = fitted()
    damage(model)
    save_model(model, Path("evil.skops"))
    assert "fit again" in refused("evil.skops") or damage is classes


def test_a_tree_that_leads_out_of_its_table_is_refused(refused):
    # scikit-learn would read memory that is not the tree's, or go round in a circle for ever.
    model, _ = fitted(name="boosted_trees")
    nodes = model["classifier"].model_.stages[0].trees[0]._predictors[0][0].nodes
    for field, value in (
        ("left", 2**31 - 5), ("right", 0), ("feature_idx", 99), ("feature_idx", -1),
        ("is_categorical", 1),
    ):  # fmt: skip
        before = nodes[field][0]
        nodes[field][0] = value
        save_model(model, Path("evil.skops"))
        assert "a tree leads out of its table" in refused("evil.skops")
        nodes[field][0] = before


def test_numbers_that_overflow_are_one_line(refused):
    model, _ = fitted()
    model["columns"].named_transformers_["numbers"]["standardscaler"].scale_ *= 1e-320
    save_model(model, Path("evil.skops"))
    assert "cannot be predicted" in refused("evil.skops")


def rewritten(change):
    """Writes the file of a model whose schema was changed."""
    save_model(fitted()[0], Path("m.skops"))
    with zipfile.ZipFile("m.skops") as whole, zipfile.ZipFile("evil.skops", "w") as file:
        for name in whole.namelist():
            data = whole.read(name)
            file.writestr(name, change(data) if name == "schema.json" else data)
    return "evil.skops"


def test_what_a_file_says_reaches_the_terminal_as_text(refused):
    path = rewritten(lambda data: data.replace(b"StandardScaler", b"\\u001b[2J\\nScaler"))
    assert r"\x1b[2J\nScaler" in refused(path)


def test_a_deep_file_is_one_line(refused):
    assert "holds no model" in refused(rewritten(lambda data: b"[" * 10**6 + b"]" * 10**6))
    inner = (
        b'{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": ['
    )
    depth = 5000
    deep = inner * depth + b"]}" * depth
    assert "holds no model" in refused(rewritten(lambda data: deep))


def test_a_file_that_grows_is_refused(refused):
    # A gigabyte of zeros takes a megabyte in a zip file.
    skops.io.dump(fitted()[0], "evil.skops", compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in refused("evil.skops")

    def repeated(data):
        schema = json.loads(data)
        nodes = [schema]
        for node in nodes:
            nodes += [each for each in node.values() if isinstance(each, dict)]
            nodes += [each for part in node.values() if isinstance(part, list) for each in part
                      if isinstance(each, dict)]  # fmt: skip
        array = next(node for node in nodes if "file" in node)
        schema["more"] = [array | {"__id__": number} for number in range(1, 1000)]
        return json.dumps(schema).encode()

    assert "array twice" in refused(rewritten(repeated))
