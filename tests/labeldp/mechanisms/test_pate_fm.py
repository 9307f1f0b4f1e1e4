"""PATE-FM: the accounting of votes against printed and brute-force values, and what is released."""

import math

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.special import ndtr

from labeldp.mechanisms import PateFM
from labeldp.mechanisms.moments import gaussian_delta, gaussian_stddev
from labeldp.mechanisms.pate import (
    RENYI_ORDERS,
    _surprise,
    data_dependent_epsilon,
    gaussian_epsilon,
    votes_epsilon,
)
from labeldp.support.validate import InputError


@pytest.mark.parametrize(
    ("selections", "on_the_largest", "on_every_count"),
    [(250, 0.173, 0.188), (500, 0.188, 0.215), (1000, 0.215, 0.262), (2000, 0.262, 0.338)],
)
def test_eps_of_the_papers_command(selections, on_the_largest, on_every_count):
    # 250 answers on CIFAR-10 at noise (800, 500), by Rényi divergences as published. Its code adds
    # noise to every count, which costs twice as much for each selection as it accounts for.
    for times, published in ((1, on_the_largest), (2, on_every_count)):
        noise = 1 / math.sqrt(times * selections / 800**2 + 2 * 250 / 500**2)
        assert gaussian_epsilon(noise, 1e-5) == pytest.approx(published, abs=6e-4)
        exact = votes_epsilon(selections, 250, 800 / math.sqrt(times), 500, 1e-5)
        assert 0.85 * published < exact < 0.95 * published


def test_composition_is_exact():
    # The numbers of dp-accounting's privacy loss distributions, which round upwards by 1e-4.
    gaussian, accountant = GaussianDpEvent, PLDAccountant()
    accountant.compose(gaussian(800), 1000).compose(gaussian(500 / math.sqrt(2)), 250)
    found = votes_epsilon(1000, 250, 800, 500, 1e-5)
    assert found == pytest.approx(0.1941, abs=1e-4)
    assert found <= accountant.get_epsilon(1e-5) <= found + 2e-4


@pytest.mark.parametrize("eps", [0.05, 1.0, 6.0])
def test_both_noises_together_cost_less_than_eps(eps):
    mechanism = PateFM(eps, queries=300, answers=40, selection_share=0.3)
    noises = mechanism.selection_stddev, mechanism.answer_stddev
    stddev = 1 / math.sqrt(300 / noises[0] ** 2 + 2 * 40 / noises[1] ** 2)
    assert 0.85 * eps < mechanism.eps_spent < eps
    assert gaussian_delta(mechanism.eps_spent, stddev) == pytest.approx(1e-5)
    # Rényi divergences ask for a tenth more noise than Gaussian noise needs, never for less.
    assert gaussian_epsilon(gaussian_stddev(eps, 1e-5), 1e-5) > eps


def test_winners_end_with_the_last_answer_and_only_where_teachers_agree():
    mechanism = PateFM(math.inf, teachers=10, queries=4, answers=2, threshold=0.6)
    counts = torch.tensor([[5, 5, 0], [0, 7, 3], [0, 0, 10], [9, 1, 0]]).double()
    released = mechanism.release_votes(counts, torch.Generator())
    assert released.tolist() == [-1, 1, 2, -1]  # no agreement; two winners; nothing left
    assert mechanism.unsanitised(counts, released) == {}
    with pytest.raises(InputError, match="counted for 4 queries"):
        mechanism.release_votes(counts[:3], torch.Generator())


def test_shares_of_answers_and_winners_are_those_of_the_stated_noise():
    mechanism = PateFM(2.0, teachers=100, queries=40_000, answers=40_000, threshold=0.5)
    one, two = mechanism.selection_stddev, mechanism.answer_stddev
    counts = torch.tensor([50 - one, 50 - one - math.sqrt(2) * two, -1e9]).double()
    released = mechanism.release_votes(counts.expand(40_000, 3), torch.Generator().manual_seed(0))
    answered = released >= 0
    assert float(answered.double().mean()) == pytest.approx(ndtr(-1), abs=0.008)
    assert float((released[answered] == 0).double().mean()) == pytest.approx(ndtr(1), abs=0.02)


@pytest.mark.parametrize("lead", [1.0, 5.0, 9.0, 13.0])
def test_divergence_by_the_votes_is_never_below_the_true_one(lead):
    # Two classes: every probability is known, so Rényi divergences of neighbours are too.
    stddev = 2.5

    def missed(ahead):
        return ndtr(-ahead / (math.sqrt(2) * stddev))

    bound = _surprise(float(np.log(missed(lead))), stddev)
    assert (bound <= RENYI_ORDERS / stddev**2 * (1 + 1e-12)).all()
    for other in (lead - 2, lead + 2):  # one vote moves from one class to the other
        p, q = (np.array([missed(ahead), 1 - missed(ahead)]) for ahead in (lead, other))
        small = RENYI_ORDERS < 60
        powers = (p ** RENYI_ORDERS[small, None] * q ** (1 - RENYI_ORDERS[small, None])).sum(1)
        assert (np.log(powers) / (RENYI_ORDERS[small] - 1) <= bound[small] + 1e-12).all()
    assert lead < 13 or bound[100] < 0.5 * RENYI_ORDERS[100] / stddev**2  # agreement must pay


def test_agreement_costs_less_and_discord_what_is_claimed():
    def found(counts):
        everyone = np.tile(counts, (100, 1))
        return data_dependent_epsilon(everyone, np.ones(100, bool), 150, 40, 30, 1e-5)

    always = gaussian_epsilon(1 / math.sqrt(100 / 40**2 + 2 * 100 / 30**2), 1e-5)
    assert found([150.0, 150.0, 0.0]) == pytest.approx(always, rel=1e-6)
    assert found([250.0, 0.0, 0.0]) < 0.6 * always < found([165.0, 85.0, 0.0]) <= always


@pytest.mark.parametrize(
    ("key", "value"),
    [("teachers", 1), ("answers", 201), ("threshold", 1.1), ("selection_share", 0), ("delta", 0)],
)
def test_a_wrong_value_is_one_clear_line(key, value):
    with pytest.raises(InputError, match=f"mechanism.{key} must be"):
        PateFM(1.0, **{key: value})
