"""BlockRR: randomised response with one block of frequent and one of rare labels."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import LabelMechanism, check_global_prior, two_levels
from labeldp.support.validate import InputError, check_integer, check_number


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
