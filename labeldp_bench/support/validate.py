"""Checks of what a user may get wrong; every message says what, which value, what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

# Torch takes a second to import; a wrong override on the command line need not wait for it.
if TYPE_CHECKING:
    from torch import Tensor


LARGEST_EPS = 700.0


class InputError(ValueError):
    """Something a user can mend: shown as one line, without a traceback."""


class Diverged(InputError):
    """A training that came to nothing, though nothing was wrong with its input."""


def check_eps(eps: object, name: str = "eps") -> float:
    """Returns `eps` as a float.

    Raises:
        InputError: `eps` is not a number, NaN, zero or negative, or finite and above 700.
            Infinity is allowed.
    """
    if isinstance(eps, bool) or not isinstance(eps, int | float) or math.isnan(eps) or eps <= 0:
        raise InputError(
            f"{name} must be a number > 0, got {eps!r} "
            f"(use {name}=inf for the non-private baseline)"
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
    return value


def check_number(
    name: str, value: object, *, above: float = -math.inf, low: float = -math.inf,
    high: float = math.inf, below: float = math.inf,
) -> float:  # fmt: skip
    """Returns `value` as a float if it is finite, in (above, below) and in [low, high]."""
    limits = [
        f"> {above:g}" if above > -math.inf else "",
        f">= {low:g}" if low > -math.inf else "",
        f"<= {high:g}" if high < math.inf else "",
        f"< {below:g}" if below < math.inf else "",
    ]
    allowed = " and ".join(filter(None, limits)) or "finite"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = is_number and above < value < below and low <= value <= high  # type: ignore[operator]
    if not fits or not math.isfinite(value):  # type: ignore[arg-type]
        raise InputError(f"{name} must be a number {allowed}, got {value!r}")
    return float(value)  # type: ignore[arg-type]


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


def check_made(
    name: str, value: object, kind: Any = Callable, *, null: bool = False, see: str = "trainer"
) -> None:
    """Refuses a text or a number where a mapping with a `_target_` makes an object.

    Args:
        name: the key.
        value: what was made of it.
        kind: of what may be made; by default all that can be called.
        null: whether None is allowed.
        see: the folder of configs/ that shows such mappings.
    """
    if not isinstance(value, kind) and not (null and value is None):
        raise InputError(
            f"{name} must be {'null or ' if null else ''}a mapping with a _target_ (see "
            f"configs/{see}), got {value!r}"
        )


def did_you_mean(value: object, known: Collection[str]) -> str:
    """Returns ' (did you mean ...?)' where a known name is near, else nothing."""
    near = difflib.get_close_matches(str(value), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def check_labels(labels: Tensor, num_classes: int) -> Tensor:
    """Returns `labels` if they are int64 (N,) in [0, num_classes), on the CPU.

    Raises:
        InputError: wrong type, shape or range, or fewer than two classes.
    """
    import torch
    from torch import Tensor

    check_integer("num_classes", num_classes, low=2)
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.dim() != 1:
        got = (
            f"{labels.dtype} of shape {tuple(labels.shape)}"
            if isinstance(labels, Tensor)
            else type(labels).__name__
        )
        raise InputError(f"labels must be an int64 tensor of shape (N,), got {got}")
    if labels.device.type != "cpu":
        raise InputError(
            f"labels must be on the CPU, where noise is drawn, got device {labels.device}"
        )
    if labels.numel():
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            raise InputError(f"labels must be in [0, {num_classes - 1}], got {wrong}")
    return labels


def check_values(values: Tensor, bound: float) -> Tensor:
    """Returns `values` if they are finite float64 (N,) in [-bound, bound], on the CPU.

    Raises:
        InputError: wrong type, shape or range. `bound` may be infinite.
    """
    import torch
    from torch import Tensor

    if not isinstance(values, Tensor) or values.dtype != torch.float64 or values.dim() != 1:
        got = (
            f"{values.dtype} of shape {tuple(values.shape)}"
            if isinstance(values, Tensor)
            else type(values).__name__
        )
        raise InputError(f"real labels must be a float64 tensor of shape (N,), got {got}")
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not largest <= bound or math.isinf(largest):  # a NaN is not <= anything
        raise InputError(f"real labels must be finite and in [-{bound:g}, {bound:g}], got another")
    return values


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
    if not prior.numel():  # nobody is asked
        return prior
    low, high = prior.aminmax()
    if not (low >= 0 and high < math.inf):  # both are NaN where one entry is
        raise InputError("prior must be finite and >= 0, got a negative or non-finite entry")
    worst = (prior.sum(-1) - 1).abs().max()
    if worst > 1e-6:
        raise InputError(f"prior rows must sum to 1, got one that is off by {float(worst):.2g}")
    return prior
