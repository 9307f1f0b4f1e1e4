"""BlockRR beside the optimum of its own programme (peers.md 1.7)."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from labeldp_bench.mechanisms import BlockRR, RandomizedResponse
from labeldp_bench.mechanisms.block_rr_optimum import programme_gap, weight_matrix

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "blockrr_gap.py"
COUNTS = torch.tensor([5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500.0]).double()
PRIOR = COUNTS / COUNTS.sum()


@pytest.mark.parametrize(
    ("eps", "sigma", "favoured", "block_rr", "optimum"),
    [(0.6, 1.40, 6, 0.599, 0.646), (1, 1.20, 5, 0.602, 0.759), (2, 0.80, 2, 0.622, 0.771)],
)
def test_gap_is_the_published_one(eps, sigma, favoured, block_rr, optimum):
    # The report would compare BlockRR with the optimum of another programme.
    gap = programme_gap(BlockRR(eps=eps, sigma=sigma, favoured=favoured), PRIOR)
    assert (gap.block_rr, gap.optimum) == pytest.approx((block_rr, optimum), abs=5e-4)


def test_optimum_meets_every_constraint():
    # A better value would only mean that a constraint was forgotten.
    mechanism = BlockRR(eps=1.0, sigma=1.2, favoured=5)
    gap = programme_gap(mechanism, PRIOR)
    frequent, favoured = mechanism.partition(PRIOR)
    assert torch.allclose(gap.matrix.sum(1), torch.ones(10).double(), atol=1e-7)
    assert (gap.matrix >= -1e-12).all()
    assert (gap.matrix.amax(0) <= math.e * gap.matrix.amin(0) + 1e-7).all()
    fixed = gap.matrix[~frequent][:, favoured]
    assert torch.allclose(fixed, torch.full_like(fixed, 0.1))
    value = float((weight_matrix(PRIOR, 1.2) * gap.matrix).sum())
    assert value == pytest.approx(gap.optimum)


@pytest.mark.parametrize("eps", [0.5, 2.0, 8.0, math.inf])
def test_without_rare_labels_and_under_a_uniform_prior_blockrr_is_optimal(eps):
    # The gap would come from the solver, not from BlockRR.
    uniform = torch.full((6,), 1 / 6, dtype=torch.float64)
    gap = programme_gap(BlockRR(eps=eps, sigma=0.5, favoured=3), uniform)
    assert gap.block_rr == pytest.approx(gap.optimum, rel=1e-7)
    plain = RandomizedResponse(eps=eps).transition_matrix(6)
    assert gap.block_rr == pytest.approx(float((weight_matrix(uniform, 0.5) * plain).sum()))


def test_weights_are_equation_3_3():
    # Columns and rows would change places: the weight is the prior of the released label.
    weights = weight_matrix(torch.tensor([0.7, 0.3], dtype=torch.float64), 2.0)
    other = math.exp(-0.5)
    expected = torch.tensor([[0.7, 0.3 * other], [0.7 * other, 0.3]], dtype=torch.float64)
    assert torch.allclose(weights, expected)


def test_a_thirty_label_programme_is_solved_in_sparse_form():
    # Dense constraints would take K^4 numbers.
    prior = torch.arange(1, 31, dtype=torch.float64)
    gap = programme_gap(BlockRR(eps=1.0, sigma=1.0, favoured=4), prior / prior.sum())
    assert gap.optimum >= gap.block_rr - 1e-9


def test_script_writes_a_row_for_every_cell(tmp_path):
    # The page would miss a column of the paper's parameter tables.
    spec = importlib.util.spec_from_file_location("blockrr_gap", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([f"out={tmp_path / 'page.md'}"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert text.count("\n| cifar10_") == 16
    for line in text.splitlines():  # the committed page is of this script
        assert not line.startswith("| cifar10_") or line[:90] in module.PAGE.read_text()
