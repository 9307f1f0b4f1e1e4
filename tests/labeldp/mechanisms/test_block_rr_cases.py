"""BlockRR's Theorem 3.2 against the mechanisms themselves: Tables 1 and 2 over priors and eps.

Hand-made matrices of the same rows are in test_block_rr.py.
"""

import math

import pytest
import torch

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
@at_every_eps
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
    # docs/theory-real-labels.md: a rare label gets beta on all of S~1, its own bin too.
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


def test_windows_of_labels_outside_the_interval_are_no_part_of_the_framework():
    # docs/theory-real-labels.md says that B must be empty on S2: these windows reach into S~1.
    labels, outputs = torch.arange(10), torch.arange(2, 8)
    near = (labels[:, None] - outputs).abs() <= 1
    frequent = (labels >= 3) & (labels <= 6)
    with pytest.raises(InputError, match="none that a frequent and a rare label share"):
        block_matrix(1.0, near, frequent, torch.ones(6, dtype=torch.bool))
