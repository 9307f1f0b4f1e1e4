"""Mechanisms that clip real labels without a bound."""

import math
from dataclasses import dataclass

from labeldp.mechanisms.base import Mechanism
from labeldp.support.validate import InputError, check_number


@dataclass(frozen=True)
class ClippingMechanism(Mechanism[float]):
    """A mechanism that clips real labels to [-clip, clip] before it uses them.

    Args:
        eps: > 0.
        clip: > 0; None takes the bound of labels that have one, and for others leaves the choice
            to the learner, by a theorem's rule.
    """

    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None:
            check_number("mechanism.clip", self.clip, above=0)

    def reach(self, bound: float) -> float:
        """Returns the largest size of a clipped label: `clip`, or the bound.

        Raises:
            InputError: neither is there.
        """
        reach = bound if self.clip is None else self.clip
        if math.isinf(reach):
            raise InputError(
                "mechanism.clip must be given for labels without a bound (or use "
                "learner.tuning=theory, which chooses it)"
            )
        return reach

    def summary(self) -> dict[str, object]:
        """Returns what is worth a line without the clip, and the clip."""
        return super().summary() | ({} if self.clip is None else {"clip": self.clip})
