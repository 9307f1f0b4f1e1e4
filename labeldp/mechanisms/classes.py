"""Mechanisms for class labels: a sampler and its exact log-likelihood.

From those two follow the loss of every learner, the decoder and the proof of eps.
"""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism, Prior, most_likely
from labeldp.mechanisms.draws import Noise, uniforms
from labeldp.mechanisms.encodings import AsReleased, Encoding, ShortLabels
from labeldp.mechanisms.sum_laws import group_counts
from labeldp.support.validate import InputError, check_integer, check_labels, check_prior

SUM_TOLERANCE = 1e-6


class ClassMechanism(Mechanism[int]):
    """A mechanism that releases something about each class label."""

    tight: ClassVar[bool] = True
    """Whether the worst log ratio equals eps (tested to 1e-9) or only stays below it."""
    identity_at_inf: ClassVar[bool] = True
    """Whether eps=inf reveals the label exactly."""

    @abstractmethod
    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
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
    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(released | true label = c), float64 (N, K), exact."""

    def encoding(self, num_classes: int) -> Encoding:
        """Returns the small form of its releases: what is stored of them, under no prior."""
        return AsReleased(self, num_classes)

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int,
        generator: Noise,
    ) -> Tensor:  # fmt: skip
        """Returns the sum, in each group, of one release of every label, float64 (G, K).

        A released label counts as its one-hot vector. A subclass may draw from the exact law of
        the sum.
        """
        released = self.release(labels, num_classes, generator)
        if released.dim() == 1:
            return group_counts(released, num_classes, groups, num_groups).to(torch.float64)
        sums = torch.zeros((num_groups, num_classes), dtype=torch.float64)
        return sums.index_add_(0, groups, released.to(torch.float64))

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns every possible output, one per row, so that eps can be enumerated.

        `prior` here is global, of shape (K,).

        Raises:
            InputError: the space is not finite, or too large to enumerate.
        """
        raise InputError(f"{type(self).__name__} has no finite output space to enumerate")

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns outputs among which the worst log ratio of each pair of labels is attained.

        All of them, unless a subclass knows a few that suffice and says why.
        """
        return self.output_space(num_classes, prior)


class LabelMechanism(ClassMechanism):
    """A mechanism that releases one label, defined by its transition matrix."""

    @abstractmethod
    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label, column = released label, rows sum to 1.

        `prior` here is global, of shape (K,).
        """

    def encoding(self, num_classes: int) -> ShortLabels:
        """Returns the form that keeps a label in as few bytes as hold it."""
        return ShortLabels(self, num_classes)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns int64 (N,), one draw from each label's row of the transition matrix; O(N K)."""
        check_labels(labels, num_classes)
        matrices, which = self._by_prior(len(labels), num_classes, prior)
        return draw_columns(matrices.flatten(0, 1), which * num_classes + labels, generator)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log of the transition matrix's column of each released label."""
        check_labels(released, num_classes)
        matrices, which = self._by_prior(len(released), num_classes, prior)
        return matrices.log().transpose(1, 2)[which, released]

    def _by_prior(self, num_examples: int, num_classes: int, prior: Prior) -> tuple[Tensor, Tensor]:
        """Returns a transition matrix per distinct prior, (P, K, K), and which each example has."""
        if not _is_per_example(prior):
            only = self.transition_matrix(num_classes, prior)
            return only[None], torch.zeros(num_examples, dtype=torch.int64)
        rows = check_prior(prior, num_examples, num_classes)
        distinct, which = rows.unique(dim=0, return_inverse=True)
        return torch.stack([self.transition_matrix(num_classes, row) for row in distinct]), which

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the argmax set of each released label's column, bool (N, K)."""
        if _is_per_example(prior):
            return super().most_likely_labels(released, num_classes, prior)
        check_labels(released, num_classes)
        # Gathering is ten times as fast from a contiguous table.
        each = most_likely(self.transition_matrix(num_classes, prior).log().T).contiguous()
        return each.index_select(0, released)  # faster than each[released]

    def unbiased(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the rows of the inverse transition matrix, for one global prior."""
        check_labels(released, num_classes)
        if _is_per_example(prior):
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

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the labels 0..K-1."""
        return torch.arange(check_integer("num_classes", num_classes, low=2))


def draw_columns(transition: Tensor, rows: Tensor, generator: Noise) -> Tensor:
    """Returns one column index, int64 (N,), drawn from each of the named rows' distributions."""
    cumulative = transition.cumsum(1)
    check_sums(cumulative[:, -1], "row {} of the transition matrix sums to {:.6g}, not to 1")
    # The last sum may round to just below 1. Dividing by it keeps every draw in a column.
    cumulative = cumulative / cumulative[:, -1:]
    # How many of the 2^53 uniforms lead to each column; exact, as 2^53 is a power of two.
    before = cumulative.new_zeros(len(cumulative), 1)
    reached = (cumulative * 2.0**53).ceil().diff(dim=1, prepend=before)
    if ((transition > 0) & (reached == 0)).any():
        raise InputError(
            "eps is too large here: in floating point a rare output is never drawn, so that it "
            "would exclude a label (take a smaller eps, or inf)"
        )
    uniform = uniforms((len(rows), 1), generator)
    return torch.searchsorted(cumulative[rows], uniform, right=True).squeeze(1)


def check_sums(sums: Tensor, message: str) -> None:
    """Refuses probabilities, of each label or row, that do not sum to 1.

    Args:
        sums: (n,).
        message: with places for which one it is, and for its sum.
    """
    wrong = ((sums - 1).abs() > SUM_TOLERANCE).nonzero()
    if len(wrong):
        place = int(wrong[0])
        raise InputError(message.format(place, float(sums[place])))


def two_levels(mask: Tensor, inside: float, outside: float) -> Tensor:
    """Returns `inside` where the mask is true, else `outside`, float64.

    torch.where would round two Python numbers to float32.
    """
    return torch.full(mask.shape, outside, dtype=torch.float64).masked_fill_(mask, inside)


def check_shape(kind: str, released: Tensor, num_classes: int) -> Tensor:
    """Returns released bits or reals, which `kind` says, if they have shape (N, K)."""
    check_integer("num_classes", num_classes, low=2)
    if released.dim() != 2 or released.shape[1] != num_classes:
        raise InputError(
            f"released {kind} must have shape (N, {num_classes}), got {tuple(released.shape)}"
        )
    return released


def check_global_prior(prior: Prior, num_classes: int) -> Tensor:
    """Returns the prior as float64 (K,); a prior per example is refused."""
    check_integer("num_classes", num_classes, low=2)
    if prior is not None and torch.as_tensor(prior).dim() != 1:
        shape = tuple(torch.as_tensor(prior).shape)
        raise InputError(f"prior must be global here, of shape ({num_classes},), got {shape}")
    return check_prior(prior, 1, num_classes)


def prior_rows(prior: Prior, num_examples: int, num_classes: int) -> Tensor:
    """Returns the prior as float64 rows, (1, K) for a global one or (N, K)."""
    return torch.atleast_2d(check_prior(prior, num_examples, num_classes))


def _is_per_example(prior: Prior) -> bool:
    return prior is not None and torch.as_tensor(prior).dim() != 1
