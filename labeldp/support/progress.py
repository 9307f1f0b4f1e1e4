"""What a person sees while something works: bars and lines."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TextIO

from tqdm import tqdm

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


def escape_unknown_letters() -> None:
    """Lets letters that the console's encoding lacks be printed as escapes.

    A class name must not end a command half-way, after its eps is booked.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def duration(seconds: float) -> str:
    """Returns '48 s', '12 min', '3.4 h' or '4.1 days'.

    >>> duration(48), duration(720), duration(12240), duration(356400)
    ('48 s', '12 min', '3.4 h', '4.1 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
