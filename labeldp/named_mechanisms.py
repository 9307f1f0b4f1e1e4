"""Mechanisms by their names on the command line, and how much each tells of a label."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labeldp.mechanisms import (
    AdditiveLaplace,
    ClassMechanism,
    HadamardResponse,
    Laplace,
    LocalHashing,
    NoPrivacy,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    Rappor,
    RealMechanism,
    SubsetSelection,
    UnaryEncoding,
    UnbiasedRandomizer,
)
from labeldp.mechanisms.bits import BitFlips
from labeldp.mechanisms.encodings import ENTRIES
from labeldp.mechanisms.laplace import STEP
from labeldp.mechanisms.subsets import p_outside
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_choice, did_you_mean

CLASS_MECHANISMS: dict[str, type[ClassMechanism]] = {
    "alibi": AdditiveLaplace,
    "hadamard": HadamardResponse,
    "local_hashing": LocalHashing,
    "lp_1st": RandomizedResponse,
    "none": NoPrivacy,
    "optimal": OptimalMechanism,
    "oue": OptimizedUnaryEncoding,
    "rappor": Rappor,
    "rr": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "unary": UnaryEncoding,
}
"""Those of class labels that need no prior; each label is released once, on its own."""
REAL_MECHANISMS: dict[str, type[RealMechanism]] = {
    "laplace": Laplace,
    "unbiased_randomizer": UnbiasedRandomizer,
}
"""Those of numbers whose release has the true number as its mean."""


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    Raises:
        InputError: No such name or parameter, or a wrong value.
    """
    return _built(CLASS_MECHANISMS, name, eps, parameters)


def real_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> RealMechanism:
    """Returns the mechanism of numbers that has this name; errors as `class_mechanism`."""
    return _built(REAL_MECHANISMS, name, eps, parameters)


def _built(known: Mapping[str, Any], name: str, eps: float, parameters: Mapping[str, Any]) -> Any:
    kind = known[check_choice("mechanism", name, known)]
    own = [each.name for each in fields(kind) if each.init and each.name != "eps"]
    for key in parameters:
        if key not in own:
            raise InputError(
                f"mechanism={name} has no parameter {key}{did_you_mean(key, own)}; it has "
                f"{', '.join(own) or 'none'} beside eps"
            )
    try:
        return kind(eps=eps, **parameters)
    except TypeError as error:  # one is missing
        raise InputError(f"mechanism={name}: {error}") from None


LARGEST_TABLE = 20_000
"""Entries of a table of outputs; larger ones are left out."""


def law_of(mechanism: ClassMechanism, num_classes: int) -> dict[str, Any]:
    """Returns how one label is released, in numbers that JSON takes.

    kind `label`: the own class with probability `own`, each other one with `other`.
    kind `bits`: a bit for each class, 1 with probability `own` for the own class, else `other`.
    kind `subset`: a set of `size` classes; it holds the own one with probability `own`, and is
    uniform otherwise. It is written as a bit for each class.
    kind `table`: one of `outputs`; row c of `probabilities` belongs to class c.
    kind `discrete_laplace`: the one-hot vector plus k `step` on each entry, for independent whole k
    with probability proportional to exp(-|k| step / scale). Floating-point Laplace noise is not
    this law: its gaps show the label.
    kind `none`: too large to write down; the mechanism's name and parameters say it.
    """
    if isinstance(mechanism, RandomizedResponse):
        other = mechanism.p_flip(num_classes)
        return {"kind": "label", "own": 1 - (num_classes - 1) * other, "other": other}
    if isinstance(mechanism, BitFlips):
        own, other = mechanism.bit_rates(num_classes)
        return {"kind": "bits", "own": own, "other": other}
    if isinstance(mechanism, SubsetSelection):
        size = mechanism.chosen_size(num_classes)
        return {"kind": "subset", "size": size,
                "own": 1 - p_outside(mechanism.eps, num_classes, size)}  # fmt: skip
    if isinstance(mechanism, AdditiveLaplace):
        return {"kind": "discrete_laplace", "scale": mechanism.scale, "step": STEP}
    try:
        outputs = mechanism.output_space(num_classes)
    except InputError:
        return {"kind": "none"}
    if len(outputs) * num_classes > LARGEST_TABLE:
        return {"kind": "none"}
    probabilities = mechanism.log_likelihood(outputs, num_classes).exp().T
    return {"kind": "table", "outputs": outputs.tolist(), "probabilities": probabilities.tolist()}


@lru_cache(maxsize=64)
def chance_of_change(mechanism: ClassMechanism, num_classes: int) -> float:
    """Returns how likely the best guess from one release is another class than the true one.

    For equally frequent classes. From the law alone, by made-up labels in turn, so that it tells
    nothing of the labels that are released; to within half a percent, or see `made_up_labels`.
    """
    if isinstance(mechanism, RandomizedResponse):
        return (num_classes - 1) * mechanism.p_flip(num_classes)
    generator, hit = torch.Generator().manual_seed(0), 0.0
    labels = made_up_labels(num_classes)
    for part in labels.split(max(1, ENTRIES // num_classes)):
        released = mechanism.release(part, num_classes, generator)
        most_likely_labels = mechanism.most_likely_labels(released, num_classes).to(torch.float64)
        hit += float(
            (most_likely_labels[torch.arange(len(part)), part] / most_likely_labels.sum(1)).sum()
        )
    return 1 - hit / len(labels)


def made_up_labels(num_classes: int) -> Tensor:
    """Returns made-up labels that measure a mechanism, int64: each class equally often.

    Above 2,000 classes only some of them, 500 at least, as each costs the time of K numbers: then
    a share is right to within 2 %.

    >>> len(made_up_labels(3)), len(made_up_labels(100_000))
    (19998, 500)
    """
    size = min(20_000, math.ceil(4e6 / num_classes))
    if size >= num_classes:
        return torch.arange(size // num_classes * num_classes) % num_classes
    size = min(num_classes, max(size, 500))
    return torch.arange(size) * num_classes // size


NEAR = 0.98
"""Of the most bits: mechanisms this near are as good, and the simplest of them is taken."""
SLOW = 2_000
"""With so many classes a look at all mechanisms takes seconds, and says how far it is."""
SIMPLEST = ("rr", "subset_selection", "rappor")
"""Whose release people understand at once: a label, a short list, a bit for each class."""


@lru_cache(maxsize=512)
def informativeness(
    mechanism: ClassMechanism, num_classes: int, class_shares: tuple[float, ...] | None = None
) -> tuple[float, float]:
    """Returns (bits, share): mutual information of one release, and what it is worth.

    The share is how much of the label's variance a release explains: the covariance of the class
    posterior over that of the true label, by traces. It is 1 where the label itself is released,
    and tanh^2(eps / 2) for two equally frequent classes under randomised response. N releases tell
    about as much of class frequencies as share * N true labels.

    Measured on 20,000 made-up labels with a fixed seed: to about 1 % of its value.

    >>> bits, share = informativeness(class_mechanism("rr", 1.0, {}), 2)
    >>> round(share, 3), round(math.tanh(0.5) ** 2, 3)
    (0.214, 0.214)
    """
    prior = torch.tensor(class_shares or [1 / num_classes] * num_classes, dtype=torch.float64)
    labels = made_up_labels(num_classes)
    generator = torch.Generator().manual_seed(0)
    if class_shares:
        labels = torch.multinomial(prior, len(labels), True, generator=generator)
    bits = share = 0.0
    for part in labels.split(max(1, ENTRIES // num_classes)):
        released = mechanism.release(part, num_classes, generator)
        centred_log_likelihood = mechanism.centred_log_likelihood(released, num_classes).double()
        posterior = (centred_log_likelihood + prior.log()).softmax(1)
        bits += float(torch.special.xlogy(posterior, posterior / prior).sum()) / math.log(2)
        share += float((posterior - prior).square().sum()) / float(1 - prior.square().sum())
    bits, share = bits / len(labels), share / len(labels)
    return bits, min(1.0, share)


@lru_cache(maxsize=256)
def all_informativeness(
    num_classes: int, eps: float, class_shares: tuple[float, ...] | None = None
) -> dict[str, tuple[float, float]]:
    """Returns (bits, share) of every private mechanism that takes these classes, by name."""
    found = {}
    names = list(CLASS_MECHANISMS)
    for name in progress_bar(names, len(names), "mechanisms", shown=num_classes >= SLOW):
        try:
            mechanism = class_mechanism(name, eps, {})
            if mechanism.private and name != "lp_1st":  # the same as rr
                found[name] = informativeness(mechanism, num_classes, class_shares)
        except InputError:  # `optimal` above 10 classes
            continue
    return found


def recommended(num_classes: int, eps: float, class_shares: Sequence[float] | None = None) -> str:
    """Returns the simplest mechanism among those that tell the most; without privacy `none`."""
    if math.isinf(eps):
        return "none"
    found = all_informativeness(
        num_classes, eps, None if class_shares is None else tuple(class_shares)
    )
    best = max(bits for bits, _ in found.values())
    good = [name for name, (bits, _) in found.items() if bits >= NEAR * best]
    return next((name for name in SIMPLEST if name in good), good[0])
