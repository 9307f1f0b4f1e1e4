"""The contract of a mechanism: a sampler and its exact log-likelihood.

From those two follow the loss of every learner, the decoder and the proof of eps.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from labeldp_bench.mechanisms.sum_laws import group_counts
from labeldp_bench.support.validate import (
    InputError,
    check_eps,
    check_integer,
    check_labels,
    check_prior,
)


@dataclass(frozen=True)
class Mechanism(ABC):
    """A randomiser of labels that is eps-label-DP under label replacement.

    Frozen, built from keywords, holds no data. `eps` is what ONE release of one label costs, in
    natural-log units; infinity is allowed. Subclasses with further parameters add fields.
    """

    eps: float

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    """Kinds of labels that it takes: classes, real numbers ('regression') or both."""
    private: ClassVar[bool] = True
    """False for mechanisms without a guarantee."""
    trust: ClassVar[str] = "local"
    """Who sees true labels: 'local' (nobody), 'central' (a curator), 'none' (no guarantee)."""
    delta: ClassVar[float] = 0.0
    tight: ClassVar[bool] = True
    """Whether the worst log ratio equals eps (tested to 1e-9) or only stays below it."""
    identity_at_inf: ClassVar[bool] = True
    """Whether eps=inf reveals the label exactly; mechanisms for which that is false say so."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_eps(self.eps))

    @abstractmethod
    def release(
        self, labels: Tensor, num_classes: int, generator: Generator, prior: Tensor | None = None
    ) -> Tensor:
        """Returns one noisy output per label, drawn from `generator`.

        Args:
            labels: int64 (N,), values in [0, K), CPU; left untouched.
            num_classes: K >= 2.
            generator: CPU generator of the privacy stream.
            prior: float64 (K,) or (N, K), rows sum to 1, or None for uniform. It must not depend
                on the labels that are being released.

        Returns:
            int64 labels (N,), uint8 bits (N, K) or float32 reals (N, K).

        Raises:
            InputError: labels out of range, fewer than two classes, a malformed prior.
        """

    @abstractmethod
    def log_likelihood(
        self, released: Tensor, num_classes: int, prior: Tensor | None = None
    ) -> Tensor:
        """Returns log P(released | true label = c), float64 (N, K), exact.

        `prior` is the one that was used for the release. At eps=inf entries are finite or -inf.
        """

    def evidence(self, released: Tensor, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns the log-likelihood less the largest of its row, float32 (N, K).

        All that a learner can use of an output. Centred before it is rounded, so that float32
        keeps the differences; a subclass may know a shorter way to them.
        """
        exact = self.log_likelihood(released, num_classes, prior)
        return (exact - exact.amax(1, keepdim=True)).to(torch.float32)

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int,
        generator: Generator,
    ) -> Tensor:  # fmt: skip
        """Returns the sum, in each group, of one release of every label, float64 (G, K).

        A released label counts as its one-hot vector. A subclass may draw from the exact law of
        the sum.

        Args:
            labels: int64 (N,), values in [0, K), CPU.
            num_classes: K >= 2.
            groups: int64 (N,), the group of each label, in [0, G).
            num_groups: G.
            generator: CPU generator of the privacy stream.
        """
        released = self.release(labels, num_classes, generator)
        if released.dim() == 1:
            return group_counts(released, num_classes, groups, num_groups).to(torch.float64)
        sums = torch.zeros((num_groups, num_classes), dtype=torch.float64)
        return sums.index_add_(0, groups, released.to(torch.float64))

    def plausible(self, released: Tensor, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns the classes that explain each output best, bool (N, K).

        The argmax set of the likelihood; a subclass may know a shorter way to the same answer.
        """
        return most_likely(self.log_likelihood(released, num_classes, prior))

    def output_space(self, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns every possible output, one per row, so that eps can be enumerated.

        `prior` here is global, of shape (K,).

        Raises:
            InputError: the space is not finite, or too large to enumerate.
        """
        raise InputError(f"{type(self).__name__} has no finite output space to enumerate")

    def extreme_outputs(self, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns outputs among which the worst log ratio of each pair of labels is attained.

        All of them, unless a subclass knows a few that suffice and says why.
        """
        return self.output_space(num_classes, prior)

    def unbiased(self, released: Tensor, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns an estimate of the one-hot label whose mean, given the label, is exact.

        Float64 (N, K); entries may be negative or above 1.

        Raises:
            InputError: the mechanism has none, or its channel is singular.
        """
        raise InputError(f"{type(self).__name__} has no unbiased estimate of the label")

    def summary(self) -> dict[str, Any]:
        """Returns derived parameters worth a line in the record (keep probability, scale, ...)."""
        return {}


class LabelMechanism(Mechanism):
    """A mechanism that releases one label, defined by its transition matrix."""

    @abstractmethod
    def transition_matrix(self, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns float64 (K, K), row = true label, column = released label, rows sum to 1.

        `prior` here is global, of shape (K,).
        """

    def release(
        self, labels: Tensor, num_classes: int, generator: Generator, prior: Tensor | None = None
    ) -> Tensor:
        """Returns int64 (N,), one draw from each label's row of the transition matrix; O(N K)."""
        check_labels(labels, num_classes)
        matrices, which = self._by_prior(len(labels), num_classes, prior)
        return draw_columns(matrices.flatten(0, 1), which * num_classes + labels, generator)

    def log_likelihood(
        self, released: Tensor, num_classes: int, prior: Tensor | None = None
    ) -> Tensor:
        """Returns log of the transition matrix's column of each released label."""
        check_labels(released, num_classes)
        matrices, which = self._by_prior(len(released), num_classes, prior)
        return matrices.log().transpose(1, 2)[which, released]

    def _by_prior(
        self, num_examples: int, num_classes: int, prior: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns a transition matrix per distinct prior, (P, K, K), and which each example has."""
        if prior is None or torch.as_tensor(prior).dim() == 1:
            only = self.transition_matrix(num_classes, prior)
            return only[None], torch.zeros(num_examples, dtype=torch.int64)
        rows = check_prior(prior, num_examples, num_classes)
        distinct, which = rows.unique(dim=0, return_inverse=True)
        return torch.stack([self.transition_matrix(num_classes, row) for row in distinct]), which

    def plausible(self, released: Tensor, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns the argmax set of each released label's column, bool (N, K)."""
        if prior is not None and torch.as_tensor(prior).dim() == 2:
            return super().plausible(released, num_classes, prior)
        check_labels(released, num_classes)
        # Rows that lie in one piece are gathered ten times as fast.
        each = most_likely(self.transition_matrix(num_classes, prior).log().T).contiguous()
        return each.index_select(0, released)  # faster than each[released]

    def unbiased(self, released: Tensor, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns the rows of the inverse transition matrix, for one global prior."""
        check_labels(released, num_classes)
        if prior is not None and torch.as_tensor(prior).dim() == 2:
            raise InputError(
                "learner.loss=unbiased needs one prior for all labels, got one per example "
                "(use learner.loss=marginal)"
            )
        matrix = self.transition_matrix(num_classes, prior)
        if torch.linalg.matrix_rank(matrix) < num_classes:
            raise InputError(
                f"the channel of {type(self).__name__} is singular here: some labels cannot be "
                "told apart, so no unbiased estimate exists (use learner.loss=marginal)"
            )
        return torch.linalg.inv(matrix)[released]

    def output_space(self, num_classes: int, prior: Tensor | None = None) -> Tensor:
        """Returns the labels 0..K-1."""
        return torch.arange(check_integer("num_classes", num_classes, low=2))


def draw_columns(transition: Tensor, rows: Tensor, generator: Generator) -> Tensor:
    """Returns one column index, int64 (N,), drawn from each of the named rows' distributions."""
    cumulative = transition.cumsum(1)
    # The last sum may round to just below 1: divided, the draw never falls behind it.
    cumulative = cumulative / cumulative[:, -1:]
    uniform = torch.rand((len(rows), 1), generator=generator, dtype=torch.float64)
    return torch.searchsorted(cumulative[rows], uniform, right=True).squeeze(1)


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


def two_levels(mask: Tensor, inside: float, outside: float) -> Tensor:
    """Returns `inside` where the mask is true, else `outside`, float64.

    torch.where would round two Python numbers to float32.
    """
    return torch.full(mask.shape, outside, dtype=torch.float64).masked_fill_(mask, inside)


def check_global_prior(prior: Tensor | None, num_classes: int) -> Tensor:
    """Returns the prior as float64 (K,); a prior per example is refused."""
    check_integer("num_classes", num_classes, low=2)
    if prior is not None and torch.as_tensor(prior).dim() != 1:
        shape = tuple(torch.as_tensor(prior).shape)
        raise InputError(f"prior must be global here, of shape ({num_classes},), got {shape}")
    return check_prior(prior, 1, num_classes)


def debias_bits(bits: Tensor, own: float, other: float) -> Tensor:
    """Returns (bits - other) / (own - other), float64 (N, K).

    Args:
        bits: released bits, (N, K).
        own: probability that the true label's bit is 1.
        other: probability that one wrong label's bit is 1.
    """
    if own == other:
        raise InputError("bits that do not depend on the label have no unbiased estimate")
    return (bits.to(torch.float64) - other) / (own - other)
