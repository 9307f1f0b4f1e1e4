"""Local hashing as it is sent: the seed of a public hash, and a bucket."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.draws import Noise, check_noise, coins, numpy_stream
from labeldp.mechanisms.encodings import Encoding
from labeldp.support.validate import InputError, check_labels

STEP, FIRST, SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""Of SplitMix64."""


class Hashes(Encoding):
    """A public hash and the bucket that was released: 12 bytes a label, uint8 (N, 12).

    The hash of label i is SplitMix64's output for seed and i, as a bucket. The seed is 64 random
    bits, drawn without looking at the label, and the bucket follows randomised response over
    buckets; so eps holds whatever the hash does, and the likelihood given the seed is exact. That
    different labels fall into one bucket as often as those of a random function, 1/g, is a property
    of the hash that is measured in tests, not proven.

    Args:
        eps: of the mechanism.
        p_own: probability of releasing the label's own bucket.
        buckets: g, in [2, 2^32].
        num_classes: K.
    """

    name = "hash and bucket"

    def __init__(self, eps: float, p_own: float, buckets: int, num_classes: int) -> None:
        super().__init__(num_classes)
        self.eps, self.p_own, self.buckets = eps, p_own, buckets

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns seeds and buckets; O(N)."""
        check_labels(labels, self.num_classes)
        check_noise("local_hashing", self.eps, self.p_own)
        stream = numpy_stream(generator)
        seeds = stream.integers(0, 2**64, len(labels), dtype=np.uint64)
        bucket = hashed(seeds, labels.numpy(), self.buckets)
        keeps = coins(self.p_own, labels.shape, stream)
        shift = stream.integers(1, self.buckets, len(labels), dtype=np.uint64)
        bucket = np.where(keeps, bucket, (bucket + shift) % np.uint64(self.buckets))
        parts = [seeds.astype("<u8").view(np.uint8).reshape(-1, 8),
                 bucket.astype("<u4").view(np.uint8).reshape(-1, 4)]  # fmt: skip
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the messages if their buckets are in [0, g)."""
        if messages.dtype != torch.uint8 or messages.shape[1:] != (12,):
            raise InputError("a hash and its bucket must have 12 bytes")
        if len(messages) and int(self._split(messages)[1].max()) >= self.buckets:
            raise InputError(f"buckets must be in [0, {self.buckets - 1}]")
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the bits 1[label i falls into the bucket], uint8 (N, K)."""
        seeds, bucket = self._split(self.checked(messages))
        labels = np.arange(self.num_classes)
        return torch.from_numpy(
            (hashed(seeds[:, None], labels, self.buckets) == bucket[:, None]).view(np.uint8)
        )

    def _split(self, messages: Tensor) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        raw = np.ascontiguousarray(messages.numpy())
        seeds = np.ascontiguousarray(raw[:, :8]).view("<u8").ravel()
        return seeds, np.ascontiguousarray(raw[:, 8:]).view("<u4").ravel().astype(np.uint64)


def hashed(seeds: NDArray[np.uint64], labels: NDArray[np.int64], buckets: int) -> NDArray:
    """Returns the bucket of each label under each seed, uint64 of their common shape.

    Source: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators".

    Args:
        seeds: uint64.
        labels: int64, >= 0; broadcast against the seeds.
        buckets: g, in [2, 2^32].
    """
    with np.errstate(over="ignore"):
        mixed = seeds + (labels.astype(np.uint64) + np.uint64(1)) * STEP
        mixed ^= mixed >> np.uint64(30)
        mixed *= FIRST
        mixed ^= mixed >> np.uint64(27)
        mixed *= SECOND
        mixed ^= mixed >> np.uint64(31)
        # The upper half of the bits, as a share of g.
        mixed >>= np.uint64(32)
        mixed *= np.uint64(buckets)
    mixed >>= np.uint64(32)
    return mixed
