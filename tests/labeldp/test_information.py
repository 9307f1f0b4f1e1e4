"""Mutual information and retention, and their optimum."""

import math
from dataclasses import astuple

import pytest
import torch

from labeldp.information import information
from labeldp.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    HadamardResponse,
    LocalHashing,
    NoPrivacy,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from labeldp.mechanisms.subsets import subset_information
from tests.labeldp.mechanisms.test_block_rr import prior_of

INFORMATION = {
    # (K, eps): RR, RAPPOR, OUE, subset selection by variance (d), by information (d), ALIBI, whose
    # number here is an estimate, up to 0.2 % off
    (10, 0.5): (0.0210, 0.0403, 0.0400, 0.0449, 4, 0.0449, 4, 0.0374),
    (10, 1): (0.1059, 0.1582, 0.1538, 0.1765, 3, 0.1765, 3, 0.1377),
    (10, 2): (0.5882, 0.5872, 0.5296, 0.5882, 1, 0.6844, 2, 0.4680),
    (10, 3): (1.4485, 1.1723, 0.9498, 1.4485, 1, 1.4485, 1, 0.8991),
    (10, 4): (2.2852, 1.7767, 1.2755, 2.2852, 1, 2.2852, 1, 1.3553),
    (10, 8): (3.2828, 3.0815, 1.6449, 3.2828, 1, 3.2828, 1, 2.7204),
    (100, 0.5): (0.0025, 0.0444, 0.0442, 0.0447, 38, 0.0449, 42, 0.0411),
    (100, 1): (0.0140, 0.1748, 0.1713, 0.1734, 27, 0.1779, 34, 0.1521),
    (100, 2): (0.1110, 0.6588, 0.6159, 0.6271, 12, 0.6844, 21, 0.5246),
    (100, 3): (0.4780, 1.3549, 1.2017, 1.2575, 5, 1.4533, 11, 1.0284),
    (100, 4): (1.4321, 2.1573, 1.8194, 1.9903, 2, 2.4083, 6, 1.6095),
    (100, 6): (4.6216, 3.7819, 2.7998, 4.6216, 1, 4.6216, 1, 2.8657),
    (100, 8): (6.2257, 5.1385, 3.2012, 6.2257, 1, 6.2257, 1, 4.0985),
}


@pytest.mark.parametrize(("cell", "golden"), INFORMATION.items())
def test_mutual_information(cell, golden):
    """If this fails, a mechanism says more or less of the label than it should."""
    num_classes, eps = cell
    by_variance = SubsetSelection(eps=eps, rule="variance")
    by_information = SubsetSelection(eps=eps)
    sizes = [m.chosen_size(num_classes) for m in (by_variance, by_information)]
    assert sizes == [golden[4], golden[6]]
    exact = [kind(eps=eps) for kind in (RandomizedResponse, Rappor, OptimizedUnaryEncoding)]
    exact += [by_variance, by_information]
    found = [information(mechanism, num_classes).bits for mechanism in exact]
    assert found == pytest.approx([golden[i] for i in (0, 1, 2, 3, 5)], abs=6e-5)
    alibi = information(AdditiveLaplace(eps=eps), num_classes).bits
    assert alibi == pytest.approx(golden[7], rel=0.004)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_the_information_of_alibi_at_its_ends(num_classes):
    """If this fails, the quadrature leaves out a part of the range where it is narrow or wide."""
    told = information(AdditiveLaplace(200.0), num_classes)
    assert astuple(told) == pytest.approx((math.log2(num_classes), 1, 1, 0))
    # A small budget tells of the label by its square.
    small = [information(AdditiveLaplace(eps), num_classes).bits / eps**2 for eps in (2e-2, 1e-3)]
    assert small[0] == pytest.approx(small[1], rel=0.02)


@pytest.mark.parametrize(
    ("num_classes", "percent"),
    [
        (10, {1: 16.37, 2: 25.73, 4: 49.89, 8: 85.58}),
        (100, {1: 1.65, 2: 2.72, 3: 4.48, 4: 7.39, 5: 12.13, 6: 19.45, 8: 41.28}),
    ],
)
def test_alibi_retention(num_classes, percent):
    """If this fails, ALIBI runs at 2.8 times its budget, as in a printed table (T1)."""
    found = {eps: 100 * information(AdditiveLaplace(eps=eps), num_classes).kept for eps in percent}
    assert found == pytest.approx(percent, abs=0.0051)


@pytest.mark.parametrize("num_classes", [2, 5, 7, 12])
@pytest.mark.parametrize("eps", [0.1, 1.7, 6.0])
def test_formulas_agree_with_enumeration(num_classes, eps):
    # Class shares have no formula: with equal ones the outputs are enumerated.
    kinds = (RandomizedResponse, Rappor, UnaryEncoding, OptimizedUnaryEncoding, LocalHashing)
    for kind in (*kinds, SubsetSelection, HadamardResponse):
        formula = information(kind(eps=eps), num_classes)
        enumerated = information(kind(eps=eps), num_classes, (1 / num_classes,) * num_classes)
        assert formula.error == enumerated.error == 0
        assert astuple(formula) == pytest.approx(astuple(enumerated), rel=1e-7)


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("eps", [0.1, 1.7, 6.0])
def test_the_optimal_mechanism_needs_no_linear_programme_for_equal_shares(num_classes, eps):
    formula = information(OptimalMechanism(eps), num_classes)
    solved = information(OptimalMechanism(eps), num_classes, (1 / num_classes,) * num_classes)
    assert astuple(formula) == pytest.approx(astuple(solved), rel=1e-6)


@pytest.mark.parametrize("kind", [Rappor, LocalHashing, AdditiveLaplace])
def test_formulas_agree_with_draws(kind):
    # 20 classes have too many sets of bits to enumerate.
    formula = information(kind(eps=2.0), 20)
    drawn = information(kind(eps=2.0), 20, (1 / 20,) * 20)
    assert formula.bits == pytest.approx(drawn.bits, abs=4 * drawn.error)
    assert formula.share == pytest.approx(drawn.share, rel=0.02)
    assert formula.kept == pytest.approx(drawn.kept, abs=0.012)
    assert 0 < drawn.error < 0.01 * drawn.bits


def test_without_privacy_a_release_tells_all():
    for kind in (NoPrivacy, RandomizedResponse, Rappor, SubsetSelection, AdditiveLaplace):
        told = information(kind(eps=math.inf), 8)
        assert astuple(told) == pytest.approx((3, 1, 1, 0))


def test_a_million_classes_are_measured_by_formulas():
    # 51 labels were released in 45 s with 1 GB, because randomised response was measured by draws.
    told = information(RandomizedResponse(1.0), 10**6)
    assert told.kept == pytest.approx(math.e / (math.e + 10**6 - 1))
    for kind in (RandomizedResponse, Rappor, HadamardResponse, AdditiveLaplace):
        told = information(kind(eps=1.0), 10**6)
        assert told.error == 0
        assert 0 < told.share < told.bits < 0.2


def exact_information(mechanism, prior):
    """Mutual information in nats by enumeration."""
    outputs = mechanism.output_space(len(prior), prior)
    probability = mechanism.log_likelihood(outputs, len(prior), prior).exp()
    average = (probability * prior).sum(1, keepdim=True).clamp_min(1e-300)
    return float((prior * torch.special.xlogy(probability, probability / average)).sum())


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("eps", [0.1, 1.0, 2.0, 8.0])
def test_optimal_mechanism_is_subset_selection_for_a_uniform_prior(num_classes, eps):
    """If this fails, the linear programme is wrong, or subset selection is not the best."""
    size = SubsetSelection(eps=eps).chosen_size(num_classes)
    best = subset_information(num_classes, size, eps)
    found = exact_information(OptimalMechanism(eps), prior_of([1] * num_classes))
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("num_classes", "eps"), [(4, 0.5), (6, 0.5), (8, 1.0), (10, 2.0)])
def test_optimal_mechanism_treats_labels_of_equal_prior_alike(num_classes, eps):
    # A lopsided solution is as informative on average, and released two labels by one law: votes
    # on the circle fell from 99.4 % to 50.9 % at K=4.
    mechanism = OptimalMechanism(eps)
    for prior in (None, torch.tensor([0.1] * 2 + [0.8 / (num_classes - 2)] * (num_classes - 2))):
        prior = None if prior is None else prior.double() / prior.double().sum()
        sets = mechanism.output_space(num_classes, prior)
        law = mechanism.log_likelihood(sets, num_classes, prior).exp()
        assert law.sum(0).tolist() == pytest.approx([1.0] * num_classes)
        group = [torch.arange(num_classes)] if prior is None else [torch.arange(2, num_classes)]
        for members in group:
            roots = law[:, members].sqrt()
            distances = torch.pdist(roots.T.contiguous())
            assert distances.min() > 0.01
            assert distances.tolist() == pytest.approx([float(distances[0])] * len(distances))


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_nothing_beats_the_optimal_mechanism(eps):
    """If this fails, the bound that other mechanisms are compared with is none."""
    prior = prior_of([9, 1, 5, 2, 2])
    best = exact_information(OptimalMechanism(eps=eps), prior)
    kinds = (Rappor, SubsetSelection, RandomizedResponseWithPrior)
    others = [kind(eps=eps) for kind in (*kinds, HadamardResponse, LocalHashing)]
    for mechanism in (*others, BlockRR(eps=eps, favoured=2)):
        assert exact_information(mechanism, prior) <= best + 1e-9
