"""How much one release tells of its label, and which mechanism to take for it.

By a formula where there is one, else by enumerating the outputs, else from draws with an error.
"""

import contextlib
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms import (
    AdditiveLaplace,
    ClassMechanism,
    HadamardResponse,
    NoPrivacy,
    OptimalMechanism,
    RandomizedResponse,
    SubsetSelection,
)
from labeldp.mechanisms.bits import BitFlips
from labeldp.mechanisms.laplace import argmax_retention
from labeldp.mechanisms.optimal import MOST_CLASSES
from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism
from labeldp.support.validate import InputError

ENTRIES = 2**22
"""Likelihoods, outputs times classes, that are enumerated at most, and drawn at one time."""
DRAWS = 20_000
SMALL_EPS = 0.01
"""Of Laplace noise: below, the quadrature is too coarse, and all is proportional to eps^2."""


@dataclass(frozen=True)
class Information:
    """What one release tells of its label.

    Attributes:
        bits: mutual information of label and release.
        share: how much of the label's variance a release explains: the covariance of the class
            posterior over that of the true label, by traces. It is 1 where the label itself is
            released, and tanh^2(eps / 2) for two equally frequent classes under randomised
            response. N releases tell about as much of class frequencies as share * N true labels.
        kept: how often the likeliest label is the true one, ties broken at random.
        error: standard error of the bits; 0: computed, not drawn.
    """

    bits: float
    share: float
    kept: float
    error: float = 0.0


@lru_cache(maxsize=512)
def information(
    mechanism: ClassMechanism, num_classes: int, class_shares: tuple[float, ...] | None = None
) -> Information:
    """Returns what one release of a mechanism tells of its label.

    Args:
        mechanism: releases each label on its own, and needs no prior.
        num_classes: K.
        class_shares: of labels, (K,), > 0, sum 1; None: all classes equally frequent.

    Raises:
        InputError: the mechanism needs a prior, or does not take K classes.

    >>> told = information(RandomizedResponse(1.0), 10)
    >>> round(told.bits, 4), told.error
    (0.1059, 0.0)
    """
    if class_shares is None:
        if isinstance(mechanism, AdditiveLaplace):
            return _of_laplace(mechanism, num_classes)
        likely = _likely_labels(mechanism, num_classes)
        if likely is not None:
            return _of_two_levels(mechanism.eps, num_classes, *likely)
    try:
        outputs = mechanism.output_space(num_classes)
    except InputError:  # reals, or too many
        outputs = None
    if outputs is None or len(outputs) * num_classes > ENTRIES:
        return _by_draws(mechanism, num_classes, class_shares)
    prior = _prior(num_classes, class_shares)
    likelihood = mechanism.log_likelihood(outputs, num_classes).exp()  # (outputs, K)
    best = (likelihood >= likelihood.amax(1, keepdim=True) * (1 - 1e-9)).double()
    joint = likelihood * prior
    chance = joint.sum(1)
    return Information(
        float(torch.special.xlogy(joint, likelihood / chance[:, None]).nansum()) / math.log(2),
        _explained(float((joint.square().sum(1) / chance).nansum()), prior),
        float((joint * best).sum(1) @ (1 / best.sum(1))),
    )


def _likely_labels(mechanism: ClassMechanism, num_classes: int) -> tuple[Tensor, Tensor] | None:
    """Returns how many labels are e^eps times as likely as the others, and how often that many are.

    Both float64 (n,). None: the likelihood of this mechanism is not known to have two levels.
    """
    if isinstance(mechanism, RandomizedResponse | NoPrivacy):
        return torch.ones(1).double(), torch.ones(1).double()
    if isinstance(mechanism, SubsetSelection):
        return torch.tensor([mechanism.chosen_size(num_classes)]).double(), torch.ones(1).double()
    if isinstance(mechanism, OptimalMechanism) and num_classes <= MOST_CLASSES:
        return _likely_labels(SubsetSelection(mechanism.eps), num_classes)  # its equal here
    if isinstance(mechanism, BitFlips):
        others = torch.arange(num_classes, dtype=torch.float64)
        chance = _binomial(num_classes - 1, mechanism.p_flip)
        sizes = torch.cat([others, others + 1])
        return sizes, torch.cat([mechanism.p_drop * chance, (1 - mechanism.p_drop) * chance])
    if isinstance(mechanism, HadamardResponse):
        sizes = _hadamard_sizes(num_classes).double()
        p = mechanism.p_keep
        inside = sizes * p + (num_classes - sizes) * (1 - p)
        return sizes, inside * 2 / (len(sizes) * num_classes)
    return None


def _of_two_levels(eps: float, num_classes: int, sizes: Tensor, chance: Tensor) -> Information:
    """Returns what a release tells if it divides labels into likely and unlikely ones.

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
    return Information(
        float(chance @ nats) / math.log(2),
        _explained(float(chance @ squares), _prior(num_classes, None)),
        float(chance @ kept),
    )


def _binomial(count: int, p: float) -> Tensor:
    """Returns the probabilities of 0 to `count` successes, float64 (count + 1,)."""
    k = torch.arange(count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(count - k + 1)
    p_of = torch.tensor(p, dtype=torch.float64)
    chance = (ways + torch.special.xlogy(k, p_of) + torch.special.xlog1py(count - k, -p_of)).exp()
    return chance / chance.sum()


def _hadamard_sizes(num_classes: int) -> Tensor:
    """Returns to how many labels each message of Hadamard response belongs, int64 (L,).

    Message o belongs to label i if (i + 1) AND o has an even number of ones. Rows
    0 to K fall into blocks of 2^b that share their upper bits; the signs of o add up to 0 over a
    block if o has a one among its lower b bits, else to 2^b times the sign of the upper ones.
    """
    count = num_classes + 1
    messages = np.arange(2 ** num_classes.bit_length())
    signs, start = np.zeros(len(messages), np.int64), 0
    for b in reversed(range(count.bit_length())):
        if count >> b & 1:
            sign = 1 - 2 * (np.bitwise_count(messages & start) & 1).astype(np.int64)
            signs += np.where(messages & (2**b - 1), 0, sign << b)
            start += 2**b
    return torch.from_numpy((count + signs) // 2 - 1)  # row 0 is no label's


def _of_laplace(mechanism: AdditiveLaplace, num_classes: int) -> Information:
    eps, scale = mechanism.eps, mechanism.scale
    kept = argmax_retention(scale, num_classes)
    if math.isinf(eps):
        return Information(math.log2(num_classes), 1.0, kept)
    nats, own = laplace_information(2 / max(eps, SMALL_EPS), num_classes)
    smaller = min(1.0, eps / SMALL_EPS) ** 2
    share = _explained(own, _prior(num_classes, None))
    return Information(smaller * nats / math.log(2), smaller * share, kept)


def laplace_information(scale: float, num_classes: int) -> tuple[float, float]:
    """Returns what a noisy one-hot vector tells of its label: nats, and its posterior's mean.

    With T_j = clip(2 o_j - 1, -1, 1) / b, the log likelihood ratio of label j, the information is
    ln K + E T_own - E ln S with S = sum_j exp(T_j). The T_j are independent, so that
    E ln S = integral over t > 0 of (e^-t - E e^(-t S)) / t (Frullani) needs no draws: E e^(-t S) is
    a product of integrals over one entry. With t = e^u the trapezoidal rule is exact to 1e-9. So is
    the mean posterior of the own label, E exp(T_own) / S = integral of E exp(T_own - t S).

    Args:
        scale: b of the noise, > 0; 2 / eps is ALIBI's.
        num_classes: K >= 2, equally frequent.

    >>> round(laplace_information(scale=2 / 3, num_classes=10)[0] / math.log(2), 4)
    0.8977
    """
    # A wrong entry is noise: below 0, between, above 1. The own one mirrors it around 1/2.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    inside = (nodes + 1) / 2
    ratios = np.concatenate([[-1.0], nodes, [1.0]]) / scale
    tail = math.exp(-1 / scale) / 2
    density = weights / 2 * np.exp(-inside / scale) / (2 * scale)
    wrong: NDArray[np.float64] = np.concatenate([[0.5], density, [tail]])
    own = wrong[::-1]
    width = 0.03  # outside of these steps lies less than 1e-15
    t = np.exp(np.arange(-40 - 1 / scale, 8 + 1 / scale, width))
    decay = np.exp(-t[:, None] * np.exp(ratios))
    others = (decay @ wrong) ** (num_classes - 1)
    log_sum = width * float((np.exp(-t) - (decay @ own) * others).sum())
    posterior = width * float(t @ ((decay @ (np.exp(ratios) * own)) * others))
    return math.log(num_classes) + float(ratios @ own) - log_sum, posterior


def _by_draws(
    mechanism: ClassMechanism, num_classes: int, class_shares: tuple[float, ...] | None
) -> Information:
    """Returns what releases of made-up labels tell, under a fixed seed."""
    prior, generator = _prior(num_classes, class_shares), torch.Generator().manual_seed(0)
    labels = made_up_labels(num_classes)
    if class_shares:
        labels = torch.multinomial(prior, len(labels), True, generator=generator)
    gains, explained, kept = [], 0.0, 0.0
    for part in labels.split(max(1, ENTRIES // num_classes)):
        released = mechanism.release(part, num_classes, generator)
        centred = mechanism.centred_log_likelihood(released, num_classes)
        posterior = (centred.double() + prior.log()).softmax(1)
        gains.append(torch.special.xlogy(posterior, posterior / prior).sum(1) / math.log(2))
        explained += float((posterior - prior).square().sum())
        best = mechanism.most_likely_labels(released, num_classes).double()
        kept += float((best.gather(1, part[:, None]).squeeze(1) / best.sum(1)).sum())
    gained = torch.cat(gains)
    error = float(gained.std()) / math.sqrt(len(gained))
    share = explained / len(labels) / float(1 - prior.square().sum())
    return Information(float(gained.mean()), min(1.0, share), kept / len(labels), error)


def made_up_labels(num_classes: int) -> Tensor:
    """Returns made-up labels that measure a mechanism, int64: each class equally often.

    Above 2,000 classes only some of them, 500 at least, as each costs the time of K numbers.

    >>> len(made_up_labels(3)), len(made_up_labels(100_000))
    (19998, 500)
    """
    size = min(DRAWS, math.ceil(4e6 / num_classes))
    if size >= num_classes:
        return torch.arange(size // num_classes * num_classes) % num_classes
    size = min(num_classes, max(size, 500))
    return torch.arange(size) * num_classes // size


def _prior(num_classes: int, class_shares: tuple[float, ...] | None) -> Tensor:
    if class_shares is None:
        return torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
    return torch.tensor(class_shares, dtype=torch.float64)


def _explained(squares: float, prior: Tensor) -> float:
    """Returns the share of a label's variance that posteriors explain, from their mean squares."""
    of_prior = float(prior.square().sum())
    return min(1.0, max(0.0, (squares - of_prior) / (1 - of_prior)))


NEAR = 0.98
"""Of the most bits: mechanisms this near are as good, and the simplest of them is taken."""
SIMPLEST = ("rr", "subset_selection", "rappor")
"""Whose release people understand at once: a label, a short list, a bit for each class."""


def recommended(num_classes: int, eps: float) -> str:
    """Returns the simplest mechanism among those that tell the most; without privacy `none`."""
    return simplest(told_by_all(num_classes, eps, None))


def told_by_all(
    num_classes: int, eps: float, class_shares: tuple[float, ...] | None
) -> dict[str, Information]:
    """Returns what each mechanism tells that can be drawn here; without privacy `none` alone."""
    if math.isinf(eps):
        return {"none": information(CLASS_MECHANISMS["none"](eps), num_classes, class_shares)}
    told = {}
    for name, kind in CLASS_MECHANISMS.items():
        if kind.private and name != "lp_1st":  # the same as rr
            with contextlib.suppress(InputError):  # `optimal` above 10 classes, or too large an eps
                mechanism = class_mechanism(name, eps, {})
                mechanism.check(1, num_classes, torch.Generator())
                told[name] = information(mechanism, num_classes, class_shares)
    return told


def simplest(told: dict[str, Information]) -> str:
    """Returns the simplest mechanism among those that tell nearly the most."""
    most = max(each.bits for each in told.values())
    good = [name for name, each in told.items() if each.bits >= NEAR * most]
    return next((name for name in SIMPLEST if name in good), good[0])
