"""A randomiser seen from outside: what it draws for a few inputs, any two of them neighbours."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp.audit.fit import Fit

Draw = Callable[[int, int, Generator], Tensor]
Law = Callable[[Tensor], Tensor]
Mixed = Callable[[Tensor, Generator], Tensor]


def of_one(mixed: Mixed) -> Draw:
    """Returns how outputs of one input are drawn, by what draws an output of each of many."""
    return lambda number, size, generator: mixed(torch.full((size,), number), generator)


@dataclass(frozen=True)
class Channel:
    """What an audit by draws needs to know of a sampler.

    Attributes:
        name: which sampler it is, such as `release` or `release_groups`.
        inputs: a few words for each input, I >= 2 of them. Any two differ in what the mechanism
            protects: one label, or one whole example.
        draw: (number of the input, n, generator) -> n independent outputs, first axis n.
        law: outputs -> their claimed log probability, or log density, under each input, float64
            (n, I), up to a term that all inputs share; None where it is not known.
        most: draws in all that can be afforded.
        chunk: outputs that are held in memory at once.
        noise: (draws, generator) -> a further comparison with the stated noise, or None.
        delta: of the claim.
        mixed: (numbers of inputs, int64 (n,), generator) -> an output of each, all of one call;
            None where the sampler has no rows.
    """

    name: str
    inputs: tuple[str, ...]
    draw: Draw
    law: Law | None
    most: int = 4_000_000
    chunk: int = 50_000
    noise: Callable[[int, Generator], Fit | None] | None = None
    delta: float = 0.0
    mixed: Mixed | None = None

    def batches(self, size: int) -> list[int]:
        """Returns the sizes of the batches that `size` draws of one input are made in."""
        whole, rest = divmod(size, self.chunk)
        return [self.chunk] * whole + ([rest] if rest else [])
