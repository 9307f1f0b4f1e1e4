"""The law of a release in plain numbers, so that a browser or a phone app can draw from it."""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labeldp.mechanisms import AdditiveLaplace, ClassMechanism, RandomizedResponse
from labeldp.mechanisms.bits import BitFlips
from labeldp.mechanisms.encodings import ENTRIES
from labeldp.mechanisms.laplace import STEP
from labeldp.mechanisms.subsets import SubsetSelection, p_outside
from labeldp.support.validate import InputError

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
