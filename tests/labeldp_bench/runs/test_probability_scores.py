"""Scores of probabilities, and eps shared by the labels of a unit."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.support.validate import InputError
from labeldp_bench.runs.evaluate import PROBABILITY_SCORES, probability_scores
from labeldp_bench.runs.result import share_of_unit


def pairs(event, labels):
    event = torch.tensor(event, dtype=torch.float64)
    return probability_scores(torch.stack([1 - event, event], 1), torch.tensor(labels))


def test_known_values():
    found = pairs([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])  # scikit-learn's own example
    assert found["auc"] == 0.75
    assert found["average_precision"] == pytest.approx(5 / 6)
    loss = -np.log([0.9, 0.6, 0.35, 0.8]).mean()
    assert found["normalised_log_likelihood"] == pytest.approx(1 - loss / math.log(2))
    assert found["calibration_error"] == pytest.approx((0.1 + 0.4 + 0.65 + 0.2) / 4)


def test_the_constant_model_scores_zero_and_the_perfect_one_one():
    labels = [0] * 80 + [1] * 20
    constant, perfect = pairs([0.2] * 100, labels), pairs([float(y) for y in labels], labels)
    assert constant["normalised_log_likelihood"] == pytest.approx(0, abs=1e-12)
    assert constant["auc"] == 0.5
    assert perfect["normalised_log_likelihood"] == pytest.approx(1)
    assert (perfect["auc"], perfect["average_precision"]) == (1, 1)


def test_probabilities_of_released_labels_are_not_calibrated():
    # RR at eps=1 moves 0.02 to 0.28: AUC does not see it, the other two must.
    generator = torch.Generator().manual_seed(0)
    true = torch.rand(5000, generator=generator, dtype=torch.float64) * 0.04
    labels = torch.bernoulli(true, generator=generator).long()
    noisy = 0.269 + 0.462 * true
    right, wrong = (probability_scores(torch.stack([1 - p, p], 1), labels) for p in (true, noisy))
    assert right["auc"] == wrong["auc"]
    assert right["calibration_error"] < 0.01 < 0.2 < wrong["calibration_error"]
    assert wrong["normalised_log_likelihood"] < -1 < right["normalised_log_likelihood"]


def test_classes_without_test_examples_are_left_out():
    probabilities = torch.full((4, 3), 1 / 3, dtype=torch.float64)
    found = probability_scores(probabilities, torch.tensor([0, 1, 0, 1]))
    assert found["auc"] == 0.5
    none = probability_scores(probabilities, torch.zeros(4, dtype=torch.int64))
    assert none["auc"] is None and none["normalised_log_likelihood"] is None
    assert set(none) == set(PROBABILITY_SCORES)


def test_labels_of_a_unit_share_its_eps():
    assert share_of_unit(RandomizedResponse(3.0), 3).eps == 1
    same = RandomizedResponse(3.0)
    assert share_of_unit(same, 1) is same
    assert share_of_unit(NoPrivacy(), 3).eps == math.inf


def test_a_mechanism_without_pure_eps_is_refused():
    class Central(RandomizedResponse):
        delta = 1e-5

    with pytest.raises(InputError, match="no pure eps to divide"):
        share_of_unit(Central(1.0), 2)
