"""Mechanisms that release a set of labels: subset selection, with a prior and without."""

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import (
    ClassMechanism,
    check_global_prior,
    prior_rows,
    two_levels,
)
from labeldp.mechanisms.bits import (
    BitMechanism,
    check_bits,
    refuse_non_bits,
    truth_values,
)
from labeldp.mechanisms.encodings import Encoding, bits_encoding
from labeldp.mechanisms.noise import (
    Noise,
    Prior,
    check_noise,
    coins,
    numpy_stream,
    sets_around,
    uniforms,
)
from labeldp.mechanisms.response import by_falling_prior, places
from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError, check_choice, check_integer, check_labels

ENUMERABLE_SETS = 2**16


@dataclass(frozen=True)
class SubsetSelection(BitMechanism):
    """Releases a set of d labels, e^eps times as likely if it holds the true one.

    eps-label-DP under label replacement, tight: over all d-subsets the unnormalised weights are
    e^eps and 1, and the normaliser C(K-1, d-1) e^eps + C(K-1, d) is the same for every label.
    With d=1 it is randomised response.

    Source: Ye, Barg (2018), "Optimal schemes for discrete distribution estimation under locally
    differential privacy"; Wang et al. (2016), "Mutual information optimally local private
    discrete distribution estimation", arXiv:1607.08025.

    Args:
        size: d in [1, K-1]; None lets `rule` choose.
        rule: 'information' takes the d of the largest mutual information with a uniform label,
            'variance' the nearest integer to K / (e^eps + 1), the smallest estimator variance.

    A fixed size > 1 leaves the label hidden in its set even at eps=inf.

    >>> SubsetSelection(eps=1.0).chosen_size(10), SubsetSelection(eps=2.0).chosen_size(10)
    (3, 2)
    """

    size: int | None = None
    rule: str = "information"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism.rule", self.rule, ("information", "variance"))
        if self.size is not None:
            check_integer("mechanism.size", self.size, low=1)

    def chosen_size(self, num_classes: int) -> int:
        """Returns the number d of labels in a released set."""
        check_integer("num_classes", num_classes, low=2)
        if self.size is not None:
            return check_integer("mechanism.size", self.size, low=1, high=num_classes - 1)
        if self.rule == "variance":
            tail = math.exp(-self.eps)
            return max(1, round(num_classes * tail / (1 + tail)))
        return most_informative_size(num_classes, self.eps)

    def encoding(self, num_classes: int) -> Encoding:
        """Returns the smaller of packed bits and the positions of the ones."""
        return bits_encoding(self, num_classes, self.chosen_size(num_classes))

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K) with d ones each; O(N K)."""
        check_labels(labels, num_classes)
        size = self.chosen_size(num_classes)
        stream = numpy_stream(generator)
        holds_own = 1 - p_outside(self.eps, num_classes, size)
        check_noise("subset_selection", self.eps, holds_own)
        inside = coins(holds_own, labels.shape, stream)
        sets = sets_around(labels.numpy(), inside, size, num_classes, stream)
        return torch.from_numpy(sets.view(np.uint8))

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(set | label = c), float64 (N, K): two values, eps apart."""
        bits = check_bits(released, num_classes)
        size = self.chosen_size(num_classes)
        inside = log_inside(self.eps, num_classes, size)
        log_likelihood = two_levels(bits == 1, inside, inside - self.eps)
        return log_likelihood.masked_fill_(bits.sum(1, keepdim=True) != size, -math.inf)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the labels in the set, bool (N, K)."""
        refuse_non_bits(released, num_classes)
        return truth_values(released)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns all C(K, d) sets, uint8."""
        size = self.chosen_size(num_classes)
        return subsets(torch.arange(num_classes), size, num_classes)

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the K sets of d cyclically consecutive labels, uint8 (K, K).

        The ratio of two labels depends on their own two bits alone, and for d < K some such set
        holds one label of any pair without the other.
        """
        return arcs(torch.arange(num_classes), self.chosen_size(num_classes), num_classes)

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""
        size = self.chosen_size(num_classes)
        own = 1 - p_outside(self.eps, num_classes, size)
        return own, (size - own) / (num_classes - 1)  # a set has `size` ones in all

    def summary(self) -> dict[str, object]:
        """Returns the rule that chose the size; the size itself depends on K."""
        return {"size": self.size, "rule": self.rule}


@cache
def most_informative_size(num_classes: int, eps: float) -> int:
    """Returns the size of the largest mutual information; kept, as 10^5 sizes take a while."""
    sizes = range(1, num_classes)
    return max(sizes, key=lambda size: subset_information(num_classes, size, eps))


def p_outside(eps: float, num_classes: int, size: int) -> float:
    """Returns the probability that the set misses the true label."""
    tail = (num_classes - size) * math.exp(-eps)
    return tail / (size + tail)


def log_inside(eps: float, num_classes: int, size: int) -> float:
    """Returns log P(set | label) of each single d-subset that holds the label."""
    sets = math.lgamma(num_classes) - math.lgamma(size) - math.lgamma(num_classes - size + 1)
    return -sets - math.log1p((num_classes - size) / size * math.exp(-eps))


def subset_information(num_classes: int, size: int, eps: float) -> float:
    """Returns the mutual information, in nats, of a uniform label and its d-subset."""
    tail = math.exp(-eps)
    # Normalised so that an average label has likelihood 1: K / Z inside the set, less outside.
    inside = num_classes / (size + (num_classes - size) * tail)
    outside = inside * tail
    share = size / num_classes
    information = share * inside * math.log(inside)
    return information + ((1 - share) * outside * math.log(outside) if outside > 0 else 0.0)


def subsets(members: Tensor, size: int, num_classes: int) -> Tensor:
    """Returns every subset of `members` with `size` labels as uint8 bits (sets, K)."""
    count = math.comb(len(members), size)
    if count > ENUMERABLE_SETS:
        raise InputError(
            f"{count:.3g} sets of {size} labels are too many to enumerate "
            f"(at most {ENUMERABLE_SETS})"
        )
    chosen = torch.tensor(list(itertools.combinations(members.tolist(), size)))
    return torch.zeros((count, num_classes), dtype=torch.uint8).scatter_(1, chosen, 1)


def arcs(members: Tensor, size: int, num_classes: int) -> Tensor:
    """Returns the sets of `size` cyclically consecutive members as uint8 bits (members, K)."""
    start = torch.arange(len(members))
    bits = torch.zeros((len(members), num_classes), dtype=torch.uint8)
    bits[:, members] = ((start - start[:, None]) % len(members) < size).to(torch.uint8)
    return bits


LAST_CHOSEN = LastResults[Tensor](copy=True)
"""Of the last prior: a release, its likelihood and the note on its top k ask one by one."""


@dataclass(frozen=True)
class TopKSubset(ClassMechanism):
    """Releases a d-subset of the k most likely labels, favouring sets with the true one.

    A label inside the top k gives subset selection among them, a label outside a uniform
    d-subset. With d=1 it is RRWithPrior with this k; under a uniform prior, subset selection.

    eps-label-DP under label replacement if the prior does not depend on the label, tight: over
    the d-subsets of the top k the unnormalised weights are e^eps and 1 with the same normaliser Z
    for every label inside, and the uniform 1/C(k, d) of a label outside lies between 1/Z and
    e^eps/Z.

    Source: ours; Ye, Barg (2018) restricted as Ghazi et al. (2021), arXiv:2102.06062, restrict
    randomised response.

    Args:
        size: d; None chooses (k, d) together, to maximise the mutual information under the prior.
        top: k; None chooses it. Only sizes below K, or below `top`, are possible.

    The information is computed to within about 2 % (see `expected_information`), and beyond 16
    labels k and d are searched on a geometric grid.

    >>> m = TopKSubset(eps=1.0)
    >>> tuple(int(x) for x in m.top_k_and_size(torch.full((1, 10), 0.1)))
    (10, 3)
    """

    size: int | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None:
            check_integer("mechanism.size", self.size, low=1)
        if self.top is not None:
            check_integer("mechanism.top", self.top, low=1 + (self.size or 1))

    def top_k_and_size(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Returns k and d, both int64 (rows,), for a prior of shape (rows, K)."""
        chosen = LAST_CHOSEN.get((self, prior), lambda: self._choose(prior))
        return chosen[:, 0].clone(), chosen[:, 1].clone()  # the kept one stays as it is

    def _choose(self, prior: Tensor) -> Tensor:
        """Returns k and d side by side, int64 (rows, 2)."""
        num_classes = prior.shape[1]
        tops = grid(num_classes) if self.top is None else [self.top]
        sizes = grid(num_classes) if self.size is None else [self.size]
        pairs = [(k, d) for k in tops for d in sizes if d < k]
        if self.top is not None:
            check_integer("mechanism.top", self.top, low=2, high=num_classes)
        if self.size is not None:
            check_integer("mechanism.size", self.size, low=1, high=num_classes - 1)
        ordered = prior.gather(1, by_falling_prior(prior)).to(torch.float64)
        best = torch.full((len(prior),), -math.inf, dtype=torch.float64)
        # Where a prior is sure of its label, a release tells nothing, and any pair will do.
        chosen = torch.tensor(pairs[:1]).expand(len(prior), 2).clone()
        mass, squares = ordered.cumsum(1), ordered.square().cumsum(1)
        for k, d in pairs:
            information = expected_information(
                ordered[:, 0], mass[:, k - 1], squares[:, k - 1], self.eps, k, d
            )
            # Where pairs are equal up to rounding, the earlier, smaller one stays.
            better = information > best + 1e-12
            best = torch.where(better, information, best)
            chosen[better] = torch.tensor([k, d])
        return chosen

    def top_k(self, prior: Tensor) -> Tensor:
        """Returns how many labels each prior leaves, int64 (rows,), for a prior of (rows, K)."""
        return self.top_k_and_size(prior)[0]

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K) with d ones each, all inside the top k; O(N K log K)."""
        check_labels(labels, num_classes)
        rows = prior_rows(prior, len(labels), num_classes)
        rank = places(by_falling_prior(rows))
        top, size = (column[:, None] for column in self.top_k_and_size(rows))
        keys = uniforms((len(labels), num_classes), generator)
        uniform = uniforms((len(labels), 1), generator)
        keys = keys.masked_fill(rank >= top, 3.0)
        misses = (top - size).to(torch.float64) * math.exp(-self.eps)
        forced = two_levels(uniform < misses / (size + misses), 2.0, -1.0)
        own = labels[:, None]
        is_inside = rank.expand(len(labels), -1).gather(1, own) < top
        # Keys lie in [0, 1): -1 is always among the d smallest; 2 and 3 never.
        keys.scatter_(1, own, torch.where(is_inside, forced, 3.0))
        taken = (torch.arange(num_classes) < size).expand(len(labels), -1).to(torch.uint8)
        return torch.zeros_like(taken).scatter_(1, keys.argsort(1), taken)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(set | label = c), float64 (N, K); -inf for sets it cannot release."""
        bits = check_bits(released, num_classes)
        rows = prior_rows(prior, len(released), num_classes)
        rank = places(by_falling_prior(rows))
        top, size = (column[:, None] for column in self.top_k_and_size(rows))
        k, d = top.to(torch.float64), size.to(torch.float64)
        uniform = torch.lgamma(d + 1) + torch.lgamma(k - d + 1) - torch.lgamma(k + 1)
        # Against the uniform set: k / (d + (k - d) e^-eps) inside, e^-eps times that outside.
        inside = uniform + (k / (d + (k - d) * math.exp(-self.eps))).log()
        log_likelihood = torch.where(bits == 1, inside, inside - self.eps)
        log_likelihood = torch.where(rank < top, log_likelihood, uniform)
        impossible = (bits.sum(1, keepdim=True) != size) | (bits * (rank >= top)).any(
            1, keepdim=True
        )
        return log_likelihood.masked_fill(impossible, -math.inf)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns all d-subsets of the top k, uint8."""
        return subsets(*self._members(num_classes, prior), num_classes)

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the k sets of d cyclically consecutive members, uint8 (k, K).

        As in subset selection; a label outside is never the worst of a pair.
        """
        return arcs(*self._members(num_classes, prior), num_classes)

    def _members(self, num_classes: int, prior: Prior) -> tuple[Tensor, int]:
        """Returns the top k labels of a global prior, and d."""
        row = check_global_prior(prior, num_classes)[None]
        top, size = self.top_k_and_size(row)
        return by_falling_prior(row)[0, : int(top)], int(size)


def grid(num_classes: int) -> list[int]:
    """Returns 1..16, then steps of a quarter, ending with K."""
    values = list(range(1, min(num_classes, 16) + 1))
    while values[-1] < num_classes:
        values.append(min(num_classes, values[-1] * 5 // 4))
    return values


def expected_information(
    largest: Tensor, mass: Tensor, squares: Tensor, eps: float, k: int, d: int
) -> Tensor:
    """Returns the mutual information, in nats, of the label and a d-subset of its top k.

    A set's probability, against the uniform 1/C(k, d), is X = a + c W, with W the prior mass that
    it holds, and the information needs E[X log X] over uniform sets. Whether the likeliest label
    is in is treated exactly, the rest of W as a Gamma variable of its exact mean and variance:
    the pairs chosen so had >= 98 % of the best exact information (Dirichlet priors, K <= 8).

    Args:
        largest: prior of the likeliest label, float64 (rows,).
        mass: summed prior of the top k.
        squares: summed squared prior of the top k.
        eps: finite or infinite.
        k: number of labels that can be released, >= 2.
        d: size of the set, < k.
    """
    tail = math.exp(-eps)
    inside = k / (d + (k - d) * tail)
    outside = inside * tail
    slope, offset = inside - outside, outside * mass + (1 - mass)
    rest, rest_squares = mass - largest, squares - largest.square()
    mean = rest / (k - 1)
    spread = (rest_squares - rest * mean).clamp_min(0)
    total = mass * subset_information(k, d, eps)
    for share, drawn, held in ((d / k, d - 1, largest), (1 - d / k, d, torch.zeros_like(largest))):
        variance = drawn * (k - 1 - drawn) / ((k - 1) * max(k - 2, 1)) * spread
        center = offset + slope * (held + drawn * mean)
        total = total - share * _gamma_x_log_x(center, slope**2 * variance)
    return total


def _gamma_x_log_x(mean: Tensor, variance: Tensor) -> Tensor:
    """Returns E[X log X] of a Gamma variable; `mean` * log(`mean`) where it does not vary."""
    relative = (variance / mean.square()).clamp(1e-12, 1e12)
    log_bias = torch.digamma(1 / relative + 1) + relative.log()
    return torch.where(mean > 0, mean * (mean.log() + log_bias), 0.0)
