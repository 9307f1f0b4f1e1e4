"""BlockRR (peers.md 1.7): golden rates, partitions, hand-made matrices, Lemma 3.1."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms import BlockRR, RandomizedResponse, RandomizedResponseWithPrior
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
        (COUNTS_1, 1.40, {6, 7, 8, 9}), (COUNTS_1, 1.20, {6, 7, 8, 9}), (COUNTS_1, 0.80, {6, 8}),
        (COUNTS_1, 0.78, {6, 8}), (COUNTS_1, 0.50, set()), (COUNTS_2, 1.20, {6, 7, 8, 9}),
        (COUNTS_2, 0.80, {6, 7, 8, 9}), (COUNTS_2, 0.50, {6, 7, 9}), (COUNTS_2, 0.20, set()),
    ],
)  # fmt: skip
def test_partition_follows_from_the_class_frequencies(counts, sigma, rare):
    """If this fails, the paper's tables are run on another partition."""
    frequent, favoured = BlockRR(eps=1.0, sigma=sigma, favoured=3).partition(prior_of(counts))
    assert set((~frequent).nonzero().flatten().tolist()) == rare
    assert favoured.nonzero().flatten().tolist() == [0, 1, 5]


@pytest.mark.parametrize(
    ("counts", "eps", "top_k"),
    [(COUNTS_1, 0.6, 6), (COUNTS_1, 2, 6), (COUNTS_1, 3, 8), (COUNTS_1, 4, 10),
     (COUNTS_2, 3, 6), (COUNTS_2, 4, 9), (COUNTS_2, 6, 10)],
)  # fmt: skip
def test_rrwithprior_on_the_imbalanced_data(counts, eps, top_k):
    """If this fails, BlockRR's competitor drops other classes than in its paper."""
    assert int(RandomizedResponseWithPrior(eps=eps).top_k(prior_of(counts)[None])) == top_k


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0, 100.0, math.inf])
def test_block_rr_without_favoured_labels_is_rr(eps):
    """If this fails, Table 2 row RR (l = 0) or Table 1 row RR (no rare label) does not hold."""
    expected = RandomizedResponse(eps=eps).transition_matrix(10)
    for mechanism in (
        BlockRR(eps=eps, sigma=1.2, favoured=0),
        BlockRR(eps=eps, sigma=0.05, favoured=6),
    ):
        found = mechanism.transition_matrix(10, prior_of(COUNTS_1))
        assert torch.allclose(found, expected, atol=1e-15, rtol=1e-12)


def test_block_rr_with_windows_is_rpwithprior():
    """If this fails, Table 1 row RPWithPrior (on a grid) does not hold."""
    # Labels 0..9, interval [3, 6], radius 1: outputs 2..7, three of them near a label inside.
    labels, outputs, eps, radius = torch.arange(10), torch.arange(2, 8), 1.0, 1
    frequent = (labels >= 3) & (labels <= 6)
    near = ((labels[:, None] - outputs).abs() <= radius) & frequent[:, None]
    found = block_matrix(eps, near, frequent, torch.ones(6, dtype=torch.bool))
    window = 2 * radius + 1
    high = 1 / (window + (6 - window) * math.exp(-eps))
    expected = high * (math.exp(-eps) + (1 - math.exp(-eps)) * near.double())
    expected[~frequent] = 1 / 6
    assert torch.allclose(found, expected, atol=1e-15)


def test_block_rr_refuses_outputs_shared_by_both_blocks():
    """If this fails, a matrix whose rows do not sum to one is used."""
    near = torch.ones((4, 3), dtype=torch.bool)
    with pytest.raises(InputError, match="as many near outputs for every label"):
        block_matrix(1.0, near, torch.arange(4) < 2, torch.zeros(3, dtype=torch.bool))


@settings(max_examples=200, deadline=None)
@given(
    eps=st.floats(0.01, 12), frequent=st.integers(1, 12), rare=st.integers(1, 12),
    near=st.integers(1, 3),
)  # fmt: skip
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
