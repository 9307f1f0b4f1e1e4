"""How much one release tells of its label, and which mechanism to take for it.

By a formula where there is one, else by enumerating the outputs, else from draws with an error.
"""

import contextlib
import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.base import explained_share
from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism
from labeldp.support.validate import InputError

MOST_LIKELIHOODS = 2**22
"""Largest number of likelihoods, outputs times classes, that are enumerated or drawn together."""
MOST_DRAWS = 20_000
"""Largest number of made-up labels that a mechanism is measured by."""


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

    >>> from labeldp.mechanisms import RandomizedResponse
    >>> told = information(RandomizedResponse(1.0), 10)
    >>> round(told.bits, 4), told.error
    (0.1059, 0.0)
    """
    if class_shares is None and (known := mechanism.told_of_uniform(num_classes)) is not None:
        nats, share, kept = known
        return Information(nats / math.log(2), share, kept)
    try:
        outputs = mechanism.output_space(num_classes)
    except InputError:  # reals, or too many
        outputs = None
    if outputs is None or len(outputs) * num_classes > MOST_LIKELIHOODS:
        return _by_draws(mechanism, num_classes, class_shares)
    prior = _prior(num_classes, class_shares)
    likelihood = mechanism.log_likelihood(outputs, num_classes).exp()  # (outputs, K)
    best = (likelihood >= likelihood.amax(1, keepdim=True) * (1 - 1e-9)).double()
    joint = likelihood * prior
    chance = joint.sum(1)
    return Information(
        float(torch.special.xlogy(joint, likelihood / chance[:, None]).nansum()) / math.log(2),
        explained_share(
            float((joint.square().sum(1) / chance).nansum()), float(prior.square().sum())
        ),
        float((joint * best).sum(1) @ (1 / best.sum(1))),
    )


def _by_draws(
    mechanism: ClassMechanism, num_classes: int, class_shares: tuple[float, ...] | None
) -> Information:
    """Returns what releases of made-up labels tell, under a fixed seed."""
    prior, generator = _prior(num_classes, class_shares), torch.Generator().manual_seed(0)
    labels = made_up_labels(num_classes)
    if class_shares:
        labels = torch.multinomial(prior, len(labels), True, generator=generator)
    gains, explained, kept = [], 0.0, 0.0
    for part in labels.split(max(1, MOST_LIKELIHOODS // num_classes)):
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
    size = min(MOST_DRAWS, math.ceil(4e6 / num_classes))
    if size >= num_classes:
        return torch.arange(size // num_classes * num_classes) % num_classes
    size = min(num_classes, max(size, 500))
    return torch.arange(size) * num_classes // size


def _prior(num_classes: int, class_shares: tuple[float, ...] | None) -> Tensor:
    if class_shares is None:
        return torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
    return torch.tensor(class_shares, dtype=torch.float64)


NEARLY_BEST = 0.98
"""Share of the most bits from which on a mechanism counts as equally good."""
EASILY_EXPLAINED = ("rr", "ordinal", "subset_selection", "rappor")
"""Mechanisms whose releases people understand at once: a label, a short list, a bit per class."""


@lru_cache
def recommended(num_classes: int, eps: float) -> str:
    """Returns the simplest mechanism among those that tell the most; without privacy `none`."""
    told = information_by_mechanism(num_classes, eps, None)
    return simplest({name: each.bits for name, each in told.items()})


def information_by_mechanism(
    num_classes: int, eps: float, class_shares: tuple[float, ...] | None, ordered: bool = False
) -> dict[str, Information]:
    """Returns what each mechanism tells that can be drawn here; without privacy `none` alone.

    Those that need the order of classes are there only if the classes are `ordered`.
    """
    if math.isinf(eps):
        return {"none": information(CLASS_MECHANISMS["none"](eps), num_classes, class_shares)}
    told = {}
    for name, kind in CLASS_MECHANISMS.items():
        is_of_them = kind.private and (ordered or not kind.needs_order)
        if is_of_them and name == kind.known_as[0]:  # other names are of the same
            with contextlib.suppress(InputError):  # `optimal` above 10 classes, or too large an eps
                mechanism = class_mechanism(name, eps, {})
                mechanism.check(1, num_classes, torch.Generator())
                told[name] = information(mechanism, num_classes, class_shares)
    return told


def absolute_error(
    mechanism: ClassMechanism, num_classes: int, class_shares: tuple[float, ...] | None = None
) -> tuple[float, float]:
    """Returns how far off the best guess of a label is, in classes: with its release, without.

    On average over labels; exact where all outputs can be listed, else from draws. Arguments as
    `information`, of ordered classes.

    >>> absolute_error(CLASS_MECHANISMS["none"](), 3)
    (0.0, 0.6666666666666666)
    """
    prior, places = _prior(num_classes, class_shares), torch.arange(num_classes).double()
    apart = (places[:, None] - places).abs()
    try:
        outputs = mechanism.output_space(num_classes)
    except InputError:
        outputs = None
    if outputs is not None and len(outputs) * num_classes <= MOST_LIKELIHOODS:
        joint = mechanism.log_likelihood(outputs, num_classes).exp() * prior
    else:
        size, generator = min(MOST_DRAWS, MOST_LIKELIHOODS // num_classes), torch.Generator()
        labels = torch.multinomial(prior, size, True, generator=generator.manual_seed(0))
        released = mechanism.release(labels, num_classes, generator)
        centred = mechanism.centred_log_likelihood(released, num_classes)
        joint = (centred.double() + prior.log()).softmax(1) / size
    # Without a release: of the same draws, whose chance would else count as a gain.
    return float((joint @ apart).amin(1).sum()), float((joint.sum(0) @ apart).min())


def simplest(worth: dict[str, float]) -> str:
    """Returns the simplest mechanism among those that are worth nearly the most."""
    most = max(worth.values())
    good = [name for name, each in worth.items() if each >= NEARLY_BEST * most]
    return next((name for name in EASILY_EXPLAINED if name in good), good[0])
