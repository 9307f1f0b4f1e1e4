"""Measurements: functions of labels with their price, all that a store releases."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.noise import DISTRIBUTION, DRAWS, Noise, Prior
from labeldp.support.validate import InputError, check_eps

Notes = dict[str, float]
"""Findings of a curator that are not protected, by name; for the record, not covered by eps."""


class Trust(StrEnum):
    """Who sees true labels, from the strongest protection to the weakest."""

    LOCAL = "local"  # nobody but the person who has the label
    CENTRAL = "central"  # a curator
    NONE = "none"  # nothing is guaranteed


@dataclass(frozen=True)
class Measurement(ABC):
    """A function of labels, with its price: all that a `LabelStore` releases.

    Frozen, built from keywords, holds no label. A public input that its answer depends on besides
    labels (groups, rows, teachers) is a field with `compare=False`. `dataclasses.replace` fills it
    in; until then the measurement is of nobody, and a store refuses it.

    A new kind of question is a new measurement in one file: a store knows none of them. Those that
    release something about each label on its own are a `Mechanism`.

    Attributes:
        eps: guarantee of one answer, for each label that it is about; infinity is allowed.
        delta: by how much a probability may exceed what eps allows; 0: pure.
        trust: who sees true labels.
        draws: version of its draws, raised whenever they change for the same seed (`noise.DRAWS`).
        distribution: the same of the distribution of its answers (`noise.DISTRIBUTION`).
        tasks: kinds of labels that it takes: `classification`, `regression` (real labels) or both.
        private: False for those without a guarantee.
        asked_by: the learner of those that release nothing about single labels; for messages.
        known_as: its names on the command line, which subclasses do not inherit.
        protects: what may be replaced in one example: its label, or 'labels and features'.
        noise_reach: how far additive noise reaches, in its scales; infinity: it has no end.
        moved_noises: how many independent noises a replaced label moves, each by as much.
    """

    eps: float

    delta = 0.0
    trust = Trust.LOCAL
    draws = DRAWS
    distribution = DISTRIBUTION
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    private: ClassVar[bool] = True
    asked_by: ClassVar[str] = "local_averages"
    known_as: ClassVar[tuple[str, ...]] = ()
    protects: ClassVar[str] = "labels"
    noise_reach: ClassVar[float] = math.inf
    moved_noises: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_eps(self.eps))

    @property
    def name(self) -> str:
        """What the account calls it."""
        return type(self).__name__

    @property
    def eps_spent(self) -> float:
        """What the account books for one answer: eps, or less where the noise allows for less."""
        return self.eps

    @property
    def key(self) -> str:
        """Names its noise: class and parameters, without those at their default.

        Measurements that differ must not draw the same.
        """
        given = vars(self)
        changed = {
            f.name: given[f.name] for f in fields(self) if f.compare and given[f.name] != f.default
        }
        return f"{self.name}({changed})"

    @property
    def context(self) -> Tensor | None:
        """The public tensor that its answer is about, which names its noise too; None: no other."""
        return None

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses wrong public arguments; asked before a label is read, so it may say why.

        Args:
            count: how many labels it is asked about.
            limit: the number of classes, an int, or the bound of real labels.
            noise: of the kind that the answer will have, for trying out; not the one itself.
            prior: as `answer`.

        Raises:
            InputError: there is one.
        """
        if prior is not None:
            raise InputError(f"{self.name} takes no prior")

    @abstractmethod
    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns the answer.

        Args:
            labels: int64 classes (N,) or float64 real labels (N,), CPU; left untouched.
            limit: the number of classes, an int, or the bound of real labels.
            noise: CPU generator of the privacy stream.
        """

    def answer(
        self, labels: Tensor, limit: Any, noise: Noise, prior: Prior = None
    ) -> tuple[Tensor, Notes]:
        """Returns the answer under a prior, for those that take one, and what it left unprotected.

        `prior` is what may be assumed of the labels; it must come from other labels than these.
        """
        return self(labels, limit, noise), {}

    def over(self, groups: Tensor, num_groups: int) -> "Measurement":
        """Returns the measurement of groups of labels that goes with this one, at its price.

        Args:
            groups: int64 (N,), the group of each label, in [0, G); from public features.
            num_groups: G, fixed in advance.

        Raises:
            InputError: it releases nothing about groups of labels.
        """
        raise InputError(
            f"{self.name} releases nothing about groups of labels (use learner={self.asked_by})"
        )

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns the eps that its statements about its noise imply, and how that was found.

        The formula half of an audit, as if noise had no end; what a replaced label moves is
        measured over neighbouring labels, not taken from what sizes the noise. Mechanisms leave it
        out: theirs follows from the likelihood.

        Raises:
            InputError: no audit is known.
        """
        raise InputError(f"no audit is known for {self.name}")

    def end_of_noise(self, eps: float) -> float:
        """Returns how far additive noise reaches beyond what one label moves, in its scales.

        Outputs beyond it exclude a label with certainty.

        Args:
            eps: that its statements imply, finite; what one label moves follows from it.
        """
        return self.noise_reach - eps / self.moved_noises

    def summary(self) -> dict[str, object]:
        """Returns derived parameters worth a line in the record (keep probability, scale, ...)."""
        return {}


def made_up_label(limit: Any) -> Tensor:
    """Returns one label that nobody has: class 0, int64 (1,), or the real label 0, float64 (1,)."""
    return torch.zeros(1, dtype=torch.int64 if isinstance(limit, int) else torch.float64)


def check_members(name: str, members: Tensor, count: int) -> None:
    """Refuses what does not say of each of `count` labels where it belongs, int64 (N,)."""
    if members.dtype != torch.int64 or members.shape != (count,):
        raise InputError(f"{name} must be int64 of shape ({count},), one for each label")
