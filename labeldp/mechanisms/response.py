"""Mechanisms that release one label: randomised response, and its forms with a prior."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import LabelMechanism, check_global_prior, prior_rows, two_levels
from labeldp.mechanisms.measurement import Trust
from labeldp.mechanisms.noise import (
    Noise,
    Prior,
    SecretGenerator,
    binomial,
    check_noise,
    group_counts,
    group_sums,
    numpy_stream,
    random_responses,
    uniforms,
)
from labeldp.support.last_results import LastResults
from labeldp.support.validate import (
    InputError,
    check_choice,
    check_integer,
    check_labels,
    check_number,
)


def places(order: Tensor) -> Tensor:
    """Returns the place of each label in `order`, int64 (rows, K)."""
    counted = torch.arange(order.shape[1]).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, counted)


def by_falling_prior(prior: Tensor) -> Tensor:
    """Returns the labels by falling prior, int64 (rows, K).

    Ties go to the lower label. The last bits of each prior, as many as a label has, are replaced by
    the label, so that sorting the numbers sorts the labels: several times as fast as sorting
    indices. Priors that differ in those bits only therefore count as tied.

    Args:
        prior: (rows, K), >= 0.
    """
    last = prior.shape[1] - 1
    label = 2 ** last.bit_length() - 1
    # Floats >= 0 are in the order of their bits; + 0.0 makes a negative zero positive.
    keys = (prior.to(torch.float64) + 0.0).numpy().view(np.int64)
    keys &= ~label
    keys |= last - np.arange(last + 1)
    keys.sort(axis=1)
    keys &= label
    return torch.from_numpy(last - keys[:, ::-1])


@dataclass(frozen=True)
class NoPrivacy(LabelMechanism):
    """Releases the true label; eps is infinite and nothing is promised.

    >>> NoPrivacy().eps
    inf
    """

    known_as = ("none",)

    eps: float = math.inf

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    private: ClassVar[bool] = False
    trust = Trust.NONE

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isfinite(self.eps):
            raise InputError(
                "mechanism none releases the true label, which costs eps=inf, got "
                f"eps={self.eps:g} (take another mechanism)"
            )

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns a copy of `labels`, int64 (N,) or real float64 (N,)."""
        if labels.dtype == torch.float64:
            return labels.clone()
        return check_labels(labels, num_classes).clone()

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns class counts, float64 (G, K), or sums of real labels, float64 (G,)."""
        if labels.dtype == torch.float64:
            return group_sums(labels, groups, num_groups)
        return super().release_groups(labels, num_classes, groups, num_groups, generator)

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor]:
        """Returns that one label alone is likely."""
        return torch.ones(1).double(), torch.ones(1).double()

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the identity, float64 (K, K)."""
        return torch.eye(check_integer("num_classes", num_classes, low=2), dtype=torch.float64)


@dataclass(frozen=True)
class RandomizedResponse(LabelMechanism):
    """Keeps the label with probability e^eps / (e^eps + K - 1), else a uniform other one.

    eps-label-DP under label replacement, tight: the two entries of a column of the transition
    matrix differ by the factor e^eps.

    Source: Warner (1965); as the first stage of Ghazi et al. (2021), arXiv:2102.06062 (LP-1ST).

    >>> RandomizedResponse(eps=math.log(3)).transition_matrix(2).round(decimals=6).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    known_as = ("rr", "lp_1st")

    draws = 4

    def p_flip(self, num_classes: int) -> float:
        """Returns the probability of each single wrong label (not of all of them together)."""
        # e^-eps in numerator and denominator: the textbook form is NaN at eps=inf.
        tail = math.exp(-self.eps)
        return tail / (1 + (num_classes - 1) * tail)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns int64 (N,): the label, or a uniform other one; O(N)."""
        check_labels(labels, num_classes)
        p_flip = self.p_flip(num_classes)
        check_noise("rr", self.eps, p_flip)
        stream = numpy_stream(generator)
        return torch.from_numpy(random_responses(labels.numpy(), num_classes, p_flip, stream))

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns how often each label is released in each group, float64 (G, K).

        From a seed, drawn from the exact distribution: a label is kept for certain or replaced by a
        uniform one, itself included, with probability K p_flip.
        """
        stream = numpy_stream(generator)
        if isinstance(stream, SecretGenerator):  # exact, and as fast as it need be
            return super().release_groups(labels, num_classes, groups, num_groups, stream)
        counts = group_counts(labels, num_classes, groups, num_groups)
        kept = binomial(counts, 1 - num_classes * self.p_flip(num_classes), stream)
        replaced = (counts - kept).sum(1)
        uniform = stream.multinomial(replaced.numpy(), [1 / num_classes] * num_classes)
        return (kept + torch.from_numpy(uniform)).to(torch.float64)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the two log-probabilities, eps apart, float64 (N, K)."""
        check_labels(released, num_classes)
        keep = -math.log1p((num_classes - 1) * math.exp(-self.eps))
        is_released = torch.arange(num_classes) == released[:, None]
        return two_levels(is_released, keep, keep - self.eps)

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how often the own label is released, and one other label."""
        other = self.p_flip(num_classes)
        return 1 - (num_classes - 1) * other, other

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor]:
        """Returns that one label alone is likely."""
        return torch.ones(1).double(), torch.ones(1).double()

    def law(self, num_classes: int) -> dict[str, Any]:
        """Returns a law of kind `label`; see the base."""
        own, other = self.bit_rates(num_classes)
        return {"kind": "label", "own": own, "other": other}

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label; the prior plays no role."""
        check_integer("num_classes", num_classes, low=2)
        p_flip = self.p_flip(num_classes)
        matrix = torch.full((num_classes, num_classes), p_flip, dtype=torch.float64)
        return matrix.fill_diagonal_(1 - (num_classes - 1) * p_flip)


MOST_ORDERED = 1000
"""Classes of ordered labels; more have too large a table (release them as numbers)."""


@dataclass(frozen=True)
class OrdinalResponse(LabelMechanism):
    """Releases j of ordered classes with probability proportional to exp(-eps |y - j| / (K - 1)).

    eps-label-DP under label replacement, tight: the lowest and the highest class differ by e^eps in
    the odds of either end, and by the triangle inequality no other two differ by more. With two
    classes it is randomised response. Classes are in the order in which they were given.

    Source: McSherry, Talwar (2007), "Mechanism design via differential privacy", FOCS, 94-103 (the
    exponential mechanism); that all of eps can go into the distance is ours.

    >>> OrdinalResponse(eps=math.log(4)).transition_matrix(3).mul(7).round(decimals=6)[0].tolist()
    [4.0, 2.0, 1.0]
    """

    known_as = ("ordinal",)
    needs_order = True

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label; the prior plays no role."""
        check_integer("num_classes of ordinal", num_classes, low=2, high=MOST_ORDERED)
        places = torch.arange(num_classes, dtype=torch.float64)
        apart = (places[:, None] - places).abs() / (num_classes - 1)
        # At eps=inf the diagonal would be NaN.
        return (-self.eps * apart).fill_diagonal_(0).softmax(1)


LAST_RANKED = LastResults[tuple[Tensor, Tensor]](copy=True)
"""Labels ranked by the last prior: a release, its likelihood and the note on top k need them."""


@dataclass(frozen=True)
class RandomizedResponseWithPrior(LabelMechanism):
    """Randomised response inside the k most likely labels; a label outside gives a uniform one.

    eps-label-DP under label replacement if the prior does not depend on the label: a released
    label has probability e^eps/Z, 1/Z or 1/k with Z = e^eps + k - 1 and 1/Z <= 1/k <= e^eps/Z.
    Tight for k > 1; for k = 1 the output says nothing.

    Source: Ghazi et al. (2021), "Deep learning with label differential privacy",
    arXiv:2102.06062, Algorithms 1 and 2. k maximises the expected probability of the true label,
    (sum of the k largest priors) / (1 + (k - 1) e^-eps), the smallest k on ties.

    Args:
        k_rule: 'paper', or 'released_code', which divides by 1 + (k - 2) e^-eps: a smaller k,
            the same privacy.

    >>> m = RandomizedResponseWithPrior(eps=1.0)
    >>> m.top_k(torch.tensor([[0.40, 0.25, 0.15, 0.10, 0.05, 0.05]])).tolist()
    [2]
    """

    known_as = ("rrwithprior",)
    needs_prior = True

    k_rule: str = "paper"

    tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism.k_rule", self.k_rule, ("paper", "released_code"))

    def top_k(self, prior: Tensor) -> Tensor:
        """Returns how many labels each prior leaves, int64 (rows,), for a prior of (rows, K)."""
        return self._ranked(prior)[1].squeeze(1).clone()  # the kept one stays as it is

    def scores(self, ordered: Tensor) -> Tensor:
        """Returns what is maximised, for k = 1..K, float64 (rows, K).

        Args:
            ordered: priors whose rows fall, float64 (rows, K).
        """
        off_by = 0 if self.k_rule == "paper" else 1
        others = torch.arange(ordered.shape[1], dtype=torch.float64) - off_by
        return ordered.cumsum(1) / (1 + others * math.exp(-self.eps))

    def _ranked(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the labels by falling prior, int64 (rows, K), and the top k, int64 (rows, 1)."""
        return LAST_RANKED.get((self, prior), lambda: self._rank(prior))

    def _rank(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        order = by_falling_prior(prior)
        scores = self.scores(prior.gather(1, order).to(torch.float64))
        # NumPy's argmax of rows is up to five times as fast as torch's. The first of equals.
        return order, torch.from_numpy(scores.numpy().argmax(1))[:, None] + 1

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns int64 labels (N,), each among the top k of its prior; O(N K log K)."""
        check_labels(labels, num_classes)
        rows = prior_rows(prior, len(labels), num_classes)
        order, size = self._ranked(rows)
        own = places(order).expand(len(labels), -1).gather(1, labels[:, None])
        flips = (size - 1).to(torch.float64) * math.exp(-self.eps)
        uniform = uniforms((3, len(labels), 1), generator)
        flipped = uniform[0] < flips / (1 + flips)
        other = (own + 1 + (uniform[1] * (size - 1)).long()) % size
        anywhere = (uniform[2] * size).long()
        drawn = torch.where(own < size, torch.where(flipped, other, own), anywhere)
        return order.expand(len(labels), -1).gather(1, drawn).squeeze(1)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(released | label = c), float64 (N, K); -inf outside the top k."""
        check_labels(released, num_classes)
        rows = prior_rows(prior, len(released), num_classes)
        order, top_k = self._ranked(rows)
        rank, size = places(order), top_k.to(torch.float64)
        keep = -torch.log1p((size - 1) * math.exp(-self.eps))
        is_released = torch.arange(num_classes) == released[:, None]
        log_likelihood = torch.where(is_released, keep, keep - self.eps)
        log_likelihood = torch.where(rank < size, log_likelihood, -size.log())
        possible = (rank < size).expand(len(released), -1).gather(1, released[:, None])
        return log_likelihood.masked_fill(~possible, -math.inf)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the released label, bool (N, K); all of them where the prior leaves only one.

        No label outside of the top k is as likely: 1/k < e^eps/Z for k > 1.
        """
        check_labels(released, num_classes)
        rows = prior_rows(prior, len(released), num_classes)
        says_nothing = (self.top_k(rows) == 1)[:, None]
        itself = torch.zeros((len(released), num_classes), dtype=torch.bool)
        return itself.scatter_(1, released[:, None], True).logical_or_(says_nothing)

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label, for one global prior of shape (K,)."""
        prior = check_global_prior(prior, num_classes)
        return self.log_likelihood(torch.arange(num_classes), num_classes, prior).exp().T

    def summary(self) -> dict[str, object]:
        """Returns the rule that chooses k; k itself depends on the prior."""
        return {"k_rule": self.k_rule}


@dataclass(frozen=True)
class BlockRR(LabelMechanism):
    """Splits the labels by a prior; rare ones answer 1/K for each of l favoured frequent ones.

    Frequent (S1): all i with p_i >= e^(-1/sigma) max_{j != i} p_j. Favoured: the l likeliest of
    S1, l capped at |S1|.

    eps-label-DP under label replacement if the prior does not depend on the label: a column of S1
    holds e^eps beta, beta and, if favoured, 1/K with beta <= 1/K <= e^eps beta; a column of S2
    holds e^eps gamma and gamma. With l = 0, or no rare label, it is randomised response. With
    l > 0 and rare labels eps=inf does not identify the label.

    Source: Liu, Ding (2026), "BlockRR: a unified framework of RR-type algorithms for label
    differential privacy", equations 3.1-3.3. Its Algorithm 1 (line 4) gives rare labels gamma on
    S1 outside the favoured, where equation 3.1 has beta; only with beta do the rows sum to one.

    Args:
        sigma: > 0; a small one calls every label frequent.
        favoured: l >= 0.

    >>> frequent, rare = own_rates(eps=1.0, outputs=(6, 4), favoured=5)
    >>> round(frequent, 4), round(rare, 4)  # kept, of frequent and of rare labels
    (0.2518, 0.1936)
    """

    known_as = ("blockrr",)
    needs_prior = True

    sigma: float = 1.0
    favoured: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", check_number("mechanism.sigma", self.sigma, above=0.0))
        check_integer("mechanism.favoured", self.favoured, low=0)

    def partition(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Returns which labels are frequent (S1) and which favoured, both bool (K,)."""
        # The likeliest label competes with the second, every other one with the likeliest.
        top = prior.topk(2)
        rival = top.values[0].repeat(len(prior))
        rival[top.indices[0]] = top.values[1]
        frequent = prior >= math.exp(-1 / self.sigma) * rival
        order = prior.sort(descending=True, stable=True).indices
        favoured = torch.zeros_like(frequent)
        favoured[order[frequent[order]][: self.favoured]] = True
        return frequent, favoured

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label; `prior` (K,) decides the blocks."""
        prior = check_global_prior(prior, num_classes)
        frequent, favoured = self.partition(prior)
        return block_matrix(self.eps, torch.eye(num_classes, dtype=torch.bool), frequent, favoured)

    def summary(self) -> dict[str, object]:
        """Returns the two parameters of the paper; the blocks depend on the prior."""
        return {"sigma": self.sigma, "favoured": self.favoured}


def block_matrix(eps: float, near: Tensor, frequent: Tensor, favoured: Tensor) -> Tensor:
    """Returns the transition matrix of the general BlockRR, float64 (labels, outputs).

    Args:
        eps: > 0, or infinite.
        near: B, bool (labels, outputs): which outputs count as each label's own. As many for
            every label; those of frequent and of rare labels are disjoint. Rare labels may have
            none if every output belongs to frequent ones (RRWithPrior).
        frequent: S1, bool (labels,).
        favoured: Delta, bool (outputs,), among the outputs of frequent labels.

    Raises:
        InputError: `near` is not such a mapping.
    """
    first = near[frequent].any(0)
    sizes = near[frequent].sum(1) if first.all() else near.sum(1)
    if (near[~frequent] & first).any() or len(sizes.unique()) != 1 or int(sizes[0]) == 0:
        raise InputError(
            "BlockRR needs as many near outputs for every label, and none that a frequent and "
            "a rare label share"
        )
    num_outputs = near.shape[1]
    outputs = (int(first.sum()), num_outputs - int(first.sum()))
    tail = math.exp(-eps)
    own = own_rates(eps, outputs, int(favoured.sum()), int(sizes[0]))
    # Frequent outputs take beta, rare ones gamma; e^eps times that for a label's own.
    base = two_levels(first, own[0], own[1])
    matrix = torch.where(near, base, tail * base)
    is_uniform = ~frequent[:, None] & favoured
    return matrix.masked_fill(is_uniform, 1 / num_outputs)


def own_rates(
    eps: float, outputs: tuple[float, float], favoured: float, near: float = 1
) -> tuple[float, float]:
    """Returns e^eps beta and e^eps gamma of equation 3.2: how likely a label's own output is.

    Args:
        eps: > 0, or infinite: written in e^-eps, both are finite there.
        outputs: number, or length, of the outputs of the frequent and of the rare block.
        favoured: l, at most the first of them.
        near: |B(y)|, how many outputs, or which length, count as the label's own.
    """
    tail = math.exp(-eps)
    frequent, rare = outputs
    total = frequent + rare
    gain = (1 - tail) * near
    # kappa e^(-2 eps), multiplied out: the printed difference cancels at small eps.
    kappa = gain**2 + gain * total * tail + favoured * rare * tail**2
    beta = (gain + favoured * rare / total * tail) / kappa
    gamma = (gain * (1 - favoured / total) + favoured * rare / total * tail) / kappa
    return beta, gamma
