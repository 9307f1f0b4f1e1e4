"""BlockRR: golden rates and partitions, Lemma 3.1, Theorem 3.2 on Tables 1 and 2."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms import (
    BlockRR,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    RPWithPrior,
    RROnBins,
)
from labeldp.mechanisms.base import two_levels
from labeldp.mechanisms.response import block_matrix, own_rates
from labeldp.support.validate import InputError

COUNTS_1 = [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500]
COUNTS_2 = [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400]


def prior_of(counts):
    counts = torch.tensor(counts, dtype=torch.float64)
    return counts / counts.sum()


@pytest.mark.parametrize(
    ("eps", "frequent", "favoured", "beta", "gamma", "keeps"),
    [
        (0.6, 6, 6, 0.097945, 0.082951, (0.1785, 0.1511)),
        (0.6, 6, 2, 0.096000, 0.086269, (0.1749, 0.1572)),
        (0.8, 6, 5, 0.095551, 0.077399, (0.2127, 0.1723)),
        (0.8, 6, 6, 0.096022, 0.076547, (0.2137, 0.1704)),
        (1.0, 6, 5, 0.092644, 0.071238, (0.2518, 0.1936)),
        (2.0, 8, 2, 0.062451, 0.050696, (0.4615, 0.3746)),
        (2.0, 6, 6, 0.068285, 0.038502, (0.5046, 0.2845)),
        (3.0, 6, 0, 0.034381, 0.034381, (0.6906, 0.6906)),
    ],
)
def test_block_rates_are_the_golden_ones(eps, frequent, favoured, beta, gamma, keeps):
    """If this fails, equation 3.2 is solved wrongly."""
    rates = own_rates(eps, (frequent, 10 - frequent), favoured)
    assert [math.exp(-eps) * rate for rate in rates] == pytest.approx((beta, gamma), abs=5e-7)
    assert rates == pytest.approx(keeps, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "sigma", "rare"),
    [
        (COUNTS_1, 1.40, {6, 7, 8, 9}),
        (COUNTS_1, 0.80, {6, 8}),
        (COUNTS_1, 0.50, set()),
        (COUNTS_2, 0.80, {6, 7, 8, 9}),
        (COUNTS_2, 0.50, {6, 7, 9}),
        (COUNTS_2, 0.20, set()),
    ],
)
def test_partition_follows_from_the_class_frequencies(counts, sigma, rare):
    """If this fails, the paper's tables are run on another partition."""
    frequent, favoured = BlockRR(eps=1.0, sigma=sigma, favoured=3).partition(prior_of(counts))
    assert set((~frequent).nonzero().flatten().tolist()) == rare
    assert favoured.nonzero().flatten().tolist() == [0, 1, 5]


@pytest.mark.parametrize(
    ("counts", "top_k"),
    [(COUNTS_1, {0.6: 6, 2: 6, 3: 8, 4: 10}), (COUNTS_2, {3: 6, 4: 9, 6: 10})],
)
def test_rrwithprior_on_the_imbalanced_data(counts, top_k):
    """If this fails, BlockRR's competitor drops other classes than in its paper."""
    prior = prior_of(counts)[None]
    found = {eps: int(RandomizedResponseWithPrior(eps=eps).top_k(prior)) for eps in top_k}
    assert found == top_k


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_lemma_3_1(eps, frequent, rare, near):
    """If this fails, beta does not rise or gamma does not fall in l."""
    frequent, rare = max(frequent, near), max(rare, near)
    own = [own_rates(eps, (frequent, rare), l, near) for l in range(frequent + 1)]  # noqa: E741
    rates = [(math.exp(-eps) * beta, math.exp(-eps) * gamma) for beta, gamma in own]
    betas, gammas = zip(*rates, strict=True)
    for previous, following in itertools.pairwise(rates):
        assert following[0] >= previous[0] * (1 - 1e-12)
        assert following[1] <= previous[1] * (1 + 1e-12)
    assert max(gammas) == pytest.approx(min(betas), rel=1e-12)
    # Equation 3.1: rows sum to one.
    gain = math.expm1(eps) * near
    for l, (beta, gamma) in enumerate(rates):  # noqa: E741
        assert (gain + frequent) * beta + rare * gamma == pytest.approx(1)
        rest = (frequent - l) * beta + (gain + rare) * gamma
        assert rest + l / (frequent + rare) == pytest.approx(1)


LEVELS = 12
BUDGETS = [0.3, 1.0, 2.0, 4.0, 8.0]


def normalised(weights):
    return torch.as_tensor(weights, dtype=torch.float64) / sum(weights)


PRIORS = {
    "uniform": normalised([1.0] * LEVELS),
    "rising": normalised([float(i) for i in range(1, LEVELS + 1)]),
    "steep": normalised([2.0**-i for i in range(LEVELS)]),
    "two peaks": normalised([9, 5, 1, 1, 1, 1, 1, 1, 1, 3, 8, 2.0]),
    "nearly one label": normalised([1e-3] * 6 + [1.0] + [1e-3] * 5),
}
everywhere = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
at_every_eps = pytest.mark.parametrize("eps", BUDGETS)


def close(found, expected):
    return torch.allclose(found, expected, atol=1e-14, rtol=1e-11)


@everywhere
@pytest.mark.parametrize("eps", [*BUDGETS, 100.0, math.inf])
def test_rr(eps, prior):
    # Table 1 (all labels frequent) or Table 2 (any blocks, l = 0), row RR, would not hold.
    expected = RandomizedResponse(eps).transition_matrix(LEVELS)
    for sigma in (0.05, 1.0, 5.0):
        found = BlockRR(eps, sigma=sigma, favoured=0).transition_matrix(LEVELS, prior)
        assert close(found, expected)


@everywhere
@at_every_eps
@pytest.mark.parametrize("rule", ["paper", "released_code"])
def test_rrwithprior(eps, prior, rule):
    # Table 1, row RRWithPrior: l = |S~1| and no output for rare labels.
    mechanism = RandomizedResponseWithPrior(eps, k_rule=rule)
    size = int(mechanism.top_k(prior[None]))
    frequent = torch.zeros(LEVELS, dtype=torch.bool)
    frequent[prior.sort(descending=True, stable=True).indices[:size]] = True
    outputs = frequent.nonzero().flatten()
    near = torch.eye(LEVELS, dtype=torch.bool)[:, outputs]
    found = block_matrix(eps, near, frequent, torch.ones(size, dtype=torch.bool))
    assert close(found, mechanism.transition_matrix(LEVELS, prior)[:, outputs])


@everywhere
@at_every_eps
def test_rr_on_bins(eps, prior):
    # Rows RRonBins: Table 1, and Table 2 with blocks that no bin crosses.
    mechanism = RROnBins(eps, levels=LEVELS)
    which, centres = mechanism.bins(1.0, prior)
    grid = mechanism.grid(1.0)
    expected = mechanism.log_density(centres, grid, 1.0, prior).exp().T
    near = torch.nn.functional.one_hot(which, len(centres)).bool()
    nothing = torch.zeros(len(centres), dtype=torch.bool)
    for last in range(len(centres)):
        found = block_matrix(eps, near, which <= last, nothing)
        assert close(found, expected)


@pytest.mark.parametrize("eps", [0.3, 1.0, 2.0, 3.0])
def test_rr_on_bins_is_out_of_reach_where_a_bin_crosses_the_blocks(eps):
    # docs/theory.md: a rare label gets beta on all of S~1, its own bin too.
    prior = PRIORS["two peaks"]
    which, centres = RROnBins(eps, levels=LEVELS).bins(1.0, prior)
    near = torch.nn.functional.one_hot(which, len(centres)).bool()
    frequent = prior > 0.05  # the likely labels, at both ends of the range
    assert (near[~frequent] & near[frequent].any(0)).any()
    with pytest.raises(InputError, match="none that a frequent and a rare label share"):
        block_matrix(eps, near, frequent, torch.zeros(len(centres), dtype=torch.bool))
    m = len(centres)
    beta, gamma = (math.exp(-eps) * rate for rate in own_rates(eps, (m, 0), 0))
    assert (beta, gamma) == pytest.approx([1 / (math.exp(eps) + m - 1)] * 2)
    assert m * beta < 0.9  # the row of such a label, which has to sum to one


@everywhere
@at_every_eps
@pytest.mark.parametrize("mass", [0.3, 0.9])
def test_rp_with_prior(eps, prior, mass):
    # Table 1, row RPWithPrior, in lengths: |B(y)| = 2 r, |S~1| = b - a + 2 r, l = |S~1|.
    mechanism = RPWithPrior(eps, levels=LEVELS, mass=mass)
    low, high, radius = mechanism.shape(1.0, prior)
    length = high - low + 2 * radius
    rates = own_rates(eps, (length, 0.0), length, near=2 * radius)
    beta, gamma = (math.exp(-eps) * rate for rate in rates)
    assert gamma == pytest.approx(0, abs=1e-12)
    labels = torch.linspace(-1, 1, 81, dtype=torch.float64)
    outputs = torch.linspace(low - radius, high + radius, 401, dtype=torch.float64)
    inside = (labels >= low) & (labels <= high)
    near = (outputs[None, :] - labels[:, None]).abs() <= radius
    expected = two_levels(near, math.exp(eps) * beta, beta)
    expected[~inside] = 1 / length
    found = mechanism.log_density(outputs, labels, 1.0, prior).exp().T
    # A window's very edge may fall on either side of a rounding.
    edge = ((outputs[None, :] - labels[:, None]).abs() - radius).abs() < 1e-9
    assert close(found[~edge], expected[~edge])
