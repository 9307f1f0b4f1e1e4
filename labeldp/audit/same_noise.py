"""Grey-box audit: the same noise on data sets that differ in one label."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 40
TRIALS = 200
SMALLEST = 12
"""Powers of ten that a forced uniform number may be away from 0 or 1."""


class RecordedGenerator(np.random.Generator):
    """A NumPy Generator that writes down its calls, and may draw uniform numbers near 0 and 1.

    Args:
        seed: of the numbers.
        is_forced: whether uniform numbers come from ever rarer ends, so that rare branches run.

    Attributes:
        trace: name of each method that was called, with the shapes of its arguments and result.
    """

    def __init__(self, seed: int, is_forced: bool = False) -> None:
        super().__init__(np.random.PCG64(seed))
        self.trace: list[tuple[str, tuple[int, ...]]] = []
        self._is_forced = is_forced

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("trace", "bit_generator", "spawn") or name[0] == "_" or not callable(found):
            return found

        def recorded(*arguments: Any, **named: Any) -> Any:
            drawn = found(*arguments, **named)
            if self._is_forced and name == "random":
                drawn = self._forced(np.asarray(drawn))
            self.trace.append((name, np.shape(drawn)))
            return drawn

        return recorded

    def _forced(self, uniform: NDArray[np.float64]) -> Any:
        ends = 10.0 ** (-SMALLEST * uniform)
        forced = np.where(np.floor(1e6 * uniform) % 2 == 0, ends, 1 - ends)
        return forced if forced.ndim else float(forced)


def same_noise(
    randomiser: Callable[..., Any],
    num_classes: int,
    order: np.random.Generator,
    is_of_one_label: bool = False,
) -> tuple[list[str], list[str]]:
    """Returns what contradicts privacy, and what a reader should look at, a line each.

    The function is called twice with generators of the same seed, on labels that differ in one row.
    Other rows must not change, nor the type of the answer. Reported to look at: calls of the
    generator and lines of code that depend on the label, and outputs that only one label has when
    uniform numbers are close to 0 or 1.

    Source: Cebere, Erb, Desfontaines, Bellet, Fitzsimons (2026), "Privacy in theory, bugs in
    practice: grey-box auditing of differential privacy libraries", arXiv:2602.17454
    (Re:cord-play); ours compares rows and lines, and measures no sensitivity.

    Args:
        randomiser: takes labels and a NumPy Generator.
        num_classes: K.
        order: of labels, rows and seeds.
        is_of_one_label: whether it takes one label in place of an array.
    """
    faults: dict[str, None] = {}
    looks: dict[str, None] = {}
    rows = 1 if is_of_one_label else ROWS
    given: dict[float, set[int]] = {}
    usual: set[float] = set()
    for trial in range(TRIALS):
        is_forced = trial % 2 == 1
        labels = order.integers(0, num_classes, rows)
        row, seed = int(order.integers(rows)), int(order.integers(2**32))
        other = labels.copy()
        other[row] = (other[row] + order.integers(1, num_classes)) % num_classes
        answers, traces, lines = [], [], []
        for each in (labels, other):
            generator = RecordedGenerator(seed, is_forced)
            with _lines_of(randomiser) as seen:
                answer = randomiser(int(each[0]) if is_of_one_label else each.copy(), generator)
            answers.append(np.asarray(answer))
            traces.append(generator.trace)
            lines.append(seen)
        if answers[0].dtype != answers[1].dtype or answers[0].shape != answers[1].shape:
            faults["type or shape of the answer depends on a label"] = None
            continue
        for line in sorted(lines[0] ^ lines[1]):
            looks[f"line {line} runs for some labels only"] = None
        if traces[0] != traces[1]:
            name = next((one[0] for one, two in zip(*traces, strict=False) if one != two), "random")
            looks[f"how much {name}() draws depends on a label"] = None
        elif not is_of_one_label and (np.delete(answers[0] != answers[1], row, 0)).any():
            faults["with the same noise, a label changes the output of another row"] = None
        for each, answer in zip((labels, other), answers, strict=True):
            values = answer.reshape(rows, -1)
            if values.shape[1] > 1:
                continue
            if not is_forced:
                usual.update(values[:, 0].tolist())
            for label, value in zip(each.tolist(), values[:, 0].tolist(), strict=True):
                given.setdefault(value, set()).add(label)
    if len(usual) <= 2 * num_classes:  # else there are too many outputs to have seen them all
        for value in sorted(given.keys() - usual):
            if len(given[value]) < num_classes:
                names = ", ".join(map(str, sorted(given[value])))
                looks[f"output {value:g} came from label {names} only, and rarely"] = None
    return list(faults), list(looks)


@contextmanager
def _lines_of(function: Callable[..., Any]) -> Iterator[set[int]]:
    """Yields the set of lines that run in the function's file meanwhile."""
    seen: set[int] = set()
    code = getattr(function, "__code__", None)
    file = code.co_filename if code else None

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add(frame.f_lineno)
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)
