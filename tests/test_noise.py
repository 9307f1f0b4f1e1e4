"""The noise of releases: a stream of its own, shared by nothing that differs."""

import pytest
import torch

from labeldp_bench import seeding
from labeldp_bench.mechanisms import RandomizedResponse, RandomizedResponseWithPrior, Rappor
from labeldp_bench.vault import LabelVault
from tests.test_privacy import LABELS, open_vault


def test_noise_has_a_stream_of_its_own():
    # Public randomness (order, augmentation, ties) would tell something of the noise, or shift it.
    torch.manual_seed(1)
    first = open_vault().release(Rappor(1.0)).outputs
    torch.manual_seed(2)
    torch.rand(7)
    state = torch.random.get_rng_state()
    assert torch.equal(first, open_vault().release(Rappor(1.0)).outputs)
    assert torch.equal(state, torch.random.get_rng_state())
    streams = {seeding.derive(0, *names) for names in (
        ("privacy",), ("data",), ("train",), ("train", "order"), ("train", "augment"),
        ("stages",), ("held_out",), ("ties",), ("retrain",), ("trial", 0),
    )}  # fmt: skip
    assert len(streams) == 10


def test_releases_of_one_seed_that_differ_share_no_noise():
    # Two answers with the same noise tell a label outright: composition asks for independent ones.
    labels = torch.arange(4).repeat(2000)
    closed = LabelVault(labels, 4)

    def opened(run: str) -> LabelVault:
        return closed.open(1.0, seed=0, run=run)

    one, more = (opened("a").release_histogram(torch.arange(n), 1.0) for n in (100, 101))
    assert not torch.equal((more - one).round(), (more - one))
    mechanism, half = RandomizedResponseWithPrior(1.0), torch.arange(4000)
    priors = {"a": torch.tensor([0.3, 0.3, 0.2, 0.2]), "b": torch.tensor([0.2, 0.3, 0.3, 0.2])}
    cases = {
        "prior": [opened(run).release(mechanism, None, p.double()) for run, p in priors.items()],
        "part": [opened("a").release(RandomizedResponse(1.0), part) for part in (None, half)],
    }
    for name, releases in cases.items():
        one, other = (release.outputs[:4000] == labels[:4000] for release in releases)
        together = float((one & other).double().mean())
        expected = float(one.double().mean() * other.double().mean())
        assert together == pytest.approx(expected, abs=0.03), name
    # What is the same release in both runs costs nothing twice: a loss is another use of it.
    same = [opened(run).release(RandomizedResponse(1.0)).outputs for run in "ab"]
    assert torch.equal(*same)


def test_who_knows_the_seed_undoes_the_noise_and_none_keeps_it_secret():
    # docs/privacy.md says so: a benchmark is repeatable, a deployment must not be.
    mechanism = RandomizedResponse(1.0)
    released = open_vault().release(mechanism).outputs
    noise = seeding.generator(0, "privacy", "RandomizedResponse({'eps': 1.0})", 0)
    flipped = torch.rand(50, generator=noise, dtype=torch.float64) < 3 * mechanism.p_flip(4)
    shift = torch.randint(1, 4, (50,), generator=noise)
    assert torch.equal(torch.where(flipped, (released - shift) % 4, released), LABELS)
    secret = [LabelVault(LABELS, 4).open(1.0, seed=None).release(mechanism) for _ in range(2)]
    assert not torch.equal(secret[0].outputs, secret[1].outputs)
