"""docs/blockrr_gap.md: BlockRR beside the optimum of its own linear programme, computed again."""

import math

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy.optimize import linprog

from labeldp.mechanisms import BlockRR, RandomizedResponse
from tests.conftest import CHECKOUT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (CHECKOUT / "docs" / "blockrr_gap.md").read_text().splitlines()
    if line.startswith("| cifar10_")
]


def optimum_of(weights, eps, fixed, unused=()):
    """Returns the largest sum of w P over eps-DP channels that answer 1/K where `fixed`."""
    size = len(weights)
    private = []  # P(o | y) <= e^eps P(o | z)
    for output in range(size):
        for more in range(size):
            for less in set(range(size)) - {more}:
                row = np.zeros((size, size))
                row[more, output], row[less, output] = math.exp(-eps), -1
                private.append(row.ravel())
    bounds = [(1 / size, 1 / size) if held else (0, 1) for held in fixed.ravel()]
    solved = linprog(
        -weights.ravel(),
        A_ub=np.array(private),
        b_ub=np.zeros(len(private)),
        A_eq=np.kron(np.eye(size), np.ones(size)),
        b_eq=np.ones(size),
        bounds=[(0, 0) if i % size in unused else bound for i, bound in enumerate(bounds)],
    )
    return -solved.fun


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: "-".join(cells[:2]))
def test_a_row_of_the_page_is_what_the_programme_gives(cells):
    name, eps, sigma, favoured, rare, *values, gap, unused = cells
    config = OmegaConf.load(CHECKOUT / "configs" / "dataset" / f"{name}.yaml")
    prior = torch.tensor(config.train_counts, dtype=torch.float64)
    prior /= prior.sum()
    mechanism = BlockRR(
        eps=float(eps), sigma=float(sigma), favoured=0 if favoured == "any" else int(favoured)
    )
    frequent, favoured = mechanism.partition(prior)
    assert spell((~frequent).nonzero().flatten().tolist()) == rare
    other = math.exp(-1 / mechanism.sigma)
    weights = (prior * (other + (1 - other) * torch.eye(10, dtype=torch.float64))).numpy()
    given = weights, mechanism.eps, (~frequent[:, None] & favoured).numpy()
    optimum = optimum_of(*given)
    plain = RandomizedResponse(eps=mechanism.eps).transition_matrix(10).numpy()
    own = mechanism.transition_matrix(10, prior).numpy()
    found = [float((weights * plain).sum()), float((weights * own).sum()), optimum]
    assert [f"{value:.3f}" for value in found] == values
    assert f"{100 * abs(1 - found[1] / optimum):.1f} %" == gap
    if unused != "-":
        never = [int(label) for label in unused.split(",")]
        assert optimum_of(*given, never) == pytest.approx(optimum)


def spell(labels):
    return ", ".join(map(str, labels)) or "-"


def test_the_page_has_all_rows():
    assert len(ROWS) == 16
