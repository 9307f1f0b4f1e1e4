"""BlockRR and the optimum of its own linear programme (docs/differences.md)."""

import math

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy.optimize import linprog

from labeldp.mechanisms import BlockRR, RandomizedResponse
from tests.conftest import CHECKOUT

ROWS = [
    line.split(" | ")
    for line in """\
cifar10_1 | 0.6 | 1.4 | 6 | 6, 7, 8, 9 | 0.575 | 0.599 | 0.646 | 7.2 % | 6, 7, 8
cifar10_1 | 0.8 | 1.2 | 5 | 6, 7, 8, 9 | 0.547 | 0.575 | 0.738 | 22.1 % | 6, 7, 8, 9
cifar10_1 | 1 | 1.2 | 5 | 6, 7, 8, 9 | 0.566 | 0.602 | 0.759 | 20.7 % | 6, 7, 8, 9
cifar10_1 | 2 | 0.8 | 2 | 6, 8 | 0.608 | 0.622 | 0.771 | 19.3 % | 6, 7, 8, 9
cifar10_1 | 3 | 0.78 | 0 | 6, 8 | 0.776 | 0.776 | 0.892 | 12.9 % | 6, 7, 8, 9
cifar10_1 | 4 | 0.5 | any | - | 0.878 | 0.878 | 0.887 | 1.1 % | 6, 8
cifar10_1 | 6 | 0.5 | any | - | 0.981 | 0.981 | 0.981 | 0.0 % | -
cifar10_1 | 8 | 0.5 | any | - | 0.997 | 0.997 | 0.997 | 0.0 % | -
cifar10_2 | 0.6 | 1.2 | 2 | 6, 7, 8, 9 | 0.530 | 0.549 | 0.807 | 32.0 % | 4, 6, 7, 8, 9
cifar10_2 | 0.8 | 1.2 | 6 | 6, 7, 8, 9 | 0.547 | 0.587 | 0.643 | 8.7 % | 6, 7, 9
cifar10_2 | 1 | 1.2 | 5 | 6, 7, 8, 9 | 0.566 | 0.614 | 0.828 | 25.9 % | 6, 7, 8, 9
cifar10_2 | 2 | 0.8 | 6 | 6, 7, 8, 9 | 0.608 | 0.693 | 0.751 | 7.7 % | 6, 7, 9
cifar10_2 | 3 | 0.8 | 0 | 6, 7, 8, 9 | 0.779 | 0.779 | 0.981 | 20.5 % | 6, 7, 8, 9
cifar10_2 | 4 | 0.5 | 0 | 6, 7, 9 | 0.878 | 0.878 | 0.949 | 7.5 % | 6, 7, 8, 9
cifar10_2 | 6 | 0.2 | any | - | 0.978 | 0.978 | 0.978 | 0.0 % | -
cifar10_2 | 8 | 0.2 | any | - | 0.997 | 0.997 | 0.997 | 0.0 % | -
""".splitlines()
]
"""Data set, eps, sigma, l, rare labels, objective of RR, BlockRR and the optimum, gap, labels
that the optimum never reports (docs/differences.md has the largest gaps)."""


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
def test_a_row_is_what_the_programme_gives(cells):
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
