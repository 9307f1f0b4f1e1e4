"""Secret randomness: the cipher's stream, its uniform laws, and that nothing draws beside it."""

import copy
import inspect
import math
import multiprocessing
import os
import pickle
from dataclasses import replace

import hydra
import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare, kstest

from labeldp.mechanisms import (
    ClassSums,
    LabelMechanism,
    Rappor,
    SubsetSelection,
)
from labeldp.mechanisms.noise import SecretGenerator, integers, uniforms
from labeldp.mechanisms.pate import PateFM
from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell, mechanism_names

# Secret draws differ in every run, so that a test of a law may fail once in a million runs.
RARE = 1e-6
ZERO_KEY_STREAM = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"


def test_the_stream_is_chacha20_under_what_the_system_gives(monkeypatch):
    # Any other stream, or a key of fewer bits, could be guessed.
    asked = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))
    drawn = SecretGenerator().integers(0, 2**64, 4, np.uint64)
    assert drawn.tobytes().hex() == ZERO_KEY_STREAM  # RFC 8439, appendix A.1, test vector 1
    assert asked == [32, 8]


def test_its_numbers_are_used_once():
    # Two releases with the same random numbers tell more than both budgets; a kept key tells all.
    one, other = SecretGenerator(), SecretGenerator()
    assert not np.array_equal(one.random(50), other.random(50))
    assert not np.array_equal(one.random(50), one.random(50))
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            take(one)
    public = [name for name, _ in inspect.getmembers(one) if not name.startswith("_")]
    assert public == ["integers", "random"] and not hasattr(one, "__dict__")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_numbers_of_its_own():
    # Parts of the labels that workers release side by side would all have the same noise.
    noise = SecretGenerator()
    noise.random(1)  # in use before the fork
    fork, outputs = multiprocessing.get_context("fork"), []
    for _ in range(2):
        theirs, ours = fork.Pipe(duplex=False)
        child = fork.Process(target=lambda end=ours: end.send_bytes(noise.random(8).tobytes()))
        child.start()
        assert theirs.poll(60)
        outputs.append(theirs.recv_bytes())
        child.join()
    assert len({*outputs, noise.random(8).tobytes()}) == 3


def test_draws_are_uniform():
    noise = SecretGenerator()
    floats = uniforms((200, 500), noise)
    assert floats.dtype == torch.float64 and floats.min() >= 0 and floats.max() < 1
    assert (floats * 2**53 == (floats * 2**53).round()).all()
    assert kstest(floats.flatten().numpy(), "uniform").pvalue > RARE
    whole = integers(-3, 7, (50, 2000), noise)
    assert whole.dtype == torch.int64 and (whole.min(), whole.max()) == (-3, 6)
    assert chisquare(torch.bincount(whole.flatten() + 3)).pvalue > RARE
    assert noise.integers(0, 1, 5).tolist() == [0] * 5 and noise.random(0).shape == (0,)


@pytest.mark.parametrize("span", [3 * 2**30, 3 * 2**62])
def test_words_beyond_the_last_whole_multiple_are_drawn_again(span):
    # Without it the first third would come up half of the time.
    drawn = SecretGenerator().integers(0, span, 40_000, np.uint64)
    assert drawn.max() < span
    low = int((drawn < span // 3).sum())
    assert binomtest(low, len(drawn), 1 / 3).pvalue > RARE


@pytest.mark.parametrize("name", [name for name in mechanism_names() if name != "ple"])
def test_no_mechanism_draws_beside_it(name, monkeypatch):
    # One draw from a twister would be enough to undo a release.
    def refuse(*arguments, **keywords):
        raise AssertionError("drawn from a generator that can be guessed")

    for method in ("rand", "randint", "randperm", "randn", "multinomial", "bernoulli"):
        monkeypatch.setattr(torch, method, refuse)
    monkeypatch.setattr(np.random, "default_rng", refuse)
    mechanism = made(name)
    outputs = [released(mechanism, task) for task in mechanism.tasks for _ in range(2)]
    assert all(outputs)
    if mechanism.eps < 10:
        for one, other in zip(outputs[::2], outputs[1::2], strict=True):
            assert not any(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def votes(store, mechanism):
    """What is released of teachers who vote for the first label that they see."""
    if not isinstance(mechanism, PateFM):
        raise InputError("asks no teachers")
    parts = torch.arange(600) % mechanism.teachers
    first = lambda _, labels: torch.full((mechanism.queries,), int(labels[0]))  # noqa: E731
    return store.release(replace(mechanism, parts=parts, vote=first))


def sums(store, mechanism, groups):
    """What is released of the rows of each class."""
    if not isinstance(mechanism, ClassSums):
        raise InputError("asks for no rows")
    return store.release(replace(mechanism, rows=torch.eye(20)[groups]))


def released(mechanism, task):
    """What a store with secret noise releases: of each label, of groups, and of sums."""
    groups, found = torch.arange(600) % 20, []
    for ask in (
        lambda store: store.release(mechanism).outputs,
        lambda store: store.release(mechanism.over(groups, 20)),
        lambda store: sums(store, mechanism, groups),
        lambda store: votes(store, mechanism),
    ):
        try:
            found.append(ask(opened(task)))
        except InputError:
            continue
    return found


def opened(task):
    if task == "classification":
        return LabelStore(torch.arange(600) % 6, 6).open(math.inf, None)
    values = torch.linspace(-1, 1, 600, dtype=torch.float64)
    return LabelStore(values, 0, bound=1.0).open(math.inf, None)


@pytest.mark.parametrize("name", ["rr", "rrwithprior", "blockrr", "hadamard", "optimal", "rappor"])
def test_secret_releases_have_the_law_of_the_likelihood(name):
    # A slip in the secret path would void eps where it matters most.
    mechanism = made(name)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    prior = prior if name in ("rrwithprior", "blockrr", "optimal") else None
    space = mechanism.output_space(3, prior)
    law = mechanism.log_likelihood(space, 3, prior).exp()
    for label in range(3):
        labels = torch.full((20_000,), label)
        outputs = mechanism.release(labels, 3, SecretGenerator(), prior)
        if outputs.dim() == 1:
            counts = torch.bincount(outputs, minlength=3)
        else:
            counts = (outputs[:, None] == space[None]).all(2).sum(0)
        possible = law[:, label] > 0
        assert counts[~possible].sum() == 0 and counts.sum() == 20_000
        if possible.sum() > 1:
            expected = 20_000 * law[possible, label]
            assert chisquare(counts[possible], expected / expected.sum() * 20_000).pvalue > RARE


def test_sums_over_groups_have_their_law():
    # Sums from a seed are drawn in one step, these label by label.
    labels, groups = torch.zeros(9000, dtype=torch.int64), torch.zeros(9000, dtype=torch.int64)
    for mechanism in (Rappor(1.0), SubsetSelection(1.0), made("rr")):
        sums = mechanism.release_groups(labels, 4, groups, 1, SecretGenerator())[0]
        if isinstance(mechanism, LabelMechanism):
            own, other = mechanism.transition_matrix(4)[0, :2].tolist()
        else:
            own, other = mechanism.bit_rates(4)
        assert binomtest(int(sums[0]), 9000, own).pvalue > RARE
        assert binomtest(int(sums[1]), 9000, other).pvalue > RARE


def made(name):
    config = compose_cell([f"mechanism={name}", "eps=1"]).config["mechanism"]
    return hydra.utils.instantiate(config, _convert_="all")


def test_a_cell_with_secret_noise_is_another_cell_and_a_seeded_one_the_same_as_before():
    # A secret run would pass for a repeatable one, or every committed record would lose its cell.
    plain, named, secret = (
        compose_cell([*base, "mechanism=rr", "eps=1"])
        for base in ([], ["noise=seeded"], ["noise=secret"])
    )
    assert plain.config_hash == named.config_hash != secret.config_hash
    assert "noise" not in plain.identity and secret.identity["noise"] == "secret"
    assert plain.title in secret.title and secret.title.endswith("secret noise")
    with pytest.raises(InputError, match=r"noise must be .* got 'hidden'"):
        compose_cell(["noise=hidden"])
