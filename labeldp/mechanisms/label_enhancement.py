"""What protective label enhancement publishes; not differentially private at any eps."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from labeldp.mechanisms.base import Mechanism, most_likely
from labeldp.mechanisms.measurement import Trust
from labeldp.mechanisms.noise import Noise, Prior
from labeldp.support.validate import InputError, check_integer, check_labels, check_number


@dataclass(frozen=True)
class LabelEnhancement(Mechanism[int]):
    """Publishes d = f(x), f a network that a client trained on true labels (`learner=ple`).

    No guarantee: d is a function of the data, so no finite eps bounds what it tells of a label.

    Source: anonymous submission "Protective Label Enhancement for Label Privacy" (ple),
    section 3.2. The YAML gives its range of each parameter and the value taken here.

    Args:
        punishment: a1 in [0, 1), taken from the weight of an example whose true label is on top.
        compensation: a2 >= 0, added where the true label is not among the top k1.
        randomness: a3 >= 0, weight of each random label.
        k1: size of the top, >= 1; k1 - 1 random labels for each example, as section 3.2 has it
            (Algorithm 1 and A.5 of the paper: k1).
    """

    eps: float = math.inf
    punishment: float = 0.2
    compensation: float = 1.0
    randomness: float = 2.0
    k1: int = 3

    private: ClassVar[bool] = False
    trust = Trust.NONE
    asked_by: ClassVar[str] = "ple"

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isfinite(self.eps):
            raise InputError(f"ple guarantees nothing: it has no eps, got eps={self.eps:g}")
        check_number("mechanism.punishment", self.punishment, low=0, below=1)
        check_number("mechanism.compensation", self.compensation, low=0)
        check_number("mechanism.randomness", self.randomness, low=0)
        check_integer("mechanism.k1", self.k1, low=1)

    def release(
        self, labels: Tensor, limit: int, /, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Refuses: what is published of one label depends on the other examples too."""
        raise InputError(
            f"{self.name} releases nothing about single labels (use learner={self.asked_by})"
        )

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the argmax set of each published vector: what the paper's accuracy reads."""
        return most_likely(released)

    def random_labels(self, labels: Tensor, num_classes: int, generator: Generator) -> Tensor:
        """Returns k1 - 1 distinct labels other than the true one, int64 (N, k1 - 1); uniform.

        Raises:
            InputError: k1 > K.
        """
        check_labels(labels, num_classes)
        check_integer("mechanism.k1", self.k1, low=1, high=num_classes)
        order = torch.rand(len(labels), num_classes, generator=generator)
        order[torch.arange(len(labels)), labels] = 2.0  # above every draw: never chosen
        return order.argsort(1)[:, : self.k1 - 1]

    def summary(self) -> dict[str, object]:
        """Returns the words that go with every number of it."""
        return {"guarantee": "none"}
