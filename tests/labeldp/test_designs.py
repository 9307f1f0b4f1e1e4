"""Answers that people randomised themselves: their price, shares and models, as R has them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import labeldp as ldp
from benchmarks.designs import compared
from labeldp import designs, metrics
from labeldp.audit.exact import exact_epsilon
from labeldp.manifest import Manifest, unprotected
from labeldp.support.validate import InputError

RESULTS = Path(__file__).parents[2] / "results" / "benchmarks"
WARNER = designs.warner(p=0.7)
THREE = designs.table(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.2, 0.2, 0.3, 0.3]],
    classes=["a", "b", "c"], answers=["w", "x", "y", "z"],
)  # fmt: skip
DIRECT = designs.warner(p=1)


@pytest.mark.parametrize(
    ("design", "eps"),
    [
        (designs.warner(p=0.75), math.log(3)),
        (designs.warner(p=0.25), math.log(3)),
        (designs.forced_response({"no": 1 / 6, "yes": 1 / 6}), math.log(5)),
        (designs.forced_response({"a": 0.1, "b": 0.1, "c": 0.2}), math.log(7)),
        (designs.forced_response({"no": 0, "yes": 1 / 6}), math.inf),
        (designs.unrelated_question(p=0.5, prevalence=0.5), math.log(3)),
        (designs.unrelated_question(p=0.5, prevalence=0.2), math.log(6)),
        (designs.unrelated_question(p=0.5, prevalence=0), math.inf),
        (designs.unrelated_question(p=0.5, prevalence=1), math.inf),
        (THREE, math.log(7)),
        (DIRECT, math.inf),
    ],
)
def test_a_design_states_its_eps(design, eps):
    assert design.eps == pytest.approx(eps) and f"eps={eps:.3g}" in repr(design)
    assert exact_epsilon(design.mechanism, len(design.classes)) == pytest.approx(eps)


def test_answers_are_drawn_by_the_table_and_by_no_other():
    labels = np.repeat(["a", "b", "c"], 4000)
    release = ldp.privatize(labels, design=THREE, seed=0)
    for name, row in zip("abc", THREE.table, strict=True):
        seen = np.bincount(release.outputs[labels == name], minlength=4)
        assert chisquare(seen, 4000 * np.array(row)).pvalue > 1e-3
        assert chisquare(seen, 4000 * np.array(row)[::-1]).pvalue < 1e-3


def test_shares_and_regressions_are_those_of_r():
    read = (pd.read_csv(RESULTS / f"{name}.csv") for name in ("design_counts", "designs_r"))
    found = compared(*read)
    assert set(found.package) == {"RRTCS", "RRreg", "GLMMRR", "rr"}
    assert found.ours.to_numpy() == pytest.approx(found.theirs.to_numpy(), abs=5e-4)
    # The packages differ by up to 2 % among themselves; RRTCS corrects for finite populations.
    errors = (found.high - found.low) / 2 / 1.96
    assert errors.to_numpy() == pytest.approx(found.their_error.to_numpy(), rel=0.06)
    committed = pd.read_csv(RESULTS / "designs.csv")
    pd.testing.assert_frame_equal(found, committed, rtol=1e-3)


def simulated(design, rows, seed):
    """Features that tell the class, true classes, and the answers of people who follow a design."""
    stream = np.random.default_rng(seed)
    count = len(design.classes)
    features = stream.normal(size=(rows, count))
    true = (features + stream.gumbel(size=features.shape) - 0.5 * np.arange(count)).argmax(1)
    said = (np.array(design.table).cumsum(1)[true] < stream.random((rows, 1))).sum(1)
    return features, true, np.array(design.answers)[said]


@pytest.mark.parametrize("design", [WARNER, THREE, designs.unrelated_question(0.6, 0)])
def test_every_estimate_works_on_answers(design):
    features, true, answers = simulated(design, 2400, seed=1)
    release = ldp.Release.from_answers(answers, design)
    for number, share in enumerate(ldp.class_shares(release, confidence=0.999).values()):
        assert share.low < (true == number).mean() < share.high
    test = release[1200:]
    model = ldp.LabelDPClassifier().fit(features[:1200], release[:1200])
    right = model.predict(features[1200:]) == np.array(design.classes)[true[1200:]]
    found = ldp.estimate_accuracy(model, features[1200:], test, confidence=0.999)
    assert found.low < right.mean() < found.high
    assert right.mean() > max(np.bincount(true)) / 2400 + 0.02
    last = design.classes[-1]
    assert metrics.roc_auc(test, model, X=features[1200:], positive=last).low > 0.5
    with pytest.raises(InputError, match="were used in the fit"):
        ldp.estimate_accuracy(model, features[:1200], release[:1200])


def test_a_wrong_p_gives_a_wrong_share():
    _, true, answers = simulated(WARNER, 20_000, seed=2)
    for design, fits in ((WARNER, True), (designs.warner(p=0.8), False)):
        share = ldp.class_shares(ldp.Release.from_answers(answers, design))["yes"]
        assert (share.low < true.mean() < share.high) == fits


def test_the_exact_interval_of_a_share_is_that_of_its_answers():
    # Of 12 people 1 says yes, as told: Wald's interval would end below 0.
    design = designs.forced_response({"no": 0, "yes": 0.1})
    share = ldp.class_shares(ldp.Release.from_answers(["yes"] + ["no"] * 11, design))["yes"]
    assert share.low == 0 and share.high == pytest.approx((0.384796 - 0.1) / 0.9, abs=1e-3)


def test_weights_count_people():
    answers, people = ["yes", "no", "no"], [30, 50, 20]
    weighted = ldp.class_shares(ldp.Release.from_answers(answers, WARNER), sample_weight=people)
    counted = ldp.class_shares(ldp.Release.from_answers(np.repeat(answers, people), WARNER))
    assert weighted["yes"].value == pytest.approx(counted["yes"].value)


def test_answers_come_in_any_container():
    expected = ldp.Release.from_answers(["yes", "no"], WARNER)
    series = pd.Series(["yes", "no"])
    for each in (series, series.astype("category"), series.to_numpy(), np.ma.array(["yes", "no"])):
        assert ldp.Release.from_answers(each, WARNER).outputs.tolist() == [1, 0]
        # The same answers are the same rows, in another program too.
        assert ldp.Release.from_answers(each, WARNER).manifest == expected.manifest
    other = ldp.Release.from_answers(["yes", "yes"], WARNER).manifest
    assert other.identity != expected.manifest.identity
    numbered = designs.warner(p=0.7, answers=[0, 1])
    assert ldp.Release.from_answers([1, 0], numbered).outputs.tolist() == [1, 0]


@pytest.mark.parametrize(
    "answers", [["yes", "perhaps"], ["yes", None], [1, 0], ["yes", math.nan], "yes", [["yes"]],
                np.ma.array(["yes", "no"], mask=[False, True])],
)  # fmt: skip
def test_answers_that_no_design_knows_are_refused_unseen(answers):
    with pytest.raises(InputError) as caught:
        ldp.Release.from_answers(answers, WARNER)
    assert "perhaps" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: designs.warner(p=0.5), "p=0.5"),
        (lambda: designs.warner(p=0.500001), "1e-05"),
        (lambda: designs.warner(p=1.2), "1.2"),
        (lambda: designs.warner(p=0.7, classes=["a", "b", "c"]), "forced_response"),
        (lambda: designs.forced_response({"no": 0.5, "yes": 0.5}), "below 1, got 1"),
        (lambda: designs.forced_response([0.1, 0.1]), "dict"),
        (lambda: designs.unrelated_question(p=0, prevalence=0.5), "> 0"),
        (lambda: designs.table([[0.5, 0.5], [0.5, 0.6]]), "1.1"),
        (lambda: designs.table([[0.5, 0.5], [0.5, -0.5]]), r"\[0, 1\]"),
        (lambda: designs.table([[0.2, 0.8], [math.nan, 0.2]]), r"\[0, 1\]"),
        (lambda: designs.table(np.ma.array([[0.2, 0.8], [0.8, 0.2]], mask=[[0, 0], [0, 1]])),
         r"\[0, 1\]"),
        (lambda: designs.table([[1, 1e-320], [0.5, 0.5]]), "700"),
        (lambda: designs.table(pd.DataFrame({"yes": [0.2, 0.7], "no": [0.8, 0.3]})), "to_numpy"),
        (lambda: designs.table([[1, 0, 0], [0, 1, 0]], answers=["a", "b", "c"]), "column 2"),
        (lambda: designs.table([[0.5, 0.3, 0.2], [0.1, 0.4, 0.5]]), r"\(2, 3\)"),
        (lambda: designs.table([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]], classes=["a", "b", "c"],
                               answers=["no", "yes"]), "mixture"),
        (lambda: ldp.Release.from_answers(["yes"], "warner"), "designs.warner"),
        (lambda: ldp.privatize(["no"], design="warner"), "designs.warner"),
        (lambda: ldp.privatize(["no"], design=WARNER, eps=1.0), "eps, not both"),
        (lambda: ldp.privatize(["no"], design=WARNER, mechanism="rr"), "mechanism, not both"),
        (lambda: ldp.privatize(["no"], classes=["yes", "no"], design=WARNER), "leave them out"),
        (lambda: ldp.privatize(["no"], ["no", "yes"], 1.0, "warner"), "design="),
    ],
)  # fmt: skip
def test_what_is_no_design_is_refused(build, said):
    with pytest.raises(InputError, match=said):
        build()


def test_an_infinite_eps_is_said_with_the_answer_that_causes_it():
    design = designs.forced_response({"never": 0, "often": 0.2})
    release = ldp.Release.from_answers(["never", "often"] * 50, design)
    for words in (release.summary(), unprotected(release.manifest)):
        assert "eps=inf: the answer never rules out often" in words
    assert release.eps_spent == math.inf
    assert unprotected(ldp.Release.from_answers(["yes"], WARNER).manifest) is None


def test_rows_of_one_person_add_up():
    release = ldp.Release.from_answers(["yes", "no", "no"], WARNER, persons=["a", "a", "b"])
    assert release.eps == pytest.approx(2 * WARNER.eps)
    drawn = ldp.privatize(["yes", "no", "no"], design=WARNER, persons=["a", "a", "b"], seed=0)
    assert drawn.eps == release.eps and drawn.manifest.row_eps == pytest.approx(WARNER.eps)


def test_a_second_release_of_the_same_labels_costs_the_design_again():
    ledger = ldp.Ledger()
    labels = ["yes", "no", "no"] * 20
    ldp.privatize(labels, design=WARNER, ledger=ledger)
    with pytest.raises(InputError, match="released before"):
        ldp.privatize(labels, design=WARNER, ledger=ledger)
    both = ldp.privatize(labels, design=THREE_OF_TWO, ledger=ledger, again=True)
    assert both.eps_spent == pytest.approx(WARNER.eps + THREE_OF_TWO.eps)


THREE_OF_TWO = designs.table([[0.6, 0.2, 0.2], [0.1, 0.3, 0.6]], answers=["x", "y", "z"])


def test_a_file_holds_the_design_and_may_claim_no_smaller_eps(tmp_path):
    release = ldp.Release.from_answers(["x", "z", "y"], THREE_OF_TWO, row_ids=["p", "q", "r"])
    release.save(tmp_path / "r.parquet")
    read = ldp.load_release(tmp_path / "r.parquet")
    assert read.manifest == release.manifest
    assert np.array_equal(read.log_likelihood(), release.log_likelihood())
    law = json.loads(release.manifest.to_json())["law"]
    assert np.array(law["probabilities"]) == pytest.approx(np.array(THREE_OF_TWO.table))
    for eps in (0.1, 5.0):
        edited = json.dumps(json.loads(release.manifest.to_json()) | {"eps": eps})
        with pytest.raises(InputError, match=f"got {eps:g}"):
            Manifest.from_json(edited)
    beyond = replace(release, messages=release.messages + 1)
    beyond.save(tmp_path / "beyond.parquet")
    with pytest.raises(InputError, match=r"\[0, 2\]"):
        ldp.load_release(tmp_path / "beyond.parquet")


@pytest.mark.parametrize("loss", ["plain", "bce", "softmax_bits", "unbiased"])
def test_losses_that_take_answers_for_labels_are_refused(loss):
    # With two answers of two classes they would learn from what people were told to say.
    features, _, answers = simulated(WARNER, 50, seed=3)
    release = ldp.Release.from_answers(answers, WARNER)
    with pytest.raises(InputError, match="marginal"):
        ldp.LabelDPClassifier(loss=loss).fit(features, release)
