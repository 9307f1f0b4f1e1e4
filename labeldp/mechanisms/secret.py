"""Randomness that nobody can guess or repeat: a cipher's key stream under a secret key."""

import math
import os
from typing import NoReturn, SupportsIndex

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import DTypeLike, NDArray

ZEROS = bytes(1 << 18)  # what is enciphered: the result is the key stream itself
STEP = 2.0**-53
"""Uniforms are multiples of it, as NumPy's and torch's are."""

FORKS = [0]
"""How often this process, or one that it was forked from, was the copy of another one."""


def _count_fork() -> None:
    FORKS[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_count_fork)


class SecretGenerator:
    """Draws from the key stream of ChaCha20, under 256 bits of key from the operating system.

    A mechanism takes it in place of a `torch.Generator`. Outputs tell nothing of each other, nor
    of the key, unless ChaCha20 is broken; those of a Mersenne Twister tell its whole state
    (scripts/attack_twister.py). The key is kept by the cipher alone: no attribute holds it, and the
    object can be neither copied nor pickled. Two objects never share their numbers: the copy in a
    forked process takes a new key. Its methods have the names and the meaning of a NumPy
    generator's.

    Source: Bernstein (2008), "ChaCha, a variant of Salsa20"; package `cryptography`.
    """

    __slots__ = ("__cipher", "__forks")

    def __init__(self) -> None:
        self.__take_key()

    def __take_key(self) -> None:
        self.__forks = FORKS[0]
        # The first half of the nonce counts blocks, from 0; the second is random.
        stream = ChaCha20(os.urandom(32), bytes(8) + os.urandom(8))
        self.__cipher = Cipher(stream, mode=None).encryptor()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a SecretGenerator cannot be copied or pickled: its numbers are used once")

    def random(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Returns uniforms in [0, 1), multiples of 2^-53, float64 of shape `size`."""
        shape = (size,) if isinstance(size, int) else size
        words = self._words(math.prod(shape), np.uint64)
        words >>= np.uint64(11)
        return np.multiply(words, STEP, dtype=np.float64).reshape(shape)

    def integers(
        self, low: int, high: int, size: int | tuple[int, ...], dtype: DTypeLike = np.int64
    ) -> NDArray:
        """Returns integers in [low, high), each exactly as likely as the others.

        A word beyond the last whole multiple of their number is drawn again.
        """
        shape = (size,) if isinstance(size, int) else size
        span = high - low
        kind, bits = (np.uint32, 32) if span <= 2**32 else (np.uint64, 64)
        words = self._words(math.prod(shape), kind)
        if span == 2**bits:
            return words.astype(dtype, copy=False).reshape(shape)
        rest = 2**bits % span
        if rest:
            beyond = np.flatnonzero(words >= kind(2**bits - rest))
            while len(beyond):
                words[beyond] = self._words(len(beyond), kind)
                beyond = beyond[words[beyond] >= kind(2**bits - rest)]
        words %= kind(span)
        return (words.astype(dtype) + np.asarray(low, dtype)).reshape(shape)

    def _words(self, count: int, kind: type[np.unsignedinteger]) -> NDArray:
        """Returns random words, which the caller may change."""
        if self.__forks != FORKS[0]:  # the process that this one was forked from has the old key
            self.__take_key()
        words = np.empty(count, kind)
        left = words.view(np.uint8)
        while len(left):
            taken = min(len(left), len(ZEROS))
            self.__cipher.update_into(memoryview(ZEROS)[:taken], left[:taken].data)
            left = left[taken:]
        return words
