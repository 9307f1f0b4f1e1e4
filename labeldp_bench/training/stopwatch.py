"""How long a training takes, said once after its first steps."""

import time
from collections.abc import Callable

import torch

from labeldp.support.progress import duration
from labeldp_bench.support.device import wait_for

WARM_UP_LAPS = {"cpu": 1}
"""Steps that do not count, by kind of device; a GPU compiles and searches kernels in three."""
TIMED_SECONDS = 2.0
LONG_RUN_SECONDS = 3600.0


class Stopwatch:
    """Times the first steps of a training, then announces once how long the whole will take.

    Args:
        epochs: that are left to train.
        num_examples: of an epoch.
        where: what computes, and how.
        announce: prints the sentence.
        growth: how much longer the mean epoch of these takes than their first.
        done: epochs that a checkpoint held.
    """

    def __init__(
        self, epochs: int, num_examples: int, where: str, announce: Callable[[str], None],
        growth: float = 1.0, done: int = 0,
    ) -> None:  # fmt: skip
        self._epochs, self._num_examples, self._growth = epochs, num_examples, growth
        self._done_before = done
        self._where, self._announce = where, announce
        self._laps = self._timed_examples = 0
        self._started = 0.0
        self._done = False

    def lap(self, num_examples: int, device: torch.device) -> None:
        """Counts one step of `num_examples` examples."""
        if self._done:
            return
        self._laps += 1
        warm_up = WARM_UP_LAPS.get(device.type, 3)
        if self._laps <= warm_up:
            if self._laps == warm_up:
                wait_for(device)
                self._started = time.perf_counter()
            return
        self._timed_examples += num_examples
        if time.perf_counter() - self._started < TIMED_SECONDS:
            return
        wait_for(device)
        rate = self._timed_examples / (time.perf_counter() - self._started) / self._growth
        self._done = True
        self._announce(self.estimate(rate))

    def estimate(self, rate: float) -> str:
        """Returns the sentence for `rate` examples per second."""
        seconds = self._epochs * self._num_examples / rate
        more = " more" if self._done_before else ""
        text = (
            f"about {duration(seconds)}: {self._epochs}{more} epochs of {self._num_examples:,} "
            f"examples at {rate:,.0f} a second ({self._where})"
        )
        if seconds <= LONG_RUN_SECONDS or self._done_before:
            return text
        fewer = max(1, int(self._epochs * LONG_RUN_SECONDS / seconds))
        smaller = max(1000, int(rate * LONG_RUN_SECONDS / self._epochs) // 1000 * 1000)
        return f"{text}\n  under an hour: trainer.epochs={fewer} or dataset.limit_train={smaller}"
