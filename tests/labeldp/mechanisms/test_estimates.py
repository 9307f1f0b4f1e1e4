"""What a release says of its labels: unbiased estimates, most likely labels."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.losses import LOSSES
from labeldp.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    HadamardResponse,
    LocalHashing,
    Mechanism,
    NoPrivacy,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from labeldp.mechanisms.base import count_true
from labeldp.store import StoredRelease
from labeldp.support import seeding
from labeldp.support.validate import InputError

# --- Unbiased estimates ------------------------------------------------------------------------

SKEWED = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
UNBIASED = [
    (RandomizedResponse, {}, None), (Rappor, {}, None), (UnaryEncoding, {}, None),
    (UnaryEncoding, {"keep": 0.9}, None), (OptimizedUnaryEncoding, {}, None),
    (SubsetSelection, {}, None), (SubsetSelection, {"size": 3}, None),
    (HadamardResponse, {}, None), (LocalHashing, {}, None), (LocalHashing, {"buckets": 2}, None),
    (BlockRR, {"sigma": 0.8, "favoured": 1}, SKEWED), (BlockRR, {"favoured": 4}, SKEWED),
    (RandomizedResponseWithPrior, {}, None), (RandomizedResponseWithPrior, {}, "uniform"),
]  # fmt: skip


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("kind", "parameters", "prior"), UNBIASED)
def test_mean_of_the_estimate_is_the_one_hot_label(kind, parameters, prior, eps):
    # `unbiased` would train on targets that are off on average.
    mechanism = kind(eps=eps, **parameters)
    prior = torch.full((4,), 0.25, dtype=torch.float64) if prior == "uniform" else prior
    outputs = mechanism.output_space(4, prior)
    probability = mechanism.log_likelihood(outputs, 4, prior).exp()
    mean = probability.T @ mechanism.unbiased(outputs, 4, prior)
    assert torch.allclose(mean, torch.eye(4, dtype=torch.float64), atol=1e-10)


def test_estimate_of_laplace_and_of_no_privacy():
    # The noise of ALIBI has mean 0, the label itself no noise at all.
    labels = torch.arange(4)
    assert torch.equal(NoPrivacy().unbiased(labels, 4), torch.eye(4).double())
    reals = AdditiveLaplace(eps=1.0).release(labels.repeat(50_000), 4, seeding.generator(0, "test"))
    estimate = AdditiveLaplace(eps=1.0).unbiased(reals, 4)
    assert estimate.dtype == torch.float64
    mean = estimate.reshape(-1, 4, 4).mean(0)
    assert (mean - torch.eye(4)).abs().max() < 5 * math.sqrt(8 / 50_000)


@pytest.mark.parametrize(
    ("mechanism", "prior", "message"),
    [
        (RandomizedResponseWithPrior(eps=1.0), torch.tensor([0.7, 0.2, 0.05, 0.05]), "is singular"),
        (
            RandomizedResponseWithPrior(eps=1.0),
            SKEWED.repeat(2, 1),
            "needs one prior for all labels",
        ),
        (OptimalMechanism(eps=1.0), SKEWED, "has no unbiased estimate"),
        (UnaryEncoding(eps=1e-5, keep=1 - 2**-53), None, "do not depend on the label"),
    ],
)
def test_channels_without_an_estimate_are_refused(mechanism, prior, message):
    # The inverse of a singular channel is numerical noise.
    released = torch.zeros(2, dtype=torch.int64)
    if not isinstance(mechanism, RandomizedResponseWithPrior):
        released = torch.ones((2, 4), dtype=torch.uint8)
    release = StoredRelease(torch.arange(2), released, mechanism, 4, prior)
    with pytest.raises(InputError, match=message) as error:
        LOSSES["unbiased"].targets(release)
    assert "\n" not in str(error.value)


@settings(max_examples=100, deadline=None)
@given(eps=st.floats(0.05, 20), sigma=st.floats(0.2, 3), favoured=st.integers(0, 6))
def test_blockrr_is_not_singular(eps, sigma, favoured):
    # Every label has an output of its own (B is the identity), so an estimate must exist, even
    # where all frequent labels are favoured.
    prior = torch.tensor([10.0, 9, 8, 3, 2, 1]).double() / 33
    mechanism = BlockRR(eps=eps, sigma=sigma, favoured=favoured)
    estimate = mechanism.unbiased(torch.arange(6), 6, prior)
    mean = mechanism.transition_matrix(6, prior) @ estimate
    assert torch.allclose(mean, torch.eye(6, dtype=torch.float64), atol=1e-6)


# --- Plausible classes -------------------------------------------------------------------------

PLAUSIBLE = [
    RandomizedResponse(eps=1.0), Rappor(eps=1.0), UnaryEncoding(eps=1.0),
    UnaryEncoding(eps=1.0, keep=0.95), OptimizedUnaryEncoding(eps=1.0), SubsetSelection(eps=1.0),
    LocalHashing(eps=1.0), HadamardResponse(eps=1.0), BlockRR(eps=1.0, favoured=2),
    RandomizedResponseWithPrior(eps=1.0), AdditiveLaplace(eps=1.0),
]  # fmt: skip


@pytest.mark.parametrize("eps", [0.01, 1.0, 8.0, 30.0, math.inf])
@pytest.mark.parametrize("num_classes", [2, 5, 30])
@pytest.mark.parametrize("mechanism", PLAUSIBLE, ids=repr)
def test_short_way_to_plausible_classes_is_the_argmax_of_the_likelihood(
    mechanism, num_classes, eps
):
    # Consensus, filters and the reported agreement would use other classes than the likelihood.
    mechanism = replace(mechanism, eps=eps)
    labels = torch.arange(num_classes).repeat(40)
    skewed = torch.arange(1.0, num_classes + 1).double()
    priors = [None]
    if isinstance(mechanism, RandomizedResponseWithPrior | BlockRR):
        priors.append(skewed / skewed.sum())
    if isinstance(mechanism, RandomizedResponseWithPrior):
        priors.append(priors[-1].repeat(len(labels), 1))
    for prior in priors:
        outputs = mechanism.release(labels, num_classes, seeding.generator(0, "test"), prior)
        expected = Mechanism.most_likely_labels(mechanism, outputs, num_classes, prior)
        assert torch.equal(mechanism.most_likely_labels(outputs, num_classes, prior), expected)
        release = StoredRelease(torch.arange(len(labels)), outputs, mechanism, num_classes, prior)
        assert torch.equal(release.most_likely_labels, expected)
        # The other way, where the likelihood is there already, itself by a short way or not.
        again = replace(release)
        long_way = Mechanism.centred_log_likelihood(mechanism, outputs, num_classes, prior)
        assert torch.allclose(
            again.centred_log_likelihood, long_way, rtol=1e-6, atol=1e-6 * min(eps, 1)
        )
        assert again.centred_log_likelihood.dtype == torch.float32
        assert torch.equal(again.most_likely_labels, expected)


@pytest.mark.parametrize("num_classes", [2, 255, 256, 300])
def test_truth_values_are_counted_beyond_a_byte(num_classes):
    # 256 most likely labels would count as none.
    rows = torch.ones(3, num_classes, dtype=torch.bool)
    rows[1] = False
    rows[2, ::2] = False
    assert count_true(rows).tolist() == [num_classes, 0, num_classes // 2]
