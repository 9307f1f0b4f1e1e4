"""How much a release tells of its label."""

import math
from functools import lru_cache

import torch

from labeldp.mechanisms.base import ClassMechanism, LabelMechanism
from labeldp.support.validate import InputError

MOST_OUTPUTS = 4096
"""That are enumerated; more are drawn."""
DRAWS = 20_000


@lru_cache(maxsize=512)
def information_bits(mechanism: ClassMechanism, num_classes: int) -> float | None:
    """Returns the mutual information of a uniform label and its release, in bits.

    None for a mechanism that needs a prior. Exact where outputs can be enumerated, else from
    releases of made-up labels under a fixed seed, to about 1 %.

    >>> from labeldp.mechanisms import RandomizedResponse
    >>> round(information_bits(RandomizedResponse(1.0), 10), 4)
    0.1059
    """
    measures = [_drawn]
    if isinstance(mechanism, LabelMechanism) or 2**num_classes <= MOST_OUTPUTS:
        measures = [_enumerated, _drawn]
    for measure in measures:
        try:
            return measure(mechanism, num_classes)
        except InputError:  # reals, which cannot be enumerated; or a prior is missing
            continue
    return None


def _enumerated(mechanism: ClassMechanism, num_classes: int) -> float:
    outputs = mechanism.output_space(num_classes)
    law = mechanism.log_likelihood(outputs, num_classes).exp()  # (outputs, K)
    return float(torch.special.xlogy(law, law / law.mean(1, keepdim=True)).nansum()) / (
        num_classes * math.log(2)
    )


def _drawn(mechanism: ClassMechanism, num_classes: int) -> float:
    labels = torch.arange(DRAWS) % num_classes
    released = mechanism.release(labels, num_classes, torch.Generator().manual_seed(0))
    posterior = mechanism.centred_log_likelihood(released, num_classes).double().softmax(1)
    gained = torch.special.xlogy(posterior, posterior * num_classes).sum(1)
    return float(gained.mean()) / math.log(2)
