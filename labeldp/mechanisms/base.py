"""Mechanisms, the local measurements: of class labels and of real labels, and their sums."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.encodings import AsReleased, Encoding, ShortLabels
from labeldp.mechanisms.measurement import Measurement, Notes, check_members, made_up_label
from labeldp.mechanisms.noise import Noise, Prior, draw_columns, group_counts, group_sums
from labeldp.support.validate import InputError, check_integer, check_labels, check_prior

Limit = TypeVar("Limit", bound=float)
"""What limits labels: the number of classes, an int, or the bound of real labels, a float."""


@dataclass(frozen=True)
class Mechanism(Measurement, Generic[Limit]):
    """A local randomiser: releases something about each label, eps-label-DP under replacement.

    Subclasses with further parameters add fields. Derive from one of the kinds: `ClassMechanism`
    and `LabelMechanism` release something about each class label, `RealMechanism` about each real
    label.
    """

    outputs_are_classes: ClassVar[bool] = True
    """Whether whole numbers that it releases name classes; False: they name answers."""

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses what a release of a made-up label refuses, so that no true one has a say."""
        if prior is not None and prior.dim() == 2:
            if isinstance(limit, int):
                check_prior(prior, count, limit)
            prior = prior[:1]
        self.release(made_up_label(limit), limit, noise, prior)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns one release of each label, under no prior."""
        return self.release(labels, limit, noise)

    def answer(
        self, labels: Tensor, limit: Any, noise: Noise, prior: Prior = None
    ) -> tuple[Tensor, Notes]:
        """Returns one release of each label."""
        return self.release(labels, limit, noise, prior), {}

    @abstractmethod
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
        raise InputError(f"{type(self).__name__} has no unbiased estimate of the label "
                         "(use learner.loss=marginal)")  # fmt: skip


def local(measurement: Measurement) -> Mechanism[Any]:
    """Returns the measurement if it is a mechanism, which releases something about each label.

    Raises:
        InputError: it releases nothing about single labels.
    """
    if isinstance(measurement, Mechanism):
        return measurement
    raise InputError(
        f"{measurement.name} releases nothing about single labels "
        f"(use learner={measurement.asked_by})"
    )


@dataclass(frozen=True, eq=False)
class ReleasesInAnotherForm(Measurement):
    """What a store keeps of a mechanism's releases in place of these, at their price.

    Args:
        mechanism: local; releases each label once.
    """

    eps: float = field(init=False)
    mechanism: Mechanism[Any]

    def __post_init__(self) -> None:
        for name in ("eps", "delta", "trust", "draws", "distribution", "tasks"):
            object.__setattr__(self, name, getattr(self.mechanism, name))

    @property
    def name(self) -> str:
        """That of the mechanism."""
        return self.mechanism.name

    @property
    def key(self) -> str:
        """That of the mechanism, whose noise it is."""
        return self.mechanism.key


@dataclass(frozen=True, eq=False)
class Messages(ReleasesInAnotherForm):
    """One release of each label in its small form, which `mechanism.encoding` reads; (N,), (N, w).

    The noise is that of the release itself.
    """

    mechanism: "ClassMechanism"

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses what the mechanism refuses, and a prior: the small form has none."""
        super().check(count, limit, noise, prior)
        self.mechanism.check(count, limit, noise)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns the messages."""
        return self.mechanism.encoding(limit).draw(labels, noise)


@dataclass(frozen=True, eq=False)
class GroupSums(ReleasesInAnotherForm):
    """The sum, in each group of labels, of one release of each; float64 (G, K) or (G,).

    Args:
        mechanism: local.
        groups: int64 (N,), the group of each label, in [0, G); from public features.
        num_groups: G, fixed in advance.
    """

    mechanism: "ClassMechanism | RealMechanism"
    groups: Tensor
    num_groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_members("groups", self.groups, len(self.groups))

    @property
    def key(self) -> str:
        """Says how many groups there are."""
        return f"{self.mechanism.key}/groups={self.num_groups}"

    @property
    def context(self) -> Tensor:
        """The groups."""
        return self.groups

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses groups of other labels, and what the mechanism refuses of a made-up one."""
        super().check(count, limit, noise, prior)
        check_members("groups", self.groups, count)
        one = torch.tensor([0])
        self.mechanism.release_groups(made_up_label(limit), limit, one, 1, noise)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns the sums."""
        return self.mechanism.release_groups(labels, limit, self.groups, self.num_groups, noise)


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


LARGEST_TABLE = 20_000
"""Entries of a table of outputs; larger ones are left out of `ClassMechanism.law`."""


class ClassMechanism(Mechanism[int]):
    """A mechanism that releases something about each class label."""

    tight: ClassVar[bool] = True
    """Whether the worst log ratio equals eps (tested to 1e-9) or only stays below it."""
    needs_prior: ClassVar[bool] = False
    """Whether it is of no use without a prior."""
    needs_order: ClassVar[bool] = False
    """Whether it takes the classes to be in order, lowest first."""
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

    def over(self, groups: Tensor, num_groups: int) -> GroupSums:
        """Returns the sums of releases in each group; see the base."""
        return GroupSums(self, groups, num_groups)

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns the sum, in each group, of one release of every label, float64 (G, K).

        A released label counts as its one-hot vector. A subclass may draw from the exact
        distribution of the sum.
        """
        released = self.release(labels, num_classes, generator)
        if released.dim() == 1:
            return group_counts(released, num_classes, groups, num_groups).to(torch.float64)
        sums = torch.zeros((num_groups, num_classes), dtype=torch.float64)
        return sums.index_add_(0, groups, released.to(torch.float64))

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        """Returns how many labels can be e^eps times as likely as the others, and how often.

        Both float64 (n,): sizes, and the probability of each. None: the likelihood of a release has
        more than two levels, or its sets are not known.
        """
        return None

    def told_of_uniform(self, num_classes: int) -> tuple[float, float, float] | None:
        """Returns what a release tells of one of K equally frequent labels, by a formula.

        The mutual information in nats, the share of the label's variance that it explains, and how
        often the likeliest label is the true one, ties broken at random. None: no formula is known.
        """
        likely = self.likely_sets(num_classes)
        return None if likely is None else _told_by_two_levels(self.eps, num_classes, *likely)

    def bit_rates(self, num_classes: int) -> tuple[float, float] | None:
        """Returns how likely an entry of the release is 1: of the true label, of one wrong label.

        A released label counts as its one-hot vector. None: entries are not 0 and 1, or do not
        treat all labels alike.
        """
        return None

    def law(self, num_classes: int) -> dict[str, Any]:
        """Returns how one label is released, in numbers that JSON takes.

        kind `label`: the own class with probability `own`, each other one with `other`.
        kind `bits`: a bit for each class, 1 with probability `own` for the own class, else `other`.
        kind `subset`: a set of `size` classes; it holds the own one with probability `own`, and is
        uniform otherwise. It is written as a bit for each class.
        kind `table`: one of `outputs`; row c of `probabilities` belongs to class c.
        kind `discrete_laplace`: the one-hot vector plus k `step` on each entry, for independent
        whole k with probability proportional to exp(-|k| step / scale). Floating-point Laplace
        noise is not this law: its gaps show the label.
        kind `none`: too large to write down; the mechanism's name and parameters say it.
        """
        try:
            outputs = self.output_space(num_classes)
        except InputError:
            return {"kind": "none"}
        if len(outputs) * num_classes > LARGEST_TABLE:
            return {"kind": "none"}
        chances = self.log_likelihood(outputs, num_classes).exp().T
        return {"kind": "table", "outputs": outputs.tolist(), "probabilities": chances.tolist()}

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


def _told_by_two_levels(
    eps: float, num_classes: int, sizes: Tensor, chance: Tensor
) -> tuple[float, float, float]:
    """Returns `told_of_uniform` of releases that divide labels into likely and unlikely ones.

    With m likely labels, and t = e^-eps, the posterior of a likely one is a = 1 / (m + (K - m) t),
    that of another one a t, and the divergence from the prior is ln(a K) - (K - m) a t eps.

    Args:
        eps: log of the ratio of the two likelihoods.
        num_classes: K, equally frequent.
        sizes: m, (n,).
        chance: how often each of them occurs, (n,), sum 1.
    """
    eps = min(eps, 700.0)  # e^-700 is 0 for every purpose, and inf * 0 is NaN
    unlikely = num_classes - sizes
    a = 1 / (sizes + unlikely * math.exp(-eps))
    b = a * math.exp(-eps)
    nats = -torch.log1p(unlikely / num_classes * math.expm1(-eps)) - unlikely * b * eps
    is_empty = sizes == 0  # all labels are as likely
    nats = nats.masked_fill(is_empty, 0)
    squares = (sizes * a.square() + unlikely * b.square()).masked_fill(is_empty, 1 / num_classes)
    kept = a.masked_fill(is_empty, 1 / num_classes)
    share = explained_share(float(chance @ squares), 1 / num_classes)
    return float(chance @ nats), share, float(chance @ kept)


def explained_share(squares: float, of_prior: float) -> float:
    """Returns the share of a label's variance that a release explains, in [0, 1].

    Args:
        squares: mean of the summed squares of the posterior.
        of_prior: summed squares of the prior.
    """
    return min(1.0, max(0.0, (squares - of_prior) / (1 - of_prior)))


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


class RealMechanism(Mechanism[float]):
    """A mechanism that releases something about each real label."""

    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    mean_is_label: ClassVar[bool] = True
    """Whether the release has the label as its mean."""

    @abstractmethod
    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one noisy output per label, float64 (N,).

        Args:
            values: true labels, float64 (N,), in [-bound, bound]; left untouched.
            bound: public; infinity where labels have none.
            generator: CPU generator of the privacy stream.
            prior: what a mechanism may assume of labels (see the subclass); not from these labels.

        Raises:
            InputError: an infinite bound, for a mechanism that needs a finite one.
        """

    @abstractmethod
    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-density (or log-probability) of outputs, float64 (R, V).

        Args:
            released: outputs, float64 (R,).
            values: true labels, float64 (V,).
            bound: as for `release`.
            prior: as for `release`.
        """

    @abstractmethod
    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns outputs and labels among which the worst log ratio is attained.

        Between these points the log-density is linear or constant in the output and monotone in
        the label, so that its extremes lie on them; the subclass says why.
        """

    def over(self, groups: Tensor, num_groups: int) -> GroupSums:
        """Returns the sums of releases in each group; see the base."""
        return GroupSums(self, groups, num_groups)

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns the sum, in each group, of one release of every label, float64 (G,)."""
        return group_sums(self.release(values, bound, generator), groups, num_groups)


def exact_match(released: Tensor, values: Tensor) -> Tensor:
    """Returns the log-probability of outputs that are the labels themselves: 0 or -inf, (R, V)."""
    return torch.where(released[:, None] == values[None, :], 0.0, -math.inf).to(torch.float64)
