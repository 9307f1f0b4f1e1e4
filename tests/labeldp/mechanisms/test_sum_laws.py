"""Exact laws of sums against releases drawn label by label and added up."""

import math

import pytest
import torch
from scipy.stats import chi2_contingency, ks_2samp

from labeldp.mechanisms import ClippedLaplace, Laplace, RandomizedResponse, Rappor
from labeldp.mechanisms.base import ClassMechanism, RealMechanism
from labeldp.mechanisms.noise import group_counts, laplace_sums, numpy_stream
from labeldp.support import seeding

LABELS = torch.tensor([0, 0, 1, 2, 2, 2, 0, 1])
VALUES = torch.linspace(-1, 1, 8, dtype=torch.float64)
GROUPS = torch.tensor([0, 0, 0, 0, 0, 0, 2, 2])
DRAWS = 3000


def many(mechanism, labels, limit, exact):
    """DRAWS draws of the sums over the three groups, (DRAWS, 3, K) or (DRAWS, 3)."""
    base = ClassMechanism if isinstance(mechanism, ClassMechanism) else RealMechanism
    release = type(mechanism).release_groups if exact else base.release_groups
    copies = labels.repeat(DRAWS)
    groups = (GROUPS + 3 * torch.arange(DRAWS)[:, None]).flatten()
    generator = seeding.generator(int(exact), "test")
    sums = release(mechanism, copies, limit, groups, 3 * DRAWS, generator)
    return sums.reshape(DRAWS, 3, -1)


def same_counts(one, two):
    """p-value of: two samples of small integers have one law."""
    width = int(max(one.max(), two.max())) + 1
    table = torch.stack([torch.bincount(part.long(), minlength=width) for part in (one, two)])
    return chi2_contingency(table[:, table.sum(0) > 10].numpy()).pvalue


@pytest.mark.parametrize("mechanism", [Rappor(1.0), RandomizedResponse(1.0)])
def test_sums_of_bits_and_labels_have_the_law_of_single_releases(mechanism):
    # Risks at N = 10^6 would be those of another mechanism.
    single, exact = many(mechanism, LABELS, 3, False), many(mechanism, LABELS, 3, True)
    for group, column in ((0, 0), (0, 1), (2, 2)):
        assert same_counts(single[:, group, column], exact[:, group, column]) > 1e-3
    assert torch.allclose(single[:, 0].T.cov(), exact[:, 0].T.cov(), atol=0.25)
    assert (exact[:, 1] == 0).all()


@pytest.mark.parametrize("mechanism", [Laplace(1.0), ClippedLaplace(1.0, clip=0.5)])
def test_sums_of_laplace_noise_have_the_law_of_single_releases(mechanism):
    # The same for regression.
    single, exact = many(mechanism, VALUES, 1.0, False), many(mechanism, VALUES, 1.0, True)
    for group in (0, 2):
        assert ks_2samp(single[:, group, 0], exact[:, group, 0]).pvalue > 1e-3
    assert (exact[:, 1] == 0).all()


def test_wrong_laws_are_noticed():
    # The two tests above would accept another budget or another number of labels.
    wrong = many(Rappor(2.0), LABELS, 3, True)
    assert same_counts(many(Rappor(1.0), LABELS, 3, False)[:, 0, 0], wrong[:, 0, 0]) < 1e-3
    stream = numpy_stream(seeding.generator(0, "test"))
    six = laplace_sums(torch.full((DRAWS,), 6), 2.0, stream) + VALUES[:6].sum()
    five = laplace_sums(torch.full((DRAWS,), 4), 2.0, stream) + VALUES[:6].sum()
    single = many(Laplace(1.0), VALUES, 1.0, False)[:, 0, 0]
    assert ks_2samp(single, six).pvalue > 1e-3 > ks_2samp(single, five).pvalue


def test_no_noise_gives_counts_and_sums():
    # eps=inf would be something else than no privacy.
    generator = seeding.generator(0, "test")
    counts = group_counts(LABELS, 3, GROUPS, 3).double()
    for mechanism in (Rappor(math.inf), RandomizedResponse(math.inf)):
        found = mechanism.release_groups(LABELS, 3, GROUPS, 3, generator)
        assert torch.equal(found, counts)
    sums = Laplace(math.inf).release_groups(VALUES, 1.0, GROUPS, 3, generator)
    assert sums.tolist() == pytest.approx([float(VALUES[:6].sum()), 0, float(VALUES[6:].sum())])
