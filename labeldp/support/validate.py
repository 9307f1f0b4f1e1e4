"""Checks of what a user may get wrong; every message says what, which value, what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

# Torch takes a second to import; a wrong override on the command line need not wait for it.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

SMALLEST_EPS = 1e-5
"""Noise of scale 1/eps is drawn from 53 random bits. At this eps, with the finest grid of labels,
their rounding changes eps by less than 1 %; the share grows as 1/eps^2, and far below the noise no
longer fits into 64 bits."""
LARGEST_EPS = 700.0
LARGEST_INTEGER = 2**63 - 1
"""Of torch and numpy."""


class InputError(ValueError):
    """An error that a user can fix: shown as one line, without a traceback."""


class Diverged(InputError):
    """A training whose loss or weights became NaN or infinite, though its input was valid."""


def check_eps(eps: object, name: str = "eps") -> float:
    """Returns `eps` as a float.

    Raises:
        InputError: `eps` is not a number, NaN, below 1e-5, or finite and above 700. Infinity is
            allowed.
    """
    if isinstance(eps, bool) or not isinstance(eps, int | float) or math.isnan(eps) or eps <= 0:
        raise InputError(
            f"{name} must be a number > 0, got {eps!r} "
            f"(use {name}=inf for no privacy at all; smaller is more private)"
        )
    if eps < SMALLEST_EPS:
        raise InputError(
            f"{name} must be at least {SMALLEST_EPS:g}, got {eps!r} (with less, noise is not exact "
            "in floating point, and labels tell nothing)"
        )
    if LARGEST_EPS < eps < math.inf:
        raise InputError(
            f"{name} must be at most {LARGEST_EPS:g} or inf, got {eps!r} (e^-eps is 0 in floating "
            "point, so that labels would leave as they are)"
        )
    return float(eps)


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Returns `value` if it is an integer in [low, high]."""
    allowed = f">= {low}" if high is None else f"in [{low}, {high}]"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be an integer {allowed}, got {value!r}")
    if value < low or (high is not None and value > high):
        raise InputError(f"{name} must be {allowed}, got {value}")
    if high is None and value > LARGEST_INTEGER:
        raise InputError(f"{name} must be in [{low}, {LARGEST_INTEGER}], got {value}")
    return value


def check_number(
    name: str, value: object, *, above: float = -math.inf, low: float = -math.inf,
    high: float = math.inf, below: float = math.inf,
) -> float:  # fmt: skip
    """Returns `value` as a float if it is finite, in (above, below) and in [low, high]."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (above < value < below and low <= value <= high)
        and math.isfinite(value)
    ):
        return float(value)
    limits = ((">", above), (">=", low), ("<=", high), ("<", below))
    given = [f"{sign} {limit:g}" for sign, limit in limits if math.isfinite(limit)]
    allowed = f"a number {' and '.join(given)}" if given else "a finite number"
    raise InputError(f"{name} must be {allowed}, got {value!r}")


def check_folder_name(name: str, value: object) -> str:
    """Returns a text that may name a folder: not empty, without separators, not `.` or `..`."""
    text = str(value)
    if text.strip(". ") == "" or not text.isprintable() or set(text) & set("/\\"):
        raise InputError(f"{name} must name a folder, without / or \\, got {text!r}")
    return text


def check_choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Returns `value` if it is one of `allowed`; the message names the nearest one."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(
            f"{name} must be one of {', '.join(allowed)}; got {value!r}"
            f"{did_you_mean(value, allowed)}"
        )
    return value


def check_list(name: str, value: Any, what: str, length: int | None = None) -> Sequence[Any]:
    """Returns `value` if it is a list, of `length` where one is given."""
    if not isinstance(value, list | tuple) or length not in (None, len(value)):
        count = "" if length is None else f"{length} "
        raise InputError(f"{name} must be a list of {count}{what}, got {value!r}")
    return value


def check_numbers(
    name: str, values: Any, *, above: float = -math.inf, low: float = -math.inf
) -> Sequence[float]:
    """Returns `values` if they are a list of one or more numbers, each as `check_number` has it."""
    if not check_list(name, values, "numbers"):
        raise InputError(f"{name} must be a list of numbers, got an empty one")
    for value in values:
        check_number(name, value, above=above, low=low)
    return values


def check_made(
    name: str, value: object, kind: Any = Callable, *, null: bool = False, see: str = "trainer"
) -> None:
    """Refuses a text or a number where the config needs a mapping with a `_target_`.

    Args:
        name: the key.
        value: the object that was built from the mapping.
        kind: the class it must have; by default anything that can be called.
        null: whether None is allowed.
        see: the folder of configs/ that shows such mappings.
    """
    if not isinstance(value, kind) and not (null and value is None):
        raise InputError(
            f"{name} must be {'null or ' if null else ''}a mapping with a _target_ (see "
            f"configs/{see}), got {value!r}"
        )


def did_you_mean(value: object, known: Collection[str]) -> str:
    """Returns ' (did you mean ...?)' if a known name is similar, else an empty text.

    Capital letters make no difference, and `table1a` is `vector_approximation/table1a`.

    >>> did_you_mean("RR", ["ple", "rr"])
    ' (did you mean rr?)'
    >>> did_you_mean("table1a", ["ple/table1", "vector_approximation/table1a"])
    ' (did you mean vector_approximation/table1a?)'
    """
    given, names = str(value).lower(), {name.lower(): name for name in known}
    within = [name for name in names if name.endswith(f"/{given}")]
    near = within if len(within) == 1 else difflib.get_close_matches(given, list(names), n=1)
    return f" (did you mean {names[near[0]]}?)" if near else ""


def check_labels(labels: Tensor, num_classes: int, *, secret: bool = False) -> Tensor:
    """Returns `labels` if they are int64 (N,) in [0, num_classes), on the CPU.

    With `secret` the message names the row of a wrong label and does not show it.

    Raises:
        InputError: wrong type, shape or range, or fewer than two classes.
    """
    import torch

    check_integer("num_classes", num_classes, low=2)
    _check_vector("labels", "an int64", labels, torch.int64)
    if labels.device.type != "cpu":
        raise InputError(
            f"labels must be on the CPU, where noise is drawn, got device {labels.device}"
        )
    if labels.numel():
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= num_classes:
            what = f"got {low if low < 0 else high}"
            if secret:
                row = int(((labels < 0) | (labels >= num_classes)).nonzero()[0])
                what = f"and that of row {row} is not (it is not shown, as labels are secret)"
            raise InputError(f"labels must be in [0, {num_classes - 1}], {what}")
    return labels


def check_values(values: Tensor, bound: float) -> Tensor:
    """Returns `values` if they are finite float64 (N,) in [-bound, bound], on the CPU.

    Raises:
        InputError: wrong type, shape or range. `bound` may be infinite.
    """
    import torch

    _check_vector("real labels", "a float64", values, torch.float64)
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not largest <= bound or math.isinf(largest):  # a NaN is not <= anything
        raise InputError(f"real labels must be finite and in [-{bound:g}, {bound:g}], got another")
    return values


def _check_vector(name: str, kind: str, value: object, dtype: torch.dtype) -> None:
    from torch import Tensor

    if not isinstance(value, Tensor):
        got = type(value).__name__
    elif value.dtype != dtype or value.dim() != 1:
        got = f"{value.dtype} of shape {tuple(value.shape)}"
    else:
        return
    raise InputError(f"{name} must be {kind} tensor of shape (N,), got {got}")


def check_prior(prior: Tensor | None, num_examples: int, num_classes: int) -> Tensor:
    """Returns the prior as float64 (K,) or (N, K); None is the uniform one.

    Raises:
        InputError: wrong shape, negative or non-finite entries, rows that do not sum to 1.
    """
    import torch

    if prior is None:
        return torch.full((num_classes,), 1.0 / num_classes, dtype=torch.float64)
    prior = torch.as_tensor(prior).to(torch.float64)
    if tuple(prior.shape) not in {(num_classes,), (num_examples, num_classes)}:
        raise InputError(
            f"prior must have shape ({num_classes},) or ({num_examples}, {num_classes}), "
            f"got {tuple(prior.shape)}"
        )
    if not prior.numel():  # no examples
        return prior
    low, high = prior.aminmax()
    if not (low >= 0 and high < math.inf):  # both are NaN if one entry is
        raise InputError("prior must be finite and >= 0, got a negative or non-finite entry")
    worst = (prior.sum(-1) - 1).abs().max()
    if worst > 1e-6:
        raise InputError(f"prior rows must sum to 1, got one that is off by {float(worst):.2g}")
    return prior
