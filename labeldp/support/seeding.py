"""Named random streams: data, privacy and training never share one."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

WORDS = 624  # of 32 bits: the state of torch's Mersenne Twister


def derive(seed: int, *names: str | int) -> int:
    """Returns the seed in [0, 2**63) of the stream that has these names under `seed`.

    Different names give independent streams: drawing more from one never shifts another.

    >>> derive(0, "data") == derive(0, "data"), derive(0, "data") == derive(0, "privacy")
    (True, False)
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> torch.Generator:
    """Returns a CPU generator for the stream that has these names under `seed`."""
    return torch.Generator().manual_seed(derive(seed, *names))


@contextmanager
def global_stream(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's global streams, which initial weights and dropout draw from, by `seed`.

    Afterwards they are as they were.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive(seed, "train"))
        yield


def keyed_generator(key: bytes, *names: str | int) -> torch.Generator:
    """Returns a CPU generator whose whole state follows from `key` and `names`.

    `manual_seed` keeps 32 bits of a seed: an attacker who holds a few outputs finds it within an
    hour, by trying all seeds.
    """
    text = "/".join(str(part) for part in names)
    digest = hashlib.shake_256(len(key).to_bytes(8, "big") + key + text.encode()).digest(4 * WORDS)
    return twister(np.frombuffer(digest, "<u4").astype(np.int64))


def twister(words: NDArray[np.int64]) -> torch.Generator:
    """Returns a CPU generator in the state that these words of 32 bits give, int64 (624,)."""
    generator = torch.Generator()
    state = generator.get_state()
    # Torch's layout: seed, int64; words left before the next twist, int32; whether it is seeded,
    # int32; the next word, int64; the words, int64 each; spare normal variables.
    state[8:24].view(torch.int32).copy_(torch.tensor([1, 1, 0, 0]))
    state[24 : 24 + 8 * WORDS].view(torch.int64).copy_(torch.from_numpy(words))
    generator.set_state(state)
    return generator
