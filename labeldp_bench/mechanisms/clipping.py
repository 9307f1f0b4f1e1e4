"""The clip of real labels without a bound: given, or chosen by the learner's rule."""

import math

from labeldp_bench.support.validate import InputError, check_number


def check_clip(clip: float | None) -> None:
    """Raises InputError unless `clip` is a number > 0, or None: the learner is to choose it."""
    if clip is not None:
        check_number("mechanism.clip", clip, above=0)


def clip_or_bound(clip: float | None, bound: float) -> float:
    """Returns to which range labels are clipped: `clip`, or the bound of labels that have one.

    Raises:
        InputError: neither is there.
    """
    reach = bound if clip is None else clip
    if math.isinf(reach):
        raise InputError(
            "mechanism.clip must be given for labels without a bound (or use "
            "learner.tuning=theory, which chooses it)"
        )
    return reach
