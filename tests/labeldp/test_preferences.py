"""Preferences between two answers as labels: the loss of DPO, and a ranking that is found again."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

import labeldp as ldp
from labeldp.estimates import unbiased_labels


@pytest.mark.parametrize("eps", [0.5, 1.0, 3.0])
def test_robust_dpo_is_the_unbiased_loss_of_randomised_response(eps):
    # TRL: (-(1 - s) logsigmoid(m) + s logsigmoid(-m)) / (1 - 2 s), with s = label_smoothing.
    margins = np.linspace(-3, 3, 50)  # of the released winner
    release = ldp.privatize([0, 1] * 25, classes=[0, 1], eps=eps, mechanism="rr", seed=0)
    winner = release.outputs.numpy()
    smoothing = 1 / (1 + math.exp(eps))
    own, other = -np.logaddexp(0, -margins), -np.logaddexp(0, margins)
    robust = (-(1 - smoothing) * own + smoothing * other) / (1 - 2 * smoothing)
    first = np.where(winner == 0, margins, -margins)  # margin of the first answer
    losses = np.stack([np.logaddexp(0, -first), np.logaddexp(0, first)], 1)
    assert (unbiased_labels(release) * losses).sum(1) == pytest.approx(robust)


def test_a_bradley_terry_model_finds_the_ranking_again():
    # Released winners taken for true ones would rank alike, but with a third of the strengths.
    stream = np.random.default_rng(0)
    strength = np.array([2.0, 1.0, 0.5, 0.0, -1.0])
    difference = stream.normal(size=(12_000, 5))
    chance = 1 / (1 + np.exp(-difference @ strength))
    winner = np.where(stream.random(12_000) < chance, "first", "second")
    release = ldp.privatize(winner, classes=["first", "second"], eps=1.0, mechanism="rr", seed=0)
    clf = ldp.LabelDPClassifier().fit(difference, release)
    logits = [math.log(first / second) for first, second in clf.predict_proba(np.eye(5))]
    assert spearmanr(logits, strength).statistic == pytest.approx(1)
    assert np.array(logits) == pytest.approx(strength, abs=0.5)
