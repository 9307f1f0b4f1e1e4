"""The noise of releases: a random stream for each, and what was drawn, for a checkpoint."""

import hashlib
from collections.abc import Callable
from dataclasses import fields
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.noise import FORKS, Noise, SecretGenerator
from labeldp.store.ledger import BudgetError
from labeldp.support import seeding


class NoiseStreams:
    """The random streams of one run's releases.

    Runs of one seed share no random numbers if they differ in the data set, the mechanism, eps,
    the labels that they ask for, or the prior: two releases with the same random numbers would
    tell more of a label than both budgets together. Where nothing differs, they share the release
    itself.

    Args:
        seed: of the run; None: every release draws from secret randomness of its own
            (`SecretGenerator`), and no seed of the noise exists.
        data: names the data set among those that are released under one seed.
    """

    def __init__(self, seed: int | None, data: str) -> None:
        self.key = None if seed is None else str(seed).encode()
        self.data = data
        self.forks = FORKS[0]

    def stream(
        self, number: int, name: str, part: Tensor | None = None, prior: Tensor | None = None
    ) -> Noise:
        """Returns the stream of a release.

        Args:
            number: how many came before it.
            name: the mechanism with its parameters, see `spelled`.
            part: which labels, or in which groups; None for all of them, each on its own.
            prior: what the mechanism may assume.

        Raises:
            BudgetError: the noise is secret, and this process is a forked copy of the one that
                opened the store: both would draw, and neither ledger would say so.
        """
        if self.key is None:
            if self.forks != FORKS[0]:
                raise BudgetError(
                    "the store was opened before this process was forked, and a release here would "
                    "be missing in the ledger there (open the store in the process that releases)"
                )
            return SecretGenerator()
        digests = ["-" if each is None else digest(each) for each in (part, prior)]
        return seeding.keyed_generator(self.key, "privacy", self.data, name, number, *digests)


class Drawn(TypedDict):
    """What one release gave, of which labels and under which prior; holds no true label.

    `unsanitised`: what was found in the labels beside and not protected, for the record.
    """

    indices: Tensor
    outputs: Tensor
    prior: Tensor | None
    unsanitised: NotRequired[dict[str, float]]


class DrawnReleases:
    """What left a store: a run that was cut off and goes on gives it again, and draws nothing.

    Attributes:
        left: what each release gave, by its number and name.
        earlier: the same, of the run before it was cut off.
    """

    def __init__(self) -> None:
        self.left: dict[str, Drawn] = {}
        self.earlier: dict[str, Drawn] = {}

    def once(
        self, number: int, name: str, indices: Tensor, prior: Tensor | None,
        draw: Callable[[], Tensor],
    ) -> Drawn:  # fmt: skip
        """Returns what a release gave before the run was cut off, or else what `draw` gives.

        Raises:
            BudgetError: it was of other labels then.
        """
        key = f"{number} {name}"
        before = self.earlier.pop(key, None)
        if before is not None and not torch.equal(before["indices"], indices):
            raise BudgetError(
                f"release {number} was of other labels before the run was cut off, or in the file "
                "of releases= (delete its checkpoint.pt to start afresh; use the same learner)"
            )
        self.left[key] = before or Drawn(indices=indices, outputs=draw(), prior=prior)
        return self.left[key]


def spelled(mechanism: Mechanism) -> str:
    """Returns class and parameters, without those at their default."""
    given = vars(mechanism)
    changed = {f.name: given[f.name] for f in fields(mechanism) if given[f.name] != f.default}
    return f"{type(mechanism).__name__}({changed})"


def digest(tensor: Tensor) -> str:
    """Returns what tells a tensor from others, for the name of a stream."""
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()
