"""What a person sees while a run works: bars, lines and an estimate of how long it takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, TextIO

from tqdm import tqdm

if TYPE_CHECKING:
    from torch import device as Device

WARM_UP_LAPS = 3
TIMED_SECONDS = 2.0
LONG_RUN_SECONDS = 3600.0
LINE_SECONDS = 60.0


def progress_bar(items: Iterable[Any] | None, total: int, label: str, shown: bool = True) -> Any:
    """Returns `items` with a bar on stderr, if it is `shown`; without a terminal, a line a minute.

    With None for `items` the bar advances by its method `update`.
    """
    if shown and not sys.stderr.isatty():
        return ProgressLines(items, total, label)
    return tqdm(items, total=total, desc=label, leave=False, disable=not shown, mininterval=0.5)


class ProgressLines:
    """What a bar is in a log: a line on stderr each minute, and none for what is shorter.

    Args:
        items: what is worked through; None: `update` says how far it is.
        total: how many there are.
        label: what they are called.
        clock: seconds.
    """

    def __init__(
        self, items: Iterable[Any] | None, total: int, label: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._items = () if items is None else items
        self._total, self._label, self._clock = total, label, clock
        self._done = 0
        self._started = self._told = clock()

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            yield item
            self.update()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, count: int = 1) -> None:
        """Says how far it is, if the last line is a minute old."""
        self._done += count
        now = self._clock()
        if now - self._told < LINE_SECONDS or self._done >= self._total:
            return
        self._told = now
        left = (now - self._started) / self._done * (self._total - self._done)
        far = f"{self._label}: {self._done:,} of {self._total:,}"
        say(f"  {far}, about {duration(left)} left", sys.stderr)


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line at once, to stdout or to `stream`, without breaking a progress bar."""
    tqdm.write(text, file=stream)
    (stream or sys.stdout).flush()


def duration(seconds: float) -> str:
    """Returns '48 s', '12 min' or '3.4 h'.

    >>> duration(48), duration(720), duration(12240)
    ('48 s', '12 min', '3.4 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Stopwatch:
    """Times the first steps of a training, then announces once how long the whole will take.

    Args:
        epochs: of the whole training.
        num_examples: of an epoch.
        where: what computes, and how.
        announce: prints the sentence.
        growth: how much longer the mean epoch takes than the first.
    """

    def __init__(
        self, epochs: int, num_examples: int, where: str, announce: Callable[[str], None],
        growth: float = 1.0,
    ) -> None:  # fmt: skip
        self._epochs, self._num_examples, self._growth = epochs, num_examples, growth
        self._where, self._announce = where, announce
        self._laps = self._timed_examples = 0
        self._started = 0.0
        self._done = False

    def lap(self, num_examples: int, device: Device) -> None:
        """Counts one step of `num_examples` examples."""
        if self._done:
            return
        self._laps += 1
        if self._laps <= WARM_UP_LAPS:
            if self._laps == WARM_UP_LAPS:
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
        text = (
            f"about {duration(seconds)}: {self._epochs} epochs of {self._num_examples:,} "
            f"examples at {rate:,.0f} a second ({self._where})"
        )
        if seconds <= LONG_RUN_SECONDS:
            return text
        fewer = max(1, int(self._epochs * LONG_RUN_SECONDS / seconds))
        smaller = max(1000, int(rate * LONG_RUN_SECONDS / self._epochs) // 1000 * 1000)
        return f"{text}\n  under an hour: trainer.epochs={fewer} or dataset.limit_train={smaller}"


def wait_for(device: Device) -> None:
    """Waits until a GPU has finished its work."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)
