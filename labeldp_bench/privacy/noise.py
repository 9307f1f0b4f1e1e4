"""Where the noise of releases comes from: a stream for each, drawn once, kept for a checkpoint."""

import hashlib
import secrets
from dataclasses import fields
from typing import Any

import torch
from torch import Generator, Tensor

from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.privacy.ledger import BudgetError
from labeldp_bench.support import seeding


class NoiseStreams:
    """The random streams of one run's releases.

    Runs of one seed that differ in the data set, the mechanism, eps, in whom they ask or in the
    prior share no random numbers: two releases with the same ones would tell more of a label than
    both budgets together. Where nothing differs they share the release itself.

    Args:
        seed: of the run; None takes 256 secret bits from the operating system.
        data: names the data set among those that are released under one seed.
    """

    def __init__(self, seed: int | None, data: str) -> None:
        self.key = secrets.token_bytes(32) if seed is None else str(seed).encode()
        self.data = data

    def stream(
        self, number: int, name: str, part: Tensor | None = None, prior: Tensor | None = None
    ) -> Generator:
        """Returns the stream of a release.

        Args:
            number: how many came before it.
            name: the mechanism with its parameters, see `spelled`.
            part: which labels, or in which groups; None for all of them, each on its own.
            prior: what the mechanism may assume.
        """
        of = ["-" if each is None else _digest(each) for each in (part, prior)]
        return seeding.keyed_generator(self.key, "privacy", self.data, name, number, *of)


class DrawnReleases:
    """What left a vault: a run that was cut off and goes on gives it again, and draws nothing.

    Attributes:
        left: {number and name of a release: indices, outputs, prior}; holds no true label.
        earlier: the same, of the run before it was cut off.
    """

    def __init__(self) -> None:
        self.left: dict[str, dict[str, Tensor | None]] = {}
        self.earlier: dict[str, dict[str, Any]] = {}

    def recall(self, number: int, name: str, indices: Tensor) -> dict[str, Any] | None:
        """Returns what a release gave before the run was cut off; None: it is new.

        Raises:
            BudgetError: it was of other labels then.
        """
        before = self.earlier.pop(f"{number} {name}", None)
        if before is not None and not torch.equal(before["indices"], indices):
            raise BudgetError(
                f"release {number} was of other labels before the run was cut off "
                "(delete its checkpoint.pt to start afresh)"
            )
        return before

    def keep(
        self, number: int, name: str, indices: Tensor, outputs: Tensor, prior: Tensor | None
    ) -> None:
        """Notes what a release gave."""
        self.left[f"{number} {name}"] = {"indices": indices, "outputs": outputs, "prior": prior}


def spelled(mechanism: Mechanism) -> str:
    """Returns class and parameters, without those at their default."""
    given = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    changed = {f.name: given[f.name] for f in fields(mechanism) if given[f.name] != f.default}
    return f"{type(mechanism).__name__}({changed})"


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()
