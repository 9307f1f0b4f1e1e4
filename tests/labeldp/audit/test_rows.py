"""Rows that are not apart: what no look at single rows can see."""

import math

import numpy as np
import pytest
import torch

from labeldp.audit.audit import audit
from labeldp.audit.statistics import LEVEL, row_independence_test, two_inputs
from labeldp.audit.verify import verify
from labeldp.mechanisms import (
    AdditiveLaplace,
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    FullExponentialCubes,
    LabelDPPro,
    Laplace,
    LaplaceHistogram,
    LocalHashing,
    NoisyClusters,
    NoisyMoments,
    RandomizedResponse,
    Rappor,
    UnbiasedRandomizer,
)
from labeldp.mechanisms.bits import Hashes

KEEP = 1 / (1 + 9 * math.exp(-1.0))
"""Of randomised response, K=10, eps=1."""


def response(labels, uniform, shift):
    return np.where(uniform < KEEP, labels, (labels + shift) % 10)


def honest(labels):
    random = np.random.default_rng()
    return response(labels, random.random(len(labels)), random.integers(1, 10, len(labels)))


def in_pairs(labels):
    random, half = np.random.default_rng(), len(labels) // 2 + 1
    pairs = [
        np.repeat(each, 2)[: len(labels)]
        for each in (random.random(half), random.integers(1, 10, half))
    ]
    return response(labels, *pairs)


def seeded_for_each_batch(labels):
    parts = np.split(labels, range(4096, len(labels), 4096))
    streams = [np.random.default_rng(0) for _ in parts]
    return np.concatenate(
        [
            response(part, stream.random(len(part)), stream.integers(1, 10, len(part)))
            for part, stream in zip(parts, streams, strict=True)
        ]
    )


def of_the_row_before(labels):
    return np.roll(labels, 1)


def bits_of_another_row(labels):
    return np.eye(10)[np.roll(labels, 7)] + np.random.default_rng().laplace(size=(len(labels), 10))


@pytest.mark.parametrize("randomiser", [in_pairs, of_the_row_before, bits_of_another_row])
def test_a_randomiser_whose_rows_tell_of_each_other_is_refused(randomiser):
    # All of them passed: the true labels themselves, moved by one row, with "no loss seen".
    found = verify(randomiser, 10, 1.0, draws=250_000)
    assert found.apart < LEVEL and not found.holds
    assert any("NOT APART" in line for line in found.lines())


def test_batches_of_one_seed_are_refused():
    assert verify(seeded_for_each_batch, 10, 1.0, draws=50_000).noise == "repeated"


def by_place(labels):
    # Even rows have another prior, so that they become other labels: public, and no leak.
    random, size = np.random.default_rng(), len(labels)
    top = np.where(np.arange(size) % 2 == 0, 0, 5)
    place = (labels - top) % 10
    kept = random.random(size) < math.e / (math.e + 2)
    moved = np.where(kept, place, (place + random.integers(1, 3, size)) % 3)
    return (np.where(place < 3, moved, random.integers(0, 3, size)) + top) % 10


@pytest.mark.parametrize("randomiser", [honest, by_place])
def test_honest_rows_are_not_accused(randomiser):
    found = verify(randomiser, 10, 1.0, draws=100_000)
    assert found.apart > LEVEL and found.holds
    assert not any("APART" in line for line in found.lines())


class InPairs(RandomizedResponse):
    """Has one noise for two labels each."""

    def release(self, labels, num_classes, generator, prior=None):
        both = super().release(torch.zeros(len(labels)).long(), num_classes, generator)
        return (labels + both[torch.arange(len(labels)) // 2]) % num_classes


@pytest.mark.parametrize("num_classes", [2, 10])
def test_the_audit_sees_labels_that_share_noise(num_classes):
    # Each label alone has the law of eps=1, so that no bound is above it.
    found = audit(InPairs(1.0), num_classes, draws=20_000)
    assert max(each.bound for each in found.sampled) <= 1
    assert sum("or share their noise" in line for line in found.faults) == 2  # under two priors
    assert audit(RandomizedResponse(1.0), num_classes, draws=20_000).faults == []


@pytest.mark.parametrize(
    "mechanism", [Rappor(0.3), AdditiveLaplace(4.0), Laplace(1.0), UnbiasedRandomizer(1.0)]
)
def test_mechanisms_draw_every_row_apart(mechanism):
    assert [each.apart > LEVEL for each in audit(mechanism, 5, draws=8000).sampled].count(
        False
    ) == 0


class InPairsOfClusters(NoisyClusters):
    """Has one noise for two clusters each."""

    def __call__(self, labels, limit, noise):
        zeros = torch.zeros(self.num_groups, dtype=torch.int64)  # a label in each: the noise alone
        alone = NoisyClusters(self.eps).over(torch.arange(self.num_groups), self.num_groups)
        drawn = alone(zeros, limit, noise)
        exact = NoisyClusters(math.inf).over(self.groups, self.num_groups)(labels, limit, noise)
        return exact + drawn[torch.arange(self.num_groups) // 2]


class InPairsOfCubes(ExponentialCubes):
    """Draws one class for two cubes each, by chance alone in every second."""

    def __call__(self, labels, limit, noise):
        own = super().__call__(labels, limit, noise)
        return torch.where(torch.arange(self.num_groups) % 4 == 2, own.roll(2), own)


class InPairsOfFeatures(NoisyMoments):
    """Has one noise for two features each."""

    def __call__(self, labels, limit, noise):
        exact = self.rows.T.double() @ torch.eye(limit).double()[labels]
        drawn = super().__call__(labels, limit, noise) - exact
        return exact + drawn[torch.arange(len(drawn)) // 2]


class InPairsOfWeights(LabelDPPro):
    """Has one noise for two weights each."""

    def clipped_sum(self, gradients):
        of_each = gradients.shape[1] // len(self.tied)  # weights; those of an example are alike
        return super().clipped_sum(gradients) + self.tied.repeat_interleave(of_each)

    def descended(self, labels, descent, generator):
        half = torch.randn(len(labels) // 2 + 1, generator=generator).double()
        self.__dict__["tied"] = 30 * half.repeat_interleave(2)[: len(labels)]
        return super().descended(labels, descent, generator)


class InPairsOfClasses(LaplaceHistogram):
    """Has one noise for two counts each."""

    def __call__(self, labels, limit, noise):
        drawn = super().__call__(labels[:0], limit, noise).reshape(-1, 4)[:, [0, 1, 0, 1]]
        return torch.bincount(labels, minlength=limit) + drawn.flatten()


def tied(sampled):
    return [each.sampler for each in sampled if each.apart < LEVEL]


@pytest.mark.parametrize(
    "mechanism, sampler",
    [
        (InPairsOfClusters(1.0), "group sums"),
        (InPairsOfCubes(4.0), "group sums"),
        (InPairsOfFeatures(1.0), "class sums"),
        (InPairsOfWeights(8.0, steps=20, share=0.05), "noisy descent"),
        (InPairsOfClasses(1.0), "InPairsOfClasses"),
    ],
)
def test_the_audit_sees_groups_features_and_weights_that_share_noise(mechanism, sampler):
    # Only single labels were looked at: a cluster's counts told those of the next one.
    found = audit(mechanism, 3, draws=8000)
    assert tied(found.sampled) == [sampler]
    assert any(f"outputs of {sampler} depend on other rows" in line for line in found.faults)


@pytest.mark.parametrize(
    "mechanism",
    [
        ExponentialCubes(4.0),
        FullExponentialCubes(4.0),
        NoisyClusters(1.0),
        CubeMeans(1.0),
        FullCubeMeans(1.0),
        NoisyMoments(1.0),
        LabelDPPro(8.0, steps=20, share=0.05),
        LaplaceHistogram(1.0),
    ],
)
def test_curators_answer_every_group_apart(mechanism):
    assert tied(audit(mechanism, 3, draws=8000).sampled) == []


def test_few_rows_and_rare_events_are_no_evidence():
    stream = torch.Generator().manual_seed(0)

    def p_value(outputs, size):
        first = [(two_inputs(size, (0, 1), stream) > 0).numpy() for _ in range(2)]
        return row_independence_test([outputs, outputs], first)

    for size in (0, 3, 500):
        assert p_value(np.arange(float(size)), size) == 1.0
    rare = np.zeros(50_000)
    rare[[7, 8, 9]] = 1.0
    assert p_value(rare, len(rare)) == 1.0


def test_messages_that_own_labels_leave_in_are_drawn_too(monkeypatch):
    # Local hashing draws its messages by code of its own, which no audit asked.
    draw = Hashes.draw

    def at_twice_eps(self, labels, generator):
        return draw(Hashes(2 * self.eps, self.buckets, self.num_classes), labels, generator)

    assert audit(LocalHashing(1.0), 5, draws=20_000).faults == []
    monkeypatch.setattr(Hashes, "draw", at_twice_eps)
    faults = audit(LocalHashing(1.0), 5, draws=20_000).faults
    assert faults and all("messages" in line for line in faults)
