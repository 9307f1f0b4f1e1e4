"""The noise of releases: a stream of its own, shared by nothing that differs."""

import hashlib

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
    LaplaceHistogram,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
)
from labeldp.store import LabelStore
from labeldp.support import seeding
from tests.labeldp.store.test_store import LABELS, opened


def test_noise_has_a_stream_of_its_own():
    # Public randomness (order, augmentation, ties) would tell something of the noise, or shift it.
    torch.manual_seed(1)
    first = opened().release(Rappor(1.0)).outputs
    torch.manual_seed(2)
    torch.rand(7)
    state = torch.random.get_rng_state()
    assert torch.equal(first, opened().release(Rappor(1.0)).outputs)
    assert torch.equal(state, torch.random.get_rng_state())
    streams = {
        seeding.derive(0, *names)
        for names in (
            ("privacy",),
            ("data",),
            ("train",),
            ("train", "order"),
            ("train", "augment"),
            ("stages",),
            ("held_out",),
            ("ties",),
            ("retrain",),
            ("trial", 0),
        )
    }
    assert len(streams) == 10


def test_releases_of_one_seed_that_differ_share_no_noise():
    # Two answers with the same noise tell a label outright: composition asks for independent ones.
    labels = torch.arange(4).repeat(2000)
    closed = LabelStore(labels, 4)

    def again(data: str = "") -> LabelStore:
        return closed.open(1.0, seed=0, data=data, again="test")

    one, more = (again().release(LaplaceHistogram(1.0), torch.arange(n)) for n in (100, 104))
    assert not torch.equal(more - one, torch.ones(4, dtype=torch.float64))
    plain, with_prior, half = (
        RandomizedResponse(1.0),
        RandomizedResponseWithPrior(1.0),
        torch.arange(4000),
    )
    # One network on two devices: its predictions differ in rounding, and so does their order.
    priors = [
        torch.tensor(p, dtype=torch.float64)
        for p in ([0.28, 0.26, 0.24, 0.22], [0.26, 0.28, 0.24, 0.22])
    ]
    cases = {
        "prior": [again().release(with_prior, None, prior) for prior in priors],
        "part": [again().release(plain, part) for part in (None, half)],
        "data": [again(data).release(plain) for data in ("mnist", "kmnist")],
    }
    for name, releases in cases.items():
        one, other = (release.outputs[:4000] == labels[:4000] for release in releases)
        together = float((one & other).double().mean())
        expected = float(one.double().mean() * other.double().mean())
        assert together == pytest.approx(expected, abs=0.03), name
    # What is the same release in both runs costs nothing twice: a loss is another use of it.
    for mechanism, prior in ((plain, None), (with_prior, priors[0])):
        same = [again().release(mechanism, None, prior).outputs for _ in range(2)]
        assert torch.equal(*same)


def test_who_knows_the_seed_undoes_the_noise_and_none_keeps_it_secret():
    # docs/privacy.md says so: a benchmark is repeatable, a deployment must not be.
    mechanism = RandomizedResponse(1.0)
    released = opened().release(mechanism).outputs
    name = "RandomizedResponse({'eps': 1.0})"
    noise = seeding.keyed_generator(b"0", "privacy", "", name, 0, "-", "-")
    shift = mechanism.release(torch.zeros(50, dtype=torch.int64), 4, noise)
    assert torch.equal((released - shift) % 4, LABELS)
    secret = [opened(seed=None).release(mechanism) for _ in range(2)]
    assert not torch.equal(secret[0].outputs, secret[1].outputs)


def test_all_bits_of_a_key_count():
    # torch's manual_seed keeps 32 bits of a seed: all of them are tried in an hour, and a few known
    # labels tell which one it was.
    drawn = set()
    for changed in range(33):
        key = bytes(int(place == changed) for place in range(32))
        drawn.add(torch.rand((), generator=seeding.keyed_generator(key, "a")).item())
    assert len(drawn) == 33
    for seeds in ((5, 5 + 2**32), (0, 2**40)):
        one, other = (LabelStore(LABELS.repeat(20), 4).open(1.0, seed) for seed in seeds)
        mechanism = RandomizedResponse(1.0)
        assert not torch.equal(one.release(mechanism).outputs, other.release(mechanism).outputs)


def test_keyed_generator_is_the_mersenne_twister_in_the_state_that_the_key_gives():
    # Torch lays its state out in a way of its own; words in the wrong place would stay zeros.
    shaken = hashlib.shake_256((3).to_bytes(8, "big") + b"key" + b"a/1").digest(4 * 624)
    twister = np.random.MT19937()
    state = twister.state
    state["state"] = {"key": np.frombuffer(shaken, "<u4").copy(), "pos": 624}
    twister.state = state
    high, low = twister.random_raw(2000).reshape(-1, 2).T
    drawn = torch.empty(1000, dtype=torch.int64).random_(
        -(2**63), None, generator=seeding.keyed_generator(b"key", "a", 1)
    )
    assert (drawn.numpy().view(np.uint64) == (high << np.uint64(32)) + low).all()
