"""The small form of a release: nothing is lost, and what is drawn has the mechanism's law."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from labeldp.mechanisms import (
    AdditiveLaplace,
    HadamardResponse,
    LocalHashing,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from labeldp.mechanisms.bits import hashed
from labeldp.mechanisms.encodings import Positions, joined, positions_of
from labeldp.mechanisms.noise import SecretGenerator
from labeldp.support.validate import InputError

CLASSES = 12
LABELS = torch.arange(240) % CLASSES
EQUAL = {
    "labels": RandomizedResponse(eps=1.0),
    "packed bits": Rappor(eps=1.0),
    "hadamard": HadamardResponse(eps=1.0),
    "outputs": AdditiveLaplace(eps=1.0),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", EQUAL)
def test_a_form_has_the_draws_of_the_release(name):
    # Else a seed would give other labels to who stores them.
    mechanism = EQUAL[name]
    form = mechanism.encoding(CLASSES)
    assert form.name == name
    messages = form.draw(LABELS, seeded())
    assert torch.equal(form.outputs(messages), mechanism.release(LABELS, CLASSES, seeded()))
    few = torch.tensor([7, 3])
    assert torch.equal(form.outputs(messages[few]), form.outputs(messages)[few])


@pytest.mark.parametrize(
    ("mechanism", "num_classes", "most"),
    [
        (RandomizedResponse(eps=1.0), 100_000, 4),
        (HadamardResponse(eps=1.0), 100_000, 4),
        (LocalHashing(eps=1.0), 100_000, 12),
        (SubsetSelection(eps=1.0), 20_000, 2500),
        # (e^6 + 1) is 404: about 50 ones of 20,000, 4 bytes each, and the longest row's padding.
        (OptimizedUnaryEncoding(eps=6.0), 20_000, 4 * 90),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_of_a_label(mechanism, num_classes, most):
    # Dense in K where the mechanism is not.
    labels = torch.arange(8) * (num_classes // 8)
    form = mechanism.encoding(num_classes)
    messages = form.draw(labels, seeded())
    assert messages[0].nbytes <= most
    likelihood = mechanism.centred_log_likelihood(form.outputs(form.checked(messages)), num_classes)
    assert likelihood.shape == (8, num_classes)
    assert float(likelihood.amin()) == pytest.approx(-mechanism.eps, rel=1e-5)


@pytest.mark.parametrize(("num_classes", "size"), [(256, 1), (257, 2), (2**15, 2), (2**15 + 1, 4)])
def test_the_last_class_fits_into_its_bytes(num_classes, size):
    # With one class more than a byte holds, the last would come back as the first.
    form = RandomizedResponse(eps=math.inf).encoding(num_classes)
    labels = torch.tensor([0, num_classes - 1])
    messages = form.draw(labels, seeded())
    assert messages.element_size() == size and torch.equal(form.outputs(messages), labels)


@pytest.mark.parametrize("eps", [0.1, 0.2, 0.3, 0.7, 1.0, 2.2, 4.0, 8.0, math.inf])
@pytest.mark.parametrize(
    "kind", [HadamardResponse, Rappor, OptimizedUnaryEncoding, UnaryEncoding, LocalHashing]
)
def test_the_short_way_to_the_evidence_is_the_likelihoods(kind, eps):
    # Records of before would be learnt from other numbers.
    mechanism = kind(eps=eps)
    for num_classes in (2, 3, 12, 100):
        outputs = mechanism.release(torch.arange(400) % num_classes, num_classes, seeded())
        exact = mechanism.log_likelihood(outputs, num_classes)
        exact = (exact - exact.amax(1, keepdim=True)).float()
        assert torch.equal(mechanism.centred_log_likelihood(outputs, num_classes), exact)


@pytest.mark.parametrize("noise", [seeded, SecretGenerator], ids=["seeded", "secret"])
def test_local_hashing_is_the_law_of_independent_bits(noise):
    # A hash under which classes fall together would break what the likelihood says of them.
    mechanism, size = LocalHashing(eps=1.0, buckets=4), 60_000
    form = mechanism.encoding(CLASSES)
    labels = torch.full((size,), 5)
    bits = form.outputs(form.draw(labels, noise())).double()
    own, other = mechanism.bit_rates(CLASSES)
    expected = torch.full((CLASSES,), other).index_fill(0, torch.tensor([5]), own)
    assert torch.allclose(bits.mean(0), expected.float().double(), atol=5 / (2 * math.sqrt(size)))
    together = (bits.T @ bits / size - torch.outer(expected, expected)).fill_diagonal_(0)
    assert float(together.abs().max()) < 5 / (2 * math.sqrt(size))  # bits are independent


def test_buckets_are_equally_frequent_and_pairs_of_labels_too():
    seeds = np.random.default_rng(0).integers(0, 2**64, 40_000, dtype=np.uint64)
    first, second = (hashed(seeds, np.array([label]), 5).ravel() for label in (0, 1))
    pairs = np.bincount((first * 5 + second).astype(int), minlength=25)
    assert chisquare(pairs).pvalue > 1e-3
    assert chisquare(np.bincount((first % 4).astype(int))).pvalue < 1e-3  # what it would notice


def test_positions_are_the_ones_and_joined_rows_keep_them():
    bits = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (9, CLASSES), np.uint8))
    bits[4] = 0
    form = Positions(OptimizedUnaryEncoding(eps=1.0), CLASSES)
    parts = [positions_of(part) for part in bits.split(4)]
    assert torch.equal(form.outputs(joined(parts)), bits)


@pytest.mark.parametrize(
    ("mechanism", "messages"),
    [
        (RandomizedResponse(eps=1.0), torch.tensor([0, CLASSES])),
        (HadamardResponse(eps=1.0), torch.tensor([16])),
        (Rappor(eps=1.0), torch.zeros((1, 3), dtype=torch.uint8)),
        (LocalHashing(eps=1.0), torch.full((1, 12), 255, dtype=torch.uint8)),
        (LocalHashing(eps=1.0), torch.zeros((1, 11), dtype=torch.uint8)),
        (AdditiveLaplace(eps=1.0), torch.full((1, CLASSES), math.nan)),
        (Positions(Rappor(eps=1.0), CLASSES), torch.tensor([[CLASSES]])),
        (Positions(Rappor(eps=1.0), CLASSES), torch.tensor([[-2]])),
        (Positions(Rappor(eps=1.0), CLASSES), torch.tensor([[0.5]])),
    ],
)
def test_messages_that_nobody_can_have_drawn_are_refused(mechanism, messages):
    form = mechanism if isinstance(mechanism, Positions) else mechanism.encoding(CLASSES)
    with pytest.raises(InputError):
        form.checked(messages)
