"""Subset selection, which releases a set of labels."""

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import two_levels
from labeldp.mechanisms.bits import BitMechanism, check_bits, truth_values
from labeldp.mechanisms.encodings import Encoding, bits_encoding
from labeldp.mechanisms.noise import Noise, Prior, check_noise, coins, numpy_stream, sets_around
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

    known_as = ("subset_selection",)

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

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor]:
        """Returns the one size of a set."""
        return torch.tensor([self.chosen_size(num_classes)]).double(), torch.ones(1).double()

    def law(self, num_classes: int) -> dict[str, Any]:
        """Returns a law of kind `subset`; see the base."""
        size = self.chosen_size(num_classes)
        return {"kind": "subset", "size": size, "own": 1 - p_outside(self.eps, num_classes, size)}

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
        # log P(set | label) of each single set that holds the label.
        sets = math.lgamma(num_classes) - math.lgamma(size) - math.lgamma(num_classes - size + 1)
        inside = -sets - math.log1p((num_classes - size) / size * math.exp(-self.eps))
        log_likelihood = two_levels(bits == 1, inside, inside - self.eps)
        return log_likelihood.masked_fill_(bits.sum(1, keepdim=True) != size, -math.inf)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the labels in the set, bool (N, K)."""
        return truth_values(released, num_classes)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns all C(K, d) sets, uint8."""
        size = self.chosen_size(num_classes)
        count = math.comb(num_classes, size)
        if count > ENUMERABLE_SETS:
            raise InputError(
                f"{count:.3g} sets of {size} labels are too many to enumerate "
                f"(at most {ENUMERABLE_SETS})"
            )
        chosen = torch.tensor(list(itertools.combinations(range(num_classes), size)))
        return torch.zeros((count, num_classes), dtype=torch.uint8).scatter_(1, chosen, 1)

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the K sets of d cyclically consecutive labels, uint8 (K, K).

        The ratio of two labels depends on their own two bits alone, and for d < K some such set
        holds one label of any pair without the other.
        """
        size, places = self.chosen_size(num_classes), torch.arange(num_classes)
        return ((places - places[:, None]) % num_classes < size).to(torch.uint8)

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""
        size = self.chosen_size(num_classes)
        own = 1 - p_outside(self.eps, num_classes, size)
        return own, (size - own) / (num_classes - 1)  # a set has `size` ones in total

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


def subset_information(num_classes: int, size: int, eps: float) -> float:
    """Returns the mutual information, in nats, of a uniform label and its d-subset."""
    tail = math.exp(-eps)
    # Normalised so that an average label has likelihood 1: K / Z inside the set, less outside.
    inside = num_classes / (size + (num_classes - size) * tail)
    outside = inside * tail
    share = size / num_classes
    information = share * inside * math.log(inside)
    return information + ((1 - share) * outside * math.log(outside) if outside > 0 else 0.0)
