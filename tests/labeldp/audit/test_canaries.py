"""Audits end to end: guesses about canaries bound eps from below, and not by too little."""

import math

import torch

from labeldp.audit.end_to_end import Game, one_run_epsilon, pair_epsilon
from labeldp.mechanisms import RandomizedResponse, Rappor
from labeldp.support import seeding

K, EPS = 4, 2.0


def played(mechanism, count=20_000, seed=0):
    draws = seeding.generator(seed, "test")
    labels = torch.randint(K, (count,), generator=draws)
    told = mechanism.log_likelihood(mechanism.release(labels, K, draws), K)
    return Game.of_pairs(told, labels, draws), labels, told


def test_bounds_reach_towards_eps_and_stay_below():
    # A bound above eps would accuse the innocent; one far below it would accuse nobody.
    for mechanism in (RandomizedResponse(EPS), Rappor(EPS)):
        game = played(mechanism)[0]
        for found in (one_run_epsilon(game, 0.99), pair_epsilon(game, 0.99)):
            assert 0.75 * EPS < found <= EPS
    assert one_run_epsilon(played(RandomizedResponse(2 * EPS))[0], 0.99) > 1.5 * EPS


def test_bounds_are_wrong_as_seldom_as_they_say():
    # Thresholds and bound from the same half would make them too large.
    mechanism = RandomizedResponse(1.0)
    found = [one_run_epsilon(played(mechanism, 600, seed)[0], 0.8) for seed in range(60)]
    assert sum(bound > 1.0 for bound in found) <= 0.2 * 60


def test_guesses_of_nothing_bound_nothing():
    draws = seeding.generator(0, "test")
    labels = torch.randint(K, (5000,), generator=draws)
    noise = torch.randn(5000, K, generator=draws).double()
    assert one_run_epsilon(Game.of_pairs(noise, labels, draws), 0.99) == 0
    silent = torch.zeros(5000, K).double()
    assert one_run_epsilon(Game.of_pairs(silent, labels, draws)) == 0


def test_observational_game_needs_no_canary_but_the_law():
    # Labels from a known law: what the model says beyond the law came through the release.
    draws = seeding.generator(1, "test")
    law = torch.rand(20_000, K, generator=draws).double().softmax(1)
    labels = torch.multinomial(law, 1, generator=draws).squeeze(1)
    mechanism = RandomizedResponse(EPS)
    told = mechanism.log_likelihood(mechanism.release(labels, K, draws), K)
    after = (told + law.log()).log_softmax(1)
    assert 0.3 < one_run_epsilon(Game.observed(after, law, labels, draws), 0.99) <= EPS
    assert one_run_epsilon(Game.observed(law.log(), law, labels, draws), 0.99) == 0
    best = math.log(math.exp(EPS) * K / (math.exp(EPS) + K - 1))  # of this game, under a flat law
    assert one_run_epsilon(Game.observed(after, law, labels, draws), 0.99) < best + 0.3
