"""The contract of all mechanisms: what every kind has, and what a kind refuses."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.draws import Noise
from labeldp.mechanisms.version import DRAWS
from labeldp.support.validate import InputError, check_eps

Limit = TypeVar("Limit", bound=float)
"""What limits labels: the number of classes, an int, or the bound of real labels, a float."""
Prior: TypeAlias = Tensor | None


@dataclass(frozen=True)
class Mechanism(ABC, Generic[Limit]):
    """A randomiser of labels that is eps-label-DP under label replacement.

    Frozen, built from keywords, holds no data. `eps` is what ONE release of one label costs, in
    natural-log units; infinity is allowed. Subclasses with further parameters add fields.

    Derive from one of the kinds: `ClassMechanism` and `LabelMechanism` release something about
    each class label, `RealMechanism` about each real label, `GroupMechanism` about each group of
    labels only. What a kind does not do raises an InputError here.
    """

    eps: float

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    """Kinds of labels that it takes: 'classification', 'regression' (real labels) or both."""
    private: ClassVar[bool] = True
    """False for mechanisms without a guarantee."""
    trust: ClassVar[str] = "local"
    """Who sees true labels: 'local' (nobody), 'central' (a curator), 'none' (no guarantee)."""
    delta: ClassVar[float] = 0.0
    draws: ClassVar[int] = DRAWS
    """Version of its draws; raise it whenever they change for the same seed (version.py)."""
    asked_by: ClassVar[str] = "local_averages"
    """The learner of a mechanism that releases nothing about single labels; for messages."""
    protects: ClassVar[str] = "labels"
    """What may be replaced in one example: its label, or 'labels and features'."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_eps(self.eps))

    def release(
        self, labels: Tensor, limit: Limit, /, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one noisy output per label, first axis N, drawn from `generator`.

        Args:
            labels: int64 classes (N,) or float64 real labels (N,), CPU; left untouched.
            limit: the number of classes, or the bound of real labels.
            generator: CPU generator of the privacy stream.
            prior: what the mechanism may assume; not from the labels that are being released.
        """
        raise InputError(
            f"{type(self).__name__} releases nothing about single labels (use "
            f"learner={self.asked_by})"
        )

    def release_groups(
        self, labels: Tensor, limit: Limit, /, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns what is released about each group of labels, first axis G.

        Args:
            labels: int64 classes (N,) or float64 real labels (N,), CPU; left untouched.
            limit: the number of classes, or the bound of real labels.
            groups: int64 (N,), the group of each label, in [0, G).
            num_groups: G.
            generator: CPU generator of the privacy stream.
        """
        single = type(self).release is not Mechanism.release
        raise InputError(
            f"{type(self).__name__} releases nothing about groups of labels (use "
            f"learner={'single_stage' if single else self.asked_by})"
        )

    def release_moments(
        self, labels: Tensor, limit: Limit, /, rows: Tensor, generator: Noise
    ) -> Tensor:
        """Returns what is released of the sums of the rows of each class, float64 (d, K).

        A mechanism that answers T steps at once returns (T, d, K).

        Args:
            labels: int64 classes (N,), CPU; left untouched.
            limit: the number of classes.
            rows: public features, (N, d), each of length at most 1.
            generator: CPU generator of the privacy stream.
        """
        raise InputError(
            f"{type(self).__name__} releases nothing about sums of features (use "
            "mechanism=noisy_moments)"
        )

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(released | true label = c), float64 (N, K), exact.

        `prior` is the one that was used for the release. At eps=inf entries are finite or -inf.

        Raises:
            InputError: the mechanism releases nothing about single class labels.
        """
        raise InputError(f"{type(self).__name__} has no likelihood of class labels")

    def centred_log_likelihood(
        self, released: Tensor, num_classes: int, prior: Prior = None
    ) -> Tensor:
        """Returns the log-likelihood less the largest of its row, float32 (N, K).

        All that a learner can use of an output. Centred before it is rounded, so that float32
        keeps the differences; a subclass may know a shorter way to them.
        """
        exact = self.log_likelihood(released, num_classes, prior)
        return (exact - exact.amax(1, keepdim=True)).to(torch.float32)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the classes that explain each output best, bool (N, K).

        The argmax set of the likelihood; a subclass may know a shorter way to the same answer.
        """
        return most_likely(self.log_likelihood(released, num_classes, prior))

    def unbiased(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns an estimate of the one-hot label whose mean, given the label, is exact.

        Float64 (N, K); entries may be negative or above 1.

        Raises:
            InputError: the mechanism has none, or its channel is singular.
        """
        raise InputError(f"{type(self).__name__} has no unbiased estimate of the label")

    def summary(self) -> dict[str, object]:
        """Returns derived parameters worth a line in the record (keep probability, scale, ...)."""
        return {}


def most_likely(log_likelihood: Tensor) -> Tensor:
    """Returns where each row has its largest value, bool like `log_likelihood`."""
    return log_likelihood == log_likelihood.amax(1, keepdim=True)


def count_true(rows: Tensor) -> Tensor:
    """Returns how many entries of each row are true, int32 (N,), from bool (N, K)."""
    # NumPy's einsum takes a third of the time of any sum of truth values, less in single bytes.
    enough = np.uint8 if rows.shape[1] < 256 else np.int32
    bits = rows.view(torch.uint8).numpy()
    counts = np.einsum("ij->i", bits, dtype=enough, casting="unsafe")
    return torch.from_numpy(counts).to(torch.int32)
