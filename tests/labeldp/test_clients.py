"""Clients that release their own label draw from the law of the manifest."""

import json
import math
import shutil
import subprocess

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

import labeldp as ldp
from labeldp.support.validate import InputError
from tests.conftest import CHECKOUT

CLASSES = ["no", "yes", "refused", "other"]
CLIENT = CHECKOUT / "docs" / "examples" / "client.js"


def test_client_and_curator_have_the_same_law():
    manifest = ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism="rr")
    one_by_one = [ldp.privatize(["yes"], classes=CLASSES, eps=1.0) for _ in range(400)]
    assert {each.mechanism for each in one_by_one} == {manifest.name}
    # "yes" at probability .475, others at .175: 400 draws are within four standard errors.
    hits = np.mean([each.classes[int(each.outputs)] == "yes" for each in one_by_one])
    assert hits == pytest.approx(np.e / (np.e + 3), abs=4 * 0.025)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
@pytest.mark.parametrize("name", ["rr", "rappor", "subset_selection", "hadamard"])
def test_the_javascript_client_draws_from_the_law(name, tmp_path):
    manifest = ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism=name)
    path = tmp_path / "manifest.json"
    path.write_text(manifest.to_json())
    drawn = subprocess.run(
        ["node", CLIENT, path, "refused", "20000"], capture_output=True, text=True, check=True
    )
    reports = np.array(json.loads(drawn.stdout))
    release = ldp.Release.of_reports(manifest, range(20_000), reports)
    outputs = release.class_mechanism.output_space(4)
    expected = release.class_mechanism.log_likelihood(outputs, 4).exp().numpy()
    own, other = release.classes.index("refused"), release.classes.index("yes")
    rows = {str(each.tolist()): number for number, each in enumerate(outputs)}
    found = np.bincount([rows[str(each.tolist())] for each in release.outputs], minlength=len(rows))
    possible = expected[:, own] > 0
    assert chisquare(found[possible], 20_000 * expected[possible, own]).pvalue > 1e-4
    # Another label's law must not fit.
    assert chisquare(found[possible], 20_000 * expected[possible, other]).pvalue < 1e-4


@pytest.mark.parametrize(
    ("name", "eps"), [("rr", 40), ("rappor", 80), ("subset_selection", 45), ("hadamard", 40)]
)
def test_a_law_without_noise_is_given_to_no_client(name, eps):
    # Its own class had probability 1.0: a report would exclude all others for certain.
    with pytest.raises(InputError, match="its noise vanishes"):
        ldp.manifest_for_clients(CLASSES, eps=eps, mechanism=name)
    law = json.loads(ldp.manifest_for_clients(CLASSES, eps=30, mechanism=name).to_json())["law"]
    assert 0 < law.get("own", 0.5) < 1 and 0 < law.get("other", 0.5) < 1
    assert ldp.manifest_for_clients(CLASSES, eps=math.inf, mechanism=name).eps == math.inf


def test_the_law_of_alibi_is_what_the_curator_draws_and_weighs():
    # It said Laplace noise: drawn in floating point, its gaps would show the label.
    law = json.loads(ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism="alibi").to_json())["law"]
    assert law["kind"] == "discrete_laplace"
    stream, size = np.random.default_rng(0), 50_000
    tail = np.exp(-law["step"] / law["scale"])  # two geometric numbers differ by that law
    steps = np.subtract(*stream.geometric(1 - tail, (2, size, 4)))
    reports = np.eye(4)[1] + steps * law["step"]
    curator = ldp.privatize(["yes"] * size, classes=CLASSES, eps=1.0, mechanism="alibi", seed=0)
    drawn = curator.messages.numpy().astype(float)
    assert np.array_equal(drawn, np.round(drawn / law["step"]) * law["step"])
    edges = [-1e9, -4, -2, -1, -0.5, -0.01, 0.001, 0.5, 1.001, 1.5, 2, 4, 1e9]
    for entry in (0, 1):
        counts = [np.histogram(each[:, entry], edges)[0] for each in (reports, drawn)]
        assert chi2_contingency(counts).pvalue > 1e-4
    # The likelihood's differences between labels are those of the law, step for step.
    release = ldp.Release.of_reports(curator.manifest, range(size), reports)
    order = [CLASSES.index(name) for name in release.classes]
    own = -np.abs(reports[:, None] - np.eye(4)[order]).sum(2) / law["scale"]
    found = release.log_likelihood()
    assert np.allclose(found - found[:, :1], own - own[:, :1], atol=1e-5)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
def test_the_javascript_client_refuses_noise_of_reals(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(ldp.manifest_for_clients(CLASSES, eps=1.0, mechanism="alibi").to_json())
    drawn = subprocess.run(["node", CLIENT, path, "yes"], capture_output=True, text=True)
    assert drawn.returncode != 0 and drawn.stdout == ""
    assert "no client draws a law of kind discrete_laplace" in drawn.stderr
