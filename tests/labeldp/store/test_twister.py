"""The attack on a Mersenne Twister, in small: its equations hold, and its solver solves."""

import numpy as np
import torch

from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.noise import SecretGenerator
from labeldp.support import seeding
from scripts import attack_twister as attack

MECHANISM = RandomizedResponse(1.0)
LABELS = torch.arange(300) % 10


def share_that_holds(noise, words):
    """The share of the attack's equations that a state of the twister meets."""
    kept = (MECHANISM.release(LABELS, 10, noise) == LABELS).numpy()
    rows, values = attack.equations(kept, MECHANISM, 10)
    bits = (words[:, None] >> np.arange(32) & 1).astype(np.uint8).ravel()
    state = np.packbits(bits, bitorder="little").view(np.uint64)
    sums = np.bitwise_count(rows & state).sum(1) & 1
    return (sums == values).mean()


def test_kept_labels_tell_bits_of_a_twister_and_nothing_of_secret_noise():
    # The attack must break what it claims to break, or its failure on secret noise shows nothing.
    noise = seeding.keyed_generator(b"any", "attack")
    words = noise.get_state()[24 : 24 + 8 * attack.WORDS].view(torch.int64).numpy().copy()
    assert share_that_holds(noise, words) == 1
    assert 0.2 < share_that_holds(SecretGenerator(), words) < 0.8


def test_who_has_the_state_has_every_label():
    noise = seeding.keyed_generator(b"any", "attack")
    words = noise.get_state()[24 : 24 + 8 * attack.WORDS].view(torch.int64).numpy().copy()
    released = MECHANISM.release(LABELS, 10, noise)
    state = (words[:, None] >> np.arange(32) & 1).astype(np.uint8)
    assert torch.equal(attack.undone(MECHANISM, released, 10, state), LABELS)


def test_equations_modulo_2_are_solved_or_said_to_contradict():
    draws = np.random.default_rng(0)
    bits = draws.integers(0, 2, (300, 192), dtype=np.uint8)
    bits[:, 40] = bits[:, 3]  # a column that depends on another
    rows = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    planted = draws.integers(0, 2, 192, dtype=np.uint8)
    values = bits @ planted % 2
    found = attack.solve(rows, values, 192)
    assert (bits @ found % 2 == values).all()
    values[250] ^= 1
    assert attack.solve(rows, values, 192) is None
