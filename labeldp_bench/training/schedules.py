"""Learning-rate schedules: `schedule(step, total_steps)` is a factor in [0, 1] of the peak rate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from labeldp.support.validate import (
    InputError,
    check_choice,
    check_integer,
    check_list,
    check_number,
)

Schedule = Callable[[int, int], float]
"""Maps the number of finished steps, in [0, total_steps), to the factor of the next step."""


@dataclass(frozen=True)
class RampAndDecays:
    """A linear ramp, then a factor `decay` less at each of `decay_at`.

    Args:
        warmup: fraction of all steps in [0, 1) that the ramp takes.
        decay_at: fractions of all steps, ascending.
        decay: what each of them multiplies by, in (0, 1].
    """

    warmup: float = 0.15
    decay_at: Sequence[float] = (0.3, 0.6, 0.9)
    decay: float = 0.1

    def __post_init__(self) -> None:
        check_number("trainer.schedule.warmup", self.warmup, low=0, below=1)
        key = "trainer.schedule.decay_at"
        fractions = check_list(key, self.decay_at, "ascending fractions")
        fractions = [check_number(key, fraction, above=0, high=1) for fraction in fractions]
        if fractions != sorted(fractions):
            raise InputError(f"{key} must be ascending fractions, got {fractions}")
        check_number("trainer.schedule.decay", self.decay, above=0, high=1)

    def decayed(self, done: float, start: float = 0.0) -> float:
        """Returns the factor when the share `done` has passed; `decay_at` counts from `start`."""
        return self.decay ** sum(done >= start + fraction for fraction in self.decay_at)


@dataclass(frozen=True)
class WarmupSteps(RampAndDecays):
    """Returns a linear ramp from 0 to 1, then a factor `decay` less at each of `decay_at`.

    Source: Ghazi et al. (2021), arXiv:2102.06062, supplement B, CIFAR. The text (and BlockRR's)
    places the decays at 30, 60 and 90 % of all training: `decay_anchor="total"`. Their released
    code restarts the count when the ramp ends, so that they fall at 45, 75 and 105 %, the last
    never: `decay_anchor="post_warmup"`. It also rounds each boundary down to a whole step.

    Args:
        warmup, decay_at, decay: as above.
        decay_anchor: `total`, counted from the first step, or `post_warmup`, from the ramp's end.

    >>> schedule = WarmupSteps()
    >>> [round(schedule(step, 100), 6) for step in (0, 5, 15, 29, 30, 60, 90)]
    [0.0, 0.333333, 1.0, 1.0, 0.1, 0.01, 0.001]
    """

    decay_anchor: str = "total"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("trainer.schedule.decay_anchor", self.decay_anchor, ("total", "post_warmup"))

    def __call__(self, step: int, total_steps: int) -> float:
        """Returns the factor of a step."""
        done = step / total_steps
        if done < self.warmup:
            return done / self.warmup
        return self.decayed(done, self.warmup if self.decay_anchor == "post_warmup" else 0.0)


@dataclass(frozen=True)
class EpochSteps(RampAndDecays):
    """Returns `WarmupSteps` with decays at fractions of all training, one factor per epoch.

    Differs by one epoch: epoch e (from 0) takes the value at its end, so that the ramp starts above
    0 at 1/W, with W = floor(warmup * epochs), and each decay falls one epoch earlier.

    Source: Liu & Ding (BlockRR), section 5.1.2, and the authors' code.

    Args:
        warmup, decay_at, decay: as above.
        epochs: of the whole training.

    >>> schedule = EpochSteps(epochs=160)
    >>> [round(schedule(epoch, 160), 6) for epoch in (0, 23, 46, 47, 95, 143)]
    [0.041667, 1.0, 1.0, 0.1, 0.01, 0.001]
    """

    epochs: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("trainer.schedule.epochs", self.epochs, low=1)

    def __call__(self, step: int, total_steps: int) -> float:
        """Returns the factor of a step."""
        ended = step * self.epochs // total_steps + 1
        ramp = int(self.warmup * self.epochs)
        return ended / ramp if ended <= ramp else self.decayed(ended / self.epochs)


@dataclass(frozen=True)
class WarmupLinear:
    """Returns a linear ramp from 0 to 1, then a line back to 0 after the last step.

    Source: Ghazi et al. (2021), arXiv:2102.06062, supplement B, MNIST and its kin.

    Args:
        warmup: fraction of all steps in [0, 1) that the ramp takes.

    >>> [WarmupLinear(warmup=0.5)(step, 8) for step in range(8)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25]
    """

    warmup: float = 0.15

    def __post_init__(self) -> None:
        check_number("trainer.schedule.warmup", self.warmup, low=0, below=1)

    def __call__(self, step: int, total_steps: int) -> float:
        """Returns the factor of a step."""
        done = step / total_steps
        return done / self.warmup if done < self.warmup else (1 - done) / (1 - self.warmup)


@dataclass(frozen=True)
class AlibiSteps:
    """Returns a ramp over the first epochs, then a factor `decay` less every `decay_every` epochs.

    Epochs count from the start of training, and are shares of it: with 20 in place of 200 epochs
    everything falls ten times as early.

    Source: Malek Esmaeili et al. (2021, ALIBI), arXiv:2106.03408, released code.

    Args:
        epochs: that the other two numbers refer to.
        warmup_epochs: how many the ramp takes; its epoch e (from 0) has (e + 1) / warmup_epochs.
        decay_every: epochs from one decay to the next.
        decay: what each of them multiplies by, in (0, 1].

    >>> [round(AlibiSteps()(epoch, 200), 6) for epoch in (0, 29, 59, 60, 120, 180)]
    [0.033333, 1.0, 1.0, 0.2, 0.04, 0.008]
    """

    epochs: int = 200
    warmup_epochs: int = 30
    decay_every: int = 60
    decay: float = 0.2

    def __post_init__(self) -> None:
        check_integer("trainer.schedule.epochs", self.epochs, low=1)
        check_integer("trainer.schedule.warmup_epochs", self.warmup_epochs, low=0, high=self.epochs)
        check_integer("trainer.schedule.decay_every", self.decay_every, low=1)
        check_number("trainer.schedule.decay", self.decay, above=0, high=1)

    def __call__(self, step: int, total_steps: int) -> float:
        """Returns the factor of a step."""
        epoch = step * self.epochs // total_steps
        if epoch < self.warmup_epochs:
            return (epoch + 1) / self.warmup_epochs
        return self.decay ** (epoch // self.decay_every)
