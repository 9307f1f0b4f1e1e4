"""The small form of a release: what is stored of it, and the way back to what was released.

A form is a tensor of messages whose first axis is N, so that rows are chosen, joined and written as
those of any tensor; `outputs` gives the outputs of a few rows at a time. So neither a file nor a
fit needs N x K numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms.noise import Noise, Prior
from labeldp.support.validate import InputError, check_labels

OUTPUT_ENTRIES_AT_ONCE = 2**24
"""Entries of outputs that exist at one time while a release is drawn."""


class Sampler(Protocol):
    """What a form asks of its mechanism."""

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one output per label."""


class Encoding(ABC):
    """The small form of one mechanism's releases, for K classes.

    Attributes:
        name: what a file calls it.
        num_classes: K.
    """

    name: ClassVar[str]

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    @abstractmethod
    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns a release of labels, int64 (N,), as messages, (N,) or (N, w)."""

    @abstractmethod
    def checked(self, messages: Tensor) -> Tensor:
        """Returns messages that can have been drawn.

        Raises:
            InputError: another type or shape, or a value that none has.
        """

    @abstractmethod
    def outputs(self, messages: Tensor) -> Tensor:
        """Returns what the mechanism released, as its `log_likelihood` takes it."""


class AsReleased(Encoding):
    """The outputs themselves: reals, or whatever a mechanism has no smaller form for."""

    name = "outputs"

    def __init__(self, mechanism: Sampler, num_classes: int) -> None:
        super().__init__(num_classes)
        self.mechanism = mechanism

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns the outputs."""
        return self.mechanism.release(labels, self.num_classes, generator)

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the outputs; the likelihood checks them."""
        if messages.isnan().any():
            raise InputError("an output is not a number")
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the outputs."""
        return messages


class ShortLabels(AsReleased):
    """A released label in as few bytes as hold K - 1: 1, 2, 4 or 8."""

    name = "labels"

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns the labels as whole numbers of few bytes, (N,)."""
        return super().draw(labels, generator).to(whole_numbers_to(self.num_classes))

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the labels if they are in [0, K)."""
        check_labels(messages.to(torch.int64), self.num_classes)
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the labels, int64 (N,)."""
        return messages.to(torch.int64)


class PackedBits(AsReleased):
    """Eight bits in a byte, the first class in the highest bit: uint8 (N, ceil(K / 8))."""

    name = "packed bits"

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns the bits in this form, drawn for some rows at a time: O(N K) time."""
        rows = max(1, OUTPUT_ENTRIES_AT_ONCE // self.num_classes)
        draw = super().draw
        return joined([self.packed(draw(part, generator)) for part in labels.split(rows)])

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the bytes if there are as many as K needs."""
        width = -(-self.num_classes // 8)
        if messages.dtype != torch.uint8 or messages.shape[1:] != (width,):
            raise InputError(f"packed bits of {self.num_classes} classes must have {width} bytes")
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the bits, uint8 (N, K)."""
        bits = np.unpackbits(self.checked(messages).numpy(), axis=1, count=self.num_classes)
        return torch.from_numpy(bits)

    def packed(self, bits: Tensor) -> Tensor:
        """Returns uint8 bits (n, K) in this form."""
        return torch.from_numpy(np.packbits(bits.numpy(), axis=1))


class Positions(PackedBits):
    """Which bits are 1, where they are few: int32 (N, w), rising, -1 after the last one."""

    name = "positions"

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the positions if they are in [-1, K)."""
        if messages.dim() != 2 or messages.is_floating_point():
            raise InputError("positions of bits must be lists of whole numbers")
        if messages.numel() and not -1 <= int(messages.min()) <= int(messages.max()) < (
            self.num_classes
        ):
            raise InputError(f"positions of bits must be in [0, {self.num_classes - 1}]")
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the bits, uint8 (N, K)."""
        places = self.checked(messages).to(torch.int64) + 1  # 0 is the padding
        bits = torch.zeros((len(messages), self.num_classes + 1), dtype=torch.uint8)
        return bits.scatter_(1, places, 1)[:, 1:].contiguous()

    def packed(self, bits: Tensor) -> Tensor:
        """Returns uint8 bits (n, K) in this form, padded to the longest row."""
        return positions_of(bits)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Returns messages of one form as one tensor; rows of positions are padded to the longest."""
    if len(parts) == 1:
        return parts[0]
    if parts[0].dim() == 2 and len({part.shape[1] for part in parts}) > 1:
        width = max(part.shape[1] for part in parts)
        parts = [functional.pad(part, (0, width - part.shape[1]), value=-1) for part in parts]
    return torch.cat(list(parts))


def bits_encoding(mechanism: Sampler, num_classes: int, most_ones: float) -> PackedBits:
    """Returns the smaller of two forms: a bit for each class, or 4 bytes for each one.

    Args:
        mechanism: releases bits.
        num_classes: K.
        most_ones: how many ones the longest of many rows has, about.
    """
    if 32 * most_ones < num_classes:
        return Positions(mechanism, num_classes)
    return PackedBits(mechanism, num_classes)


def positions_of(bits: Tensor) -> Tensor:
    """Returns where the ones of uint8 bits (n, K) are, int32 (n, w), -1 after the last one."""
    rows, places = np.nonzero(bits.numpy())
    ones = np.bincount(rows, minlength=len(bits))
    found = np.full((len(bits), int(ones.max(initial=0))), -1, np.int32)
    found[np.arange(found.shape[1]) < ones[:, None]] = places
    return torch.from_numpy(found)


def whole_numbers_to(count: int) -> torch.dtype:
    """Returns the shortest type that holds 0 to count - 1."""
    for kind in (torch.uint8, torch.int16, torch.int32):
        if count - 1 <= torch.iinfo(kind).max:
            return kind
    return torch.int64
