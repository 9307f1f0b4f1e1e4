"""Classes are sorted wherever a user sees them, in whatever order they were given.

scikit-learn's scorers take the second column for the larger class: a good model had an AUC of 0.
"""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.estimates import possible_values, unbiased_labels
from labeldp.models import save_model
from labeldp.named_mechanisms import CLASS_MECHANISMS
from labeldp.support.validate import InputError

SIZE = 600
X = np.random.default_rng(0).normal(size=(SIZE, 3))
GIVEN = [["yes", "no"], [1, 0], [7, 3], ["mid", "low", "top"], [30, 1, 2]]


def named(names):
    """Labels that the first feature tells, with noise; their classes in the order of `names`."""
    noisy = X[:, 0] + np.random.default_rng(1).normal(scale=0.7, size=SIZE)
    number = np.searchsorted(np.quantile(noisy, np.linspace(0, 1, len(names) + 1)[1:-1]), noisy)
    return np.array(names)[number]


def true_release(names):
    """A release without noise, by which a model learns what scikit-learn's own learns."""
    return ldp.privatize(named(names), names, np.inf, "none", seed=0)


@pytest.mark.parametrize("names", GIVEN, ids=str)
def test_every_scorer_of_scikit_learn_says_what_it_says_of_its_own_classifier(names):
    y = named(names)
    plain = GaussianNB().fit(X, y)  # which has no decision_function, for scorers to prefer
    clf = ldp.LabelDPClassifier(GaussianNB(), max_rounds=1).fit(X, true_release(names))
    assert clf.classes_.tolist() == plain.classes_.tolist() == sorted(names)
    compared = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in get_scorer_names():
            try:
                expected = get_scorer(name)(plain, X, y)
            except (TypeError, ValueError):  # it takes no such labels
                continue
            if np.isfinite(expected):
                assert get_scorer(name)(clf, X, y) == pytest.approx(expected, abs=1e-3), name
                compared.add(name)
    both = {"accuracy", "balanced_accuracy", "neg_log_loss", "d2_log_loss_score"}
    more = {"roc_auc_ovr", "roc_auc_ovo_weighted", "average_precision", "top_k_accuracy"}
    assert compared >= both | ({"roc_auc"} if len(names) == 2 else more)
    if names == [1, 0]:
        assert compared >= {"average_precision", "neg_brier_score", "f1", "precision", "recall"}


@pytest.mark.parametrize("names", GIVEN, ids=str)
def test_metrics_take_the_columns_of_any_classifier_of_scikit_learn(names):
    y, release = named(names), true_release(names)
    scores = LogisticRegression().fit(X, y).predict_proba(X)
    two, labels = len(names) == 2, sorted(names)
    auc = roc_auc_score(y, scores[:, 1] if two else scores, multi_class="ovr")
    assert ldp.metrics.roc_auc(release, scores).value == pytest.approx(auc)
    matrix = ldp.metrics.confusion_matrix(release, scores).value
    assert matrix.index.tolist() == matrix.columns.tolist() == labels
    rows = pd.DataFrame(scores, columns=labels)
    assert ldp.metrics.accuracy(release, rows).value == ldp.metrics.accuracy(release, scores).value


@pytest.mark.parametrize("estimator", [None, "boosted_trees", "mlp", LogisticRegression()])
def test_the_order_in_which_classes_are_given_changes_no_number(estimator):
    # Of two classes randomised response draws the same names from one seed.
    y = named(["no", "yes"])
    of = [ldp.privatize(y, order, 2.0, "rr", seed=0) for order in (["no", "yes"], ["yes", "no"])]
    clf = [ldp.LabelDPClassifier(estimator, epochs=3).fit(X[:400], each[:400]) for each in of]
    assert np.array_equal(clf[0].predict_proba(X), clf[1].predict_proba(X))
    held = [each[400:] for each in of]
    for one, other in zip(clf, reversed(held), strict=True):  # the model of one, the other release
        assert ldp.metrics.roc_auc(other, one, X=X[400:]).value > 0.7
        assert ldp.estimate_accuracy(one, X[400:], other).value > 0.6


@pytest.mark.parametrize("loss", ["plain", "bce", "softmax_bits", "soft_label", "unbiased"])
def test_every_loss_reads_outputs_in_the_order_of_the_scores(loss):
    names = ["mid", "low", "top"]
    mechanism = "rr" if loss == "plain" else "rappor"
    release = ldp.privatize(named(names), names, 6.0, mechanism, seed=0)
    model = ldp.LabelDPClassifier(loss=loss).fit(X, release)
    assert (model.predict(X) == named(names)).mean() > 0.5  # of the right columns


def in_order(release, rows):
    """Columns in the order of the manifest, in that of the release."""
    return rows[:, [release.manifest.classes.index(name) for name in release.classes]]


@pytest.mark.parametrize("name", [*CLASS_MECHANISMS, "table"])
def test_all_that_a_release_says_has_sorted_columns(name, tmp_path):
    names = ["mid", "low", "top", "all"]
    labels = np.random.default_rng(0).choice(names, 500)
    if name == "table":  # that treats classes differently
        chances = [[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1], [0.1, 0.1, 0.8, 0], [0, 0.1, 0, 0.9]]
        release = ldp.privatize(labels, design=ldp.designs.table(chances, names), seed=0)
    else:
        release = ldp.privatize(labels, names, np.inf if name == "none" else 4.0, name, seed=0)
    release.save(tmp_path / "r.parquet")
    metadata = pq.read_schema(tmp_path / "r.parquet").metadata
    assert json.loads(metadata[b"labeldp"])["classes"] == names  # as they were drawn
    release = ldp.load_release(tmp_path / "r.parquet")
    assert release.classes == ["all", "low", "mid", "top"]
    mechanism, outputs = (
        release.manifest.class_mechanism,
        release.manifest.encoding.outputs(release.messages),
    )
    exact = in_order(release, mechanism.log_likelihood(outputs, 4).numpy())
    assert np.array_equal(release.log_likelihood(), exact)
    centred = release.stored.centred_log_likelihood.numpy()
    assert centred == pytest.approx(exact - exact.max(1, keepdims=True), abs=1e-3)
    assert np.array_equal(release.stored.most_likely_labels, exact == exact.max(1, keepdims=True))
    own = labels[:, None] == np.array(release.classes)
    estimates = unbiased_labels(release)
    for number in range(4):
        spread = 5 * estimates[:, number].std() / 500**0.5
        assert estimates[own[:, number]].mean(0).argmax() == number
        assert estimates[:, number].mean() == pytest.approx(own[:, number].mean(), abs=spread)
        values = possible_values(release, number)
        near = values and np.abs(estimates[:, [number]] - np.array(values)).min(1).max()
        assert not near or near < 1e-6
    for number, (key, share) in enumerate(ldp.class_shares(release).items()):
        assert key == release.classes[number] and share.low <= share.value <= share.high
    if release.outputs.dim() == 2:
        assert np.array_equal(release.outputs, in_order(release, outputs.numpy()))
    elif release.stored.are_classes:
        drawn = np.array(names)[outputs]
        assert np.array_equal(np.array(release.classes)[release.outputs], drawn)
    # Drawn by the sorted numbers, labels give outputs that the likelihood gives back.
    codes = torch.from_numpy(own.argmax(1))
    drawn = release.class_mechanism.release(codes, 4, torch.Generator().manual_seed(0))
    likelihood = release.class_mechanism.log_likelihood(drawn, 4).exp()
    mean = likelihood.gather(1, codes[:, None]).mean()
    assert mean > 1.5 * likelihood.mean()


def test_a_seed_draws_the_same_class_names_as_before():
    labels, names = ["low", "top", "mid", "mid", "low", "top", "low", "mid"], ["mid", "low", "top"]
    release = ldp.privatize(labels, names, 1.5, "rr", seed=7)
    drawn = ["low", "top", "mid", "top", "low", "low", "top", "mid"]
    assert [release.classes[number] for number in release.outputs] == drawn
    bits = ldp.privatize(labels, names, 1.5, "rappor", seed=7)
    assert bits.messages.ravel().tolist() == [64, 192, 128, 160, 192, 96, 0, 64]
    assert bits.outputs[1].tolist() == [1, 1, 0]  # low and mid, not top


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([10, 9, -1], [-1, 9, 10]),
        (["10", "9", "Z", "a"], ["10", "9", "Z", "a"]),
        ([True, False], [False, True]),
        ([2.5, 1, True + 2], [1, 2.5, 3]),
        (["b", 2, "a", 1.5, False], [False, 1.5, 2, "a", "b"]),
    ],
)
def test_classes_of_every_type_are_sorted(names, expected):
    labels = [names[number % len(names)] for number in range(SIZE)]
    release = ldp.privatize(labels, names, np.inf, "none", seed=0)
    assert release.classes == expected
    if len({isinstance(name, str) for name in names}) == 1:
        assert release.classes == np.unique(names).tolist()
    clf = ldp.LabelDPClassifier(penalty=1e-3).fit(np.eye(len(names))[np.arange(SIZE) % len(names)],
                                                 release)  # fmt: skip
    assert clf.classes_.tolist() == expected
    assert clf.predict(np.eye(len(names))).tolist() == names


def test_equal_names_are_refused():
    with pytest.raises(InputError, match="different"):
        ldp.privatize([1, 0], [True, 1, 0], 1.0)


@pytest.mark.parametrize("reports", [[0, 3], [-1, 0], [[0, 1]], [[0, 1, 1, 0]], [[0.5, 1, 1]]])
def test_reports_that_do_not_fit_are_refused_as_of_sorted_classes(reports):
    # A column too many would be left out unseen, and -1 would be the last class.
    name = "rr" if np.ndim(reports) == 1 else "rappor"
    for classes in (["a", "b", "c"], ["b", "c", "a"]):
        manifest = ldp.manifest_for_clients(classes, 1.0, name)
        with pytest.raises(InputError, match=f"reports do not fit {name}"):
            ldp.Release.of_reports(manifest, range(len(reports)), reports)


def test_a_model_of_an_older_version_must_be_fitted_again(tmp_path, capsys):
    # Its columns were in the order that was given.
    release = true_release(["yes", "no"])
    clf = ldp.LabelDPClassifier(penalty=1.0).fit(X, release)
    assert pickle.loads(pickle.dumps(clf)).classes_.tolist() == ["no", "yes"]
    clf.classes_ = clf.classes_[::-1]
    with pytest.raises(InputError, match="fit it again"):
        pickle.loads(pickle.dumps(clf))
    save_model(make_pipeline(clf), tmp_path / "m.skops")
    pd.DataFrame(X).to_csv(tmp_path / "x.csv", index=False)
    given = ["predict", str(tmp_path / "x.csv"), "--model", str(tmp_path / "m.skops")]
    assert main([*given, "--out", str(tmp_path / "p.csv")]) == 2
    said = capsys.readouterr().err
    assert "m.skops" in said and "fit it again" in said and said.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()


def test_the_commands_give_the_same_numbers_for_both_orders(tmp_path, monkeypatch, capsys):
    ids = [f"p{number}" for number in range(SIZE)]
    table = pd.DataFrame(X, columns=list("abc")).assign(id=ids)
    said, files = [], []
    for classes in ("yes,no", "no,yes"):
        (tmp_path / classes).mkdir()
        monkeypatch.chdir(tmp_path / classes)
        table[["id"]].assign(y=named(["no", "yes"])).to_csv("y.csv", index=False)
        table[:400].to_csv("train.csv", index=False)
        table[400:].to_csv("test.csv", index=False)
        fitted = ["--release", "r.parquet", "--row-id", "id"]
        for line in (
            ["release", "y.csv", "--label", "y", "--classes", classes, "--eps", "3", "--seed", "0",
             "--row-id", "id", "--out", "r.parquet"],
            ["fit", "train.csv", *fitted, "--out", "m.skops"],
            ["predict", "test.csv", "--model", "m.skops", "--row-id", "id", "--out", "p.csv"],
            ["evaluate", "test.csv", *fitted, "--model", "m.skops"],
            ["report", "r.parquet", "--model", "m.skops", "--features", "test.csv", "--row-id",
             "id"],
        ):  # fmt: skip
            assert main(line) == 0
        said.append(capsys.readouterr().out)
        files.append(pd.read_csv("p.csv"))
    assert said[0] == said[1]
    pd.testing.assert_frame_equal(*files)
    assert files[0].columns.tolist() == ["row", "predicted", "p_no", "p_yes"]
    truth = (named(["no", "yes"])[400:] == "yes").astype(int)
    assert roc_auc_score(truth, files[0].p_yes) > 0.7
