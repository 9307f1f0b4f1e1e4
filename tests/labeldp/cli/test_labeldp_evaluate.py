"""`labeldp evaluate` and `plan --pilot`: what a model is worth, in one table."""

import re

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.evaluation import figure_of
from labeldp.models import cross_validated
from labeldp.support.validate import InputError

EVALUATE = ["evaluate", "test.csv", "--release", "r.parquet", "--row-id", "person"]
EVALUATE += ["--model", "m.skops"]


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A folder with 1,000 people, a model of the first 600, and features of the others."""
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    table = pd.DataFrame({"person": [f"p{n}" for n in range(1000)], "x": stream.normal(size=1000)})
    table["answer"] = np.where(stream.random(1000) < 1 / (1 + np.exp(1 - 2 * table.x)), "yes", "no")
    table.to_csv("survey.csv", index=False)
    features = table.drop(columns="answer")
    features[:600].to_csv("train.csv", index=False)
    features[600:].sample(frac=1, random_state=0).to_csv("test.csv", index=False)
    release = "release survey.csv --label answer --classes no,yes --eps 3 --row-id person"
    assert main([*release.split(), "--out", "r.parquet", "--seed", "0"]) == 0
    fit = "fit train.csv --release r.parquet --row-id person --out m.skops"
    assert main(fit.split()) == 0
    return table


def test_every_metric_of_held_out_rows(survey, tmp_path, capsys):
    # In another order than the release: rows that are mixed up would have an AUC of 0.5.
    capsys.readouterr()
    assert main(EVALUATE) == 0
    printed = capsys.readouterr().out
    assert "400 releases" in printed
    auc = re.search(r"roc auc +(\S+)", printed)
    assert auc is not None and 0.75 < float(auc[1]) < 0.98
    for name in ("accuracy of always saying no", "lift of the top tenth, yes", "recall, no"):
        assert name in printed
    assert (tmp_path / "evaluation.png").read_bytes().startswith(b"\x89PNG")


def evaluated(capsys, *files, by="row", more=()):
    """The words of each line that `evaluate` prints below those of the release."""
    capsys.readouterr()
    line = ["evaluate", *map(str, files), "--release", "r.parquet", "--row-id", by, *more]
    assert main(line) == 0
    return [each.split() for each in capsys.readouterr().out.splitlines()[2:]]


def test_predictions_of_any_tool_have_the_table_of_the_model(survey, tmp_path, capsys):
    assert main(["predict", "test.csv", *EVALUATE[4:], "--out", "p.csv"]) == 0
    own = evaluated(capsys, "test.csv", by="person", more=["--model", "m.skops"])
    assert evaluated(capsys, "p.csv") == own
    # The predicted classes alone have the metrics that need no more.
    table = pd.read_csv("p.csv")
    table[["row", "predicted"]].to_parquet("few.parquet")
    *few, last = evaluated(capsys, "few.parquet", more=["--out", "none.png"])
    assert len(few) == 10 and all(each in own for each in few)
    assert "p_NAME" in last[-1] and not (tmp_path / "none.png").exists()
    # What a file predicts need not be the most likely class; scores are judged as they are.
    table.assign(predicted="no").to_csv("no.csv", index=False)
    judged = evaluated(capsys, "no.csv")
    assert judged[1][-4:] == next(each for each in own if "always" in each)[-4:]
    assert all(each in own for each in judged if {"auc", "loss", "brier", "error"} & {*each})


def test_two_files_have_the_difference_of_the_same_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    chance = stream.beta(0.5, 0.5, 400)
    labels = np.where(stream.random(400) < chance, "yes", "no").tolist()
    ids = [f"p{n}" for n in range(600, 1000)]
    release = ldp.privatize(labels, ["no", "yes"], 3.0, row_ids=ids, seed=0)
    release.save("r.parquet")
    good, bad = np.stack([1 - chance, chance], 1), np.full((400, 2), 0.5)
    for name, scores in (("good", good), ("bad", bad)):
        table = pd.DataFrame(scores, release.row_ids, ["p_no", "p_yes"]).rename_axis("person")
        table.sample(frac=1, random_state=len(name)).to_csv(f"{name}.csv")
    lines = evaluated(capsys, "good.csv", "bad.csv", by="person")
    gap = ldp.metrics.difference(ldp.metrics.roc_auc, release, good, bad)
    value = ldp.metrics.roc_auc(release, good).value
    expected = [f"{value:.3f}", "0.500", f"{gap.value:+.3f}", f"{gap.low:+.3f}", "to"]
    assert ["roc", "auc", *expected, f"{gap.high:+.3f}"] in lines
    assert lines[0][1:3] == ["good.csv", "bad.csv"] and gap.low > 0
    same = evaluated(capsys, "good.csv", "good.csv", by="person")[1]
    assert " ".join(same).endswith("+0.000 +0.000 to +0.000: cannot be told")
    pd.read_csv("good.csv").query("person != 'p777'").to_csv("few.csv", index=False)
    by = ["--release", "r.parquet", "--row-id", "person"]
    for files in (["few.csv", "good.csv"], ["good.csv", "few.csv"]):
        assert main(["evaluate", *files, *by]) == 2
        said = capsys.readouterr().err
        assert "p777" in said and said.count("\n") == 1
    assert main(["evaluate", "few.csv", "few.csv", *by, "--model", "m.skops"]) == 2
    assert "--model" in capsys.readouterr().err


RIGHT = {"id": ["a", "b", "c"], "predicted": ["no", "yes", "no"]}
RIGHT |= {"p_no": [0.5, 0.1, 1], "p_yes": [0.5, 0.9, 0]}
WRONG = {
    "'Yes' is no class of r.parquet (did you mean yes?); classes: no, yes": {
        "predicted": ["no", "no", "Yes"]
    },
    "row 2, column p_yes: there is no probability": {"p_yes": [0.5, np.nan, 0]},
    "row 3, columns p_no, p_yes: it has sum 100, not 1": {"p_no": [0.5, 0.1, 100]},
    "row 2, columns p_no, p_yes: it has -0.2": {"p_no": [0.5, -0.2, 1], "p_yes": [0.5, 1.2, 0]},
    "lacks the column p_yes, and must have the probability of each class": {"p_yes": None},
    "no other column p_... (did you mean p_yes?)": {"p_Yes": [0, 0, 0], "p_yes": None},
    "(a file of features needs --model)": {"predicted": None, "p_no": None, "p_yes": None},
    "it has b a second time": {"id": ["b", "b", "c"]},
    "none of the rows": {"id": ["x", "y", "z"]},
}


def test_probabilities_with_three_decimals_are_taken_as_they_are_meant(
    tmp_path, monkeypatch, capsys
):
    # A hosted model writes 0.333 three times; a sum of 0.99 is no rounding.
    monkeypatch.chdir(tmp_path)
    names = ["a", "b", "c"]
    release = ldp.privatize(names * 20, names, 3.0, row_ids=[f"r{n}" for n in range(60)], seed=0)
    release.save("r.parquet")
    third = np.full((60, 3), 0.333)
    table = pd.DataFrame(third, release.row_ids, ["p_a", "p_b", "p_c"]).rename_axis("id")
    table.to_csv("p.csv")
    loss = ldp.metrics.log_loss(release, third / third.sum(1, keepdims=True)).value
    found = next(
        line for line in evaluated(capsys, "p.csv", by="id") if line[:2] == ["log", "loss"]
    )
    assert found[2] == f"{loss:.3f}"
    (table - 0.002).to_csv("p.csv")
    assert main(["evaluate", "p.csv", "--release", "r.parquet", "--row-id", "id"]) == 2
    assert "sum 0.993" in capsys.readouterr().err


def test_wrong_predictions_are_one_line_with_the_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    release = ldp.privatize(
        ["no", "yes", "no"], ["no", "yes"], 9.0, row_ids=["a", "b", "c"], seed=0
    )
    release.save("r.parquet")
    line = ["evaluate", "p.csv", "--release", "r.parquet", "--row-id", "id"]
    for says, change in WRONG.items():
        table = pd.DataFrame({key: each for key, each in (RIGHT | change).items() if each})
        table.to_csv("p.csv", index=False)
        capsys.readouterr()
        assert main(line) == 2, says
        printed = capsys.readouterr()
        assert says in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert not (tmp_path / "evaluation.png").exists()


def test_rows_of_one_person_count_together_or_a_word_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"id": range(400), "who": np.arange(400) // 4})
    said = table.assign(predicted=np.where(table.who % 3, "no", "yes"))
    whose = {"persons": table.who.to_numpy(), "persons_column": "who"}
    labels, ids = np.repeat(["no", "yes"], 200).tolist(), table.id.to_numpy()
    release = ldp.privatize(labels, ["no", "yes"], 8.0, row_ids=ids, seed=0, **whose)
    release.save("r.parquet")
    table.assign(predicted="no").to_csv("no.csv", index=False)
    both = said.predicted.to_numpy(), np.full(400, "no")
    for persons in (None, table.who):
        said.drop(columns=[] if persons is not None else "who").to_csv("p.csv", index=False)
        share = ldp.metrics.accuracy(release, both[0], persons=persons)
        gap = ldp.metrics.difference(ldp.metrics.accuracy, release, *both, persons=persons)
        first, second = f"{share.low:.3f} to {share.high:.3f}", f"{gap.low:+.3f} to {gap.high:+.3f}"
        for files, ends in ((["p.csv"], first), (["p.csv", "no.csv"], second)):
            assert main(["evaluate", *files, "--release", "r.parquet", "--row-id", "id"]) == 0
            note, *lines = capsys.readouterr().out.splitlines()
            assert any(each.split()[0] == "accuracy" and ends in each for each in lines)
            assert ("without a column who" in note) == (persons is None)


def test_class_names_are_no_formulas():
    # matplotlib took $ for the start of one, and the table ended in a traceback.
    names = ["under $25k", "$25k_$50k", "$50k^2"]
    release = ldp.privatize(np.repeat(names, 200).tolist(), names, eps=6.0, seed=0)
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], 600)
    figure = figure_of(release, scores)
    figure.draw_without_rendering()
    legend = figure.axes[1].get_legend()
    assert {each.get_text() for each in legend.get_texts()} == set(names)


def test_rows_of_the_fit_are_refused(survey, tmp_path, capsys):
    capsys.readouterr()
    assert main([*EVALUATE[:1], "train.csv", *EVALUATE[2:]]) == 2
    said = capsys.readouterr().err
    assert "600 of 600 rows were used in the fit" in said and said.count("\n") == 1
    assert not (tmp_path / "evaluation.png").exists()
    assert main([*EVALUATE, "--out", "r.parquet"]) == 2
    assert "--out" in capsys.readouterr().err


def test_the_picture_shows_every_point_and_both_uncertainties():
    stream = np.random.default_rng(0)
    x = stream.normal(size=4000)
    chances = 1 / (1 + np.exp(-4 * x))
    labels = (stream.random(4000) < chances).astype(int)
    release = ldp.privatize(labels, classes=[0, 1], eps=1.0, seed=0)
    calibration, roc = figure_of(release, np.stack([1 - chances, chances], 1)).axes
    points = calibration.containers[0].lines[0].get_xydata()
    (left, right), (low, high) = calibration.get_xlim(), calibration.get_ylim()
    assert ((left < points) & (points < right)).all() and left > 0.4
    assert ((low < points[:, 1]) & (points[:, 1] < high)).all()
    # Where the curve is steep, the share of the other rows is the uncertain one.
    band = roc.patches[0].get_xy()
    start = band[np.abs(band[:, 1] - 0.5) < 0.25, 0]
    assert start.max() - start.min() > 0.05


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_is_over_the_class_that_is_named(seed):
    # "accuracy 30.3, always saying Depression 30.0, better: +8.4": over the class of each fifth.
    labels = np.random.default_rng(seed).integers(0, 5, 200)
    release = ldp.privatize(labels, classes=range(5), eps=0.5, seed=seed)
    table = pd.DataFrame({"x": np.zeros(200)})
    found = cross_validated(ldp.LabelDPClassifier(penalty=1.0), table, release)
    named = ldp.metrics.accuracy(release, np.full(200, found.usual))
    assert found.accuracy_of_usual == named
    shares = ldp.class_shares(release)
    assert shares[found.usual].value == max(share.value for share in shares.values())
    assert found.gain.value == found.accuracy.value - named.value
    assert found.gain.low <= 0  # there is nothing to learn


def test_intervals_allow_for_models_that_share_rows():
    # Of the rows alone they would hold in 82 % of 60 simulations of 500 rows, at eps=1.
    stream = np.random.default_rng(0)
    labels = stream.integers(0, 5, 500)
    table = pd.DataFrame(stream.normal(size=(500, 2)) + labels[:, None] / 2)
    release = ldp.privatize(labels, classes=range(5), eps=2.0, seed=0)
    model = ldp.LabelDPClassifier(penalty=1e-3)
    of_rows = ldp.metrics.accuracy(release, ldp.cross_val_predict(model, table, release))
    found = cross_validated(model, table, release)
    assert found.accuracy.value == of_rows.value
    assert found.accuracy.high - of_rows.value == pytest.approx(
        1.5 * (of_rows.high - of_rows.value)
    )
    sure = ldp.privatize(np.tile([0, 1], 50), classes=[0, 1], eps=9.0, seed=0)
    found = cross_validated(model, pd.DataFrame(np.tile([0.0, 1.0], (1, 50)).T), sure)
    assert found.accuracy.high == 1.0 and 0 < found.accuracy.low < found.accuracy.value


def test_a_plan_from_a_pilot(survey, capsys):
    survey.drop(columns="person")[:300].to_csv("pilot.csv", index=False)
    plan = ["plan", "--rows", "400", "--pilot", "pilot.csv", "--label", "answer", "--eps", "0.3,4"]
    assert main([*plan, "--accuracy", "0.7"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^ *0.3 +rr", printed, re.M) and "that accuracy needs eps=" in printed
    assert main([*plan[:-1], "0.3", "--accuracy", "0.99"]) == 2
    assert "0.99 is not expected at any eps up to 0.3" in capsys.readouterr().err
    assert main([*plan, "--classes", "2"]) == 2 == main([*plan, "--ordinal"])
    assert main(["plan", "--rows", "400", "--classes", "2", "--eps", "1,2"]) == 2
    assert main(["plan", "--rows", "400", "--pilot", "pilot.csv"]) == 2


def test_a_plan_says_what_comes_true():
    # What it expects of 3,000 releases at eps=1, beside what such releases give on other people.
    stream = np.random.default_rng(0)
    X = stream.normal(size=(9000, 3))
    y = (X[:, 0] + stream.normal(size=9000) > 0.5).astype(int)
    found = ldp.plan(num_rows=3000, pilot=(X[:600], y[:600]), eps=[0.1, 1])
    assert found.table.eps.tolist() == [0.1, 1, np.inf] and found.mechanism == "rr"
    release = ldp.privatize(y[600:3600], classes=[0, 1], eps=1.0, seed=0)
    clf = ldp.LabelDPClassifier().fit(X[600:3600], release)
    row = found.table.iloc[1]
    assert row.accuracy_low < (clf.predict(X[3600:]) == y[3600:]).mean() < row.accuracy_high
    assert found.table.accuracy[0] < row.accuracy
    with pytest.raises(InputError, match="5 rows of each class"):
        ldp.plan(num_rows=100, pilot=(X[:9], [0] * 5 + [1] * 4))
    with pytest.raises(InputError, match="pilot"):
        ldp.plan(num_rows=100, num_classes=2, eps=1.0, accuracy=0.8)
