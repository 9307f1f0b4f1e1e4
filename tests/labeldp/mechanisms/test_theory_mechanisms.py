"""The theory's mechanisms: the eps of each audited, their noise, what the store charges."""

import math

import pytest
import torch
from scipy.stats import dlaplace, kstest

from labeldp.mechanisms import (
    CubeMeans,
    ExponentialCubes,
    FullExponentialCubes,
    LocalFull,
    Rappor,
)
from labeldp.mechanisms.base import local
from labeldp.mechanisms.noise import step_of
from labeldp.store import BudgetError, LabelStore
from labeldp.support import seeding
from labeldp.support.validate import InputError
from tests.laws import has_law


def worst(mechanism):
    return mechanism.worst_log_ratio(2)


def test_weight_eps_over_four_is_half_of_the_budget():
    # docs/theory.md says that equation 33 wastes half; and twice the tight weight must be caught.
    assert worst(FullExponentialCubes(1.0)) <= 0.5
    assert worst(FullExponentialCubes(2.0, constant="tight")) > 1.9


def test_exponential_mechanism_with_one_cube_and_two_classes():
    # P(1) = 1 / (1 + exp(eps (b - a) / 2)) for counts (a, b).
    counts = torch.tensor([[3, 7]])
    found = ExponentialCubes(0.8).log_probabilities(counts).exp()[0, 0]
    assert float(found) == pytest.approx(1 / (1 + math.exp(0.8 * 4 / 2)), abs=1e-12)
    labels = torch.cat([torch.zeros(3), torch.ones(7)]).long().repeat(20_000)
    groups = torch.arange(20_000).repeat_interleave(10)
    drawn = ExponentialCubes(0.8).over(groups, 20_000)(labels, 2, seeding.generator(0, "test"))
    assert float((drawn == 0).double().mean()) == pytest.approx(float(found), abs=0.01)


def test_local_full_has_the_stated_noise(monkeypatch):
    # Its audit believes the scales that the mechanism states.
    one, cubes = torch.tensor([0]), 5000
    found = LocalFull(0.5).over(one, cubes)(one, 2, seeding.generator(0, "test"))
    assert has_law(found[1:].flatten(), dlaplace(0.5 / 2))
    assert not has_law(found[1:].flatten(), dlaplace(0.5 / 1.9))
    assert worst(LocalFull(0.7, clip=3.0)) == pytest.approx(0.7)
    monkeypatch.setattr(LocalFull, "value_scale", lambda self, clip: 2 * clip / self.eps)
    assert worst(LocalFull(0.7)) == pytest.approx(1.5 * 0.7)  # the audit can say no
    seen = []
    monkeypatch.setattr(
        "labeldp.mechanisms.groups.laplace_sums",
        lambda counts, scale, stream: seen.append(scale) or torch.zeros(counts.shape),
    )
    values = torch.tensor([0.25], dtype=torch.float64)
    LocalFull(0.5, clip=3.0).over(one, 4)(values, math.inf, seeding.generator(0, "t"))
    assert seen == [2 * 3.0 / 0.5 / step_of(3.0), 4 / 0.5]  # noise has the scales that are audited


def test_cube_means_have_the_stated_noise():
    # The second term of the central rate is this noise.
    values = torch.full((40_000,), 0.3, dtype=torch.float64)
    groups = torch.arange(10_000).repeat_interleave(4)
    means = CubeMeans(0.5).over(groups, 10_000)(values, 1.0, seeding.generator(0, "test"))
    whole = means * 4 / step_of(1.0)
    assert (whole == whole.round()).all()
    assert kstest((means - 0.3).numpy(), "laplace", (0, 2 / (4 * 0.5))).pvalue > 1e-3


def test_store_charges_every_label_of_a_group_release_once():
    # Central answers would be free, or could be asked for again with other cubes.
    store = LabelStore(torch.zeros(50, dtype=torch.int64), 2).open(1.0, seed=0)
    groups = torch.arange(50) % 5
    store.release(ExponentialCubes(1.0).over(groups, 5))
    assert (store.eps_spent, store.trust, store.ledger[0].num_labels) == (1.0, "central", 50)
    with pytest.raises(BudgetError):
        store.release(Rappor(1.0).over(groups, 5))
    real = LabelStore(torch.zeros(50, dtype=torch.float64), 0, bound=1.0).open(1.0, seed=0)
    with pytest.raises(InputError, match="this data set has real labels"):
        real.release(Rappor(1.0).over(groups, 5))
    with pytest.raises(InputError, match=r"single labels \(use learner=local_averages\)"):
        local(CubeMeans(1.0))
    with pytest.raises(InputError, match="finite and in"):
        LabelStore(torch.full((3,), 2.0, dtype=torch.float64), 0, bound=1.0)
