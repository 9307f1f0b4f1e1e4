"""How labels are released: the mechanism, and the manifest that says so."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from torch import Tensor

from labeldp.manifest import ClassName, Manifest, Unit, is_class_name
from labeldp.mechanisms import ClassMechanism, Messages, RealMechanism
from labeldp.named_mechanisms import (
    CLASS_MECHANISMS,
    REAL_MECHANISMS,
    chance_of_change,
    class_mechanism,
    informativeness,
    real_mechanism,
    recommended,
)
from labeldp.names import is_flat
from labeldp.store import LabelStore
from labeldp.support.validate import InputError, check_eps

IDENTITY = 0.01
"""Chance of a change below which a release is practically the labels themselves."""
LEAST, MOST = 1e-300, 1e300
"""Of the width of bounds, so that numbers can be moved to [-1, 1] and back."""
NOISE = 10
"""Clean labels for each class that a release is worth, below which it is practically noise."""


@dataclass(frozen=True)
class Recipe:
    """A mechanism that was built by its name, and the manifest of its releases.

    Attributes:
        mechanism: with the eps of one row.
        manifest: of every release that it draws.
    """

    mechanism: ClassMechanism | RealMechanism
    manifest: Manifest

    def draw(self, labels: Tensor, seed: int | None, part: str = "") -> Tensor:
        """Returns one release of each label, as the manifest says it is stored.

        Args:
            labels: int64 classes (N,), or float64 numbers in [-1, 1] where there are bounds.
            seed: for tests; None: secret randomness, new for each call.
            part: names these labels among those that are released under one seed.
        """
        if isinstance(self.mechanism, RealMechanism):
            store = LabelStore(labels, 0, bound=1.0).open(self.manifest.row_eps, seed, part)
            return store.release(self.mechanism).outputs
        store = LabelStore(labels, len(self.manifest.classes))
        return store.open(self.manifest.row_eps, seed, part).release(Messages(self.mechanism))


def recipe_of(
    eps: float, mechanism: str, parameters: dict[str, Any], *,
    classes: Sequence[Any] | None = None, bounds: tuple[float, float] | None = None,
    unit: Unit | None = None, noise: str = "secret", source: str = "", row_id: str | None = None,
) -> Recipe:  # fmt: skip
    """Returns the recipe for classes, or for numbers where bounds are given.

    Arguments as `privatize`; `row_id` is as in the manifest.
    """
    row_eps = eps / unit.most_rows if unit else eps
    if unit:
        check_eps(row_eps, f"eps={eps:g} shared among {unit.most_rows} rows of a {unit.column}")
    ends: tuple[float, float] | None = None
    names: tuple[ClassName, ...] = ()
    made: ClassMechanism | RealMechanism
    if bounds is None:
        names = check_classes(classes)
        name = recommended(len(names), row_eps) if mechanism == "auto" else mechanism
        made = class_mechanism(name, row_eps, parameters)
        stored = made.encoding(len(names)).name
    else:
        ends, stored = check_bounds(bounds), "outputs"
        name = "unbiased_randomizer" if mechanism == "auto" else mechanism
        if mechanism == "auto" and row_eps > 20:
            name = "laplace"
        made = real_mechanism(name, row_eps, parameters)
    known: dict[str, Any] = {**CLASS_MECHANISMS, **REAL_MECHANISMS}
    name = next(name for name in ("rr", *known) if known[name] is type(made))
    given = {
        each.name: vars(made)[each.name]
        for each in fields(made)
        if each.init and each.name != "eps"
    }
    manifest = Manifest(
        name, given, float(eps), names, ends, unit, noise, source, stored, row_id=row_id
    )
    return Recipe(made, manifest.checked())  # before anything is drawn


def check_classes(classes: Sequence[Any] | None, option: str = "classes") -> tuple[ClassName, ...]:
    """Returns the class names as plain Python values, at least two and all different."""
    if classes is None or isinstance(classes, str) or not is_flat(classes):
        raise InputError(f"{option} must be a list of names, got {classes!r}")
    names = tuple(np.asarray(classes, dtype=object).tolist())
    names = tuple(map(as_python, names))
    wrong = [name for name in names if not is_class_name(name)]
    if wrong:
        raise InputError(
            f"{option} must be texts or finite numbers, got {wrong[0]!r} (for labels that are "
            "missing, name a class by a text, such as 'none', in labels and classes)"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{option} must be different, got {list(names)}")
    if len(names) < 2:
        commas = " (with commas between)" if option.startswith("--") else ""
        raise InputError(f"{option} must be at least two{commas}, got {list(names)}")
    return names


def as_python(value: Any) -> Any:
    """Returns a NumPy scalar as Python's, and anything else as it is: grids are of such scalars."""
    return value.item() if isinstance(value, np.generic) else value


def check_bounds(bounds: tuple[float, float], option: str = "bounds") -> tuple[float, float]:
    """Returns the ends of the range of numbers."""
    try:
        low, high = (float(each) for each in bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not -np.inf < low < high < np.inf:
        raise InputError(f"{option} must be finite numbers (low, high), low < high, got {bounds!r}")
    if not LEAST < high - low < MOST or not abs(low + high) < MOST:
        raise InputError(
            f"{option} are too large or too near each other for the computer's numbers, got "
            f"{bounds!r} (release the numbers in another unit)"
        )
    return low, high


def warn(recipe: Recipe, size: int, stacklevel: int) -> None:
    """Warns where the release says nearly all of the labels, or nearly nothing.

    Args:
        recipe: of the release.
        size: how many labels it has.
        stacklevel: of `warnings.warn`, counted from the caller.
    """
    mechanism, num_classes = recipe.mechanism, len(recipe.manifest.classes)
    if not isinstance(mechanism, ClassMechanism):
        return
    change = chance_of_change(mechanism, num_classes)
    worth = informativeness(mechanism, num_classes)[1] * size
    if change < IDENTITY and np.isfinite(mechanism.eps):
        warnings.warn(
            f"eps={mechanism.eps:g} is practically no privacy: about {100 * change:.2g} % of the "
            "labels change (take a smaller eps)",
            stacklevel=stacklevel + 1,
        )
    elif size > 1 and worth < NOISE * num_classes:
        warnings.warn(
            f"the release is practically noise: {size:,} labels at eps={mechanism.eps:g} tell no "
            f"more than about {worth:,.1f} true labels (take a larger eps, or more rows)",
            stacklevel=stacklevel + 1,
        )
