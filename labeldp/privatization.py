"""Releases your labels, once, through the store that holds them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.information import information
from labeldp.io.tables import label_texts
from labeldp.ledger import Before, Ledger, Payers, digest_of_texts
from labeldp.manifest import GIVEN, ClassName, Manifest, Unit, wrong_class_names
from labeldp.mechanisms import ClassMechanism, Messages, RealMechanism
from labeldp.mechanisms.encodings import AsReleased
from labeldp.mechanisms.noise import check_noise
from labeldp.named_mechanisms import (
    CLASS_MECHANISMS,
    REAL_MECHANISMS,
    class_mechanism,
    law_of,
    real_mechanism,
)
from labeldp.names import as_python, capped, checked_persons, checked_row_ids, is_flat, without_mask
from labeldp.planning import recommended
from labeldp.release import Release
from labeldp.store import LabelStore
from labeldp.support.validate import InputError, check_eps, check_integer


def privatize(
    labels: Sequence[Any] | ArrayLike,
    classes: Sequence[Any] | None = None,
    eps: float | None = None,
    mechanism: str = "auto",
    *,
    seed: int | None = None,
    row_ids: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    persons: ArrayLike | None = None,
    most_rows: int | None = None,
    again: bool = False,
    ledger: Ledger | None = None,
    parameters: dict[str, Any] | None = None,
    source: str = "",
    persons_column: str = "persons",
) -> Release:
    """Returns one release of every label; eps-label-DP under label replacement.

    The noise is secret, drawn once, and no seed of it exists. Every release of a row is booked in
    a ledger, and all of them add up. A second one is refused unless `again` is true.

    Args:
        labels: N class names, or numbers where `bounds` is given.
        classes: all names that a label may have. They must not be taken from the labels, which
            would tell which of them occur.
        eps: > 0, of each label, or of each person where `unit` is given. Infinity: no privacy.
        mechanism: a name on the command line that needs no prior; `auto` takes the one that `plan`
            recommends.
        seed: for tests only: anyone with the seed can remove the noise. Such a draw is booked only
            where `ledger` is given.
        row_ids: N distinct ones, by which rows are known again and features are found; None counts
            from 0.
        bounds: (low, high) of numbers; those outside are clipped.
        persons: N names of persons; a person with several rows shares eps among them.
        most_rows: of one person; later rows are left out. None: all, however many there are.
        again: releases rows again that were released before; eps adds up.
        ledger: the account of what rows have spent, such as `Ledger("survey.csv.ledger")`. None:
            that of this program, in memory, where rows without ids are known by all labels
            together.
        parameters: of the mechanism, such as {"size": 3}.
        source: name of the column, for the manifest.
        persons_column: name of the persons' column, for the manifest.

    Raises:
        InputError: a label outside `classes`, with its row; no such mechanism; a wrong eps.
        BudgetError: some rows were released before.

    >>> release = privatize(["no", "yes"], classes=["no", "yes"], eps=1.0, seed=0)
    >>> len(release), release.mechanism, release.log_likelihood().shape
    (2, 'rr', (2, 2))
    """
    if eps is None:
        raise InputError("eps must be given, a number > 0 (1 is a usual choice)")
    eps = check_eps(as_python(eps))
    if classes is not None and bounds is not None:
        raise InputError("give classes, or bounds of numbers, not both")
    if classes is None and bounds is None:
        raise InputError(
            "classes must be given, all names that a label may have: taking them from the labels "
            "would tell which occur (for numbers give bounds=(low, high) in their place)"
        )
    if seed is not None:
        seed = check_integer("seed", as_python(seed), low=0)
    for key, name in (("source", source), ("persons_column", persons_column)):
        if not isinstance(name, str):
            raise InputError(f"{key} must be a text, the name of a column, got {name!r}")
    if not isinstance(parameters, dict | None):
        raise InputError(f'parameters must be a dict, such as {{"size": 3}}, got {parameters!r}')
    values = as_list(labels)
    unit, kept, who = None, np.ones(len(values), bool), None
    if persons is not None:
        who = checked_persons(persons, len(values))
        unit, kept = capped(who, as_python(most_rows), persons_column)
    elif most_rows is not None:
        raise InputError("most_rows is for persons with several rows (give persons= too)")
    ids, row_id = checked_row_ids(row_ids, len(values)), "" if row_ids is None else GIVEN
    recipe = recipe_of(
        eps, mechanism, parameters or {}, classes=classes, bounds=bounds, unit=unit,
        noise="secret" if seed is None else "seeded", source=source, row_id=row_id,
    )  # fmt: skip
    if recipe.manifest.bounds is None:
        coded = codes(values, recipe.manifest.classes)
    else:
        coded = scaled_numbers(values, *recipe.manifest.bounds)
    coded = coded[torch.from_numpy(kept)]
    if ledger is None:
        # Many clients have the same single label, and a seed is for tests.
        is_booked = seed is None and (len(values) > 1 or row_ids is not None)
        ledger = _PROGRAM if is_booked else Ledger()
    digest = digest_of_texts([label_texts(values)])
    payers = Payers(
        len(values), lambda column: digest, source,
        None if row_ids is None else ids, row_id, who, persons_column,
    )  # fmt: skip

    def manifest(before: Before) -> Manifest:
        return recipe.manifest.after(before.counted, before.identity)

    with ledger.charge(manifest, payers, again=again) as (made, before):
        messages = recipe.draw(coded, seed)
    for note in before.notes:
        warnings.warn(note, stacklevel=2)
    warn(recipe, len(coded), stacklevel=3)
    return Release(messages, ids[kept], before.eps[kept] + made.eps, made)


def manifest_for_clients(
    classes: Sequence[Any], eps: float, mechanism: str = "auto",
    parameters: dict[str, Any] | None = None,
) -> Manifest:  # fmt: skip
    """Returns the manifest that clients need to release their own label; no label is there yet.

    Raises:
        InputError: a wrong value, or an eps at which rounding leaves no noise in the law.
    """
    eps = check_eps(as_python(eps))
    recipe = recipe_of(eps, mechanism, parameters or {}, classes=classes)
    names, made = recipe.manifest.classes, recipe.manifest.class_mechanism()
    made.encoding(len(names)).draw(
        torch.zeros(1, dtype=torch.int64), torch.Generator().manual_seed(0)
    )
    law = law_of(made, len(names))
    check_noise(
        recipe.manifest.mechanism, eps, *(law[key] for key in law.keys() & {"own", "other"})
    )
    return replace(recipe.manifest, stored=AsReleased.name)  # they draw by `law`


def as_list(labels: Sequence[Any] | ArrayLike) -> list[Any]:
    """Returns the labels as Python values; arrays, pandas and polars columns are taken."""
    if isinstance(labels, str | bytes) or not is_flat(labels):
        raise InputError(
            f"labels must be a sequence or array of N labels, got {type(labels).__name__} (of a "
            "table, give one column)"
        )
    plain = without_mask(labels) if isinstance(labels, np.ma.MaskedArray) else labels
    values = np.asarray(plain, dtype=object).tolist()
    for row in np.flatnonzero(pd.Series(values, dtype=object).isna())[:1]:
        raise InputError(f"row {row}: the label is missing (leave the row out, or name a class)")
    return values


def codes(values: list[Any], names: tuple[ClassName, ...]) -> Tensor:
    """Returns the position of each label among the classes, int64 (N,).

    Raises:
        InputError: a label outside the classes; says its row, not the label, which is secret.
    """
    place = {name: number for number, name in enumerate(names)}
    found = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            found[row] = place.get(value, -1)
        except TypeError:  # a list, such as no class is
            found[row] = -1
        if found[row] < 0:  # no KeyError, which would go along with the label in it
            listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InputError(
                f"row {row}: the label is none of the classes {listed} (it is not shown, as labels "
                "are secret; add its class, or leave the row out)"
            )
    return torch.from_numpy(found)


def scaled_numbers(values: list[Any], low: float, high: float) -> Tensor:
    """Returns numbers clipped to the bounds and moved to [-1, 1], float64 (N,)."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(f"row {row}: the label is no finite number" if len(numbers) == len(values)
                         else "labels must be numbers where bounds are given")  # fmt: skip
    return torch.from_numpy(scaled(numbers, low, high))


def scaled(numbers: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Returns numbers clipped to the bounds and moved to [-1, 1]."""
    return ((np.clip(numbers, low, high) - (low + high) / 2) / ((high - low) / 2)).clip(-1, 1)


_PROGRAM = Ledger()
"""What this program has released; rows of all its tables."""


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
    names = tuple(map(as_python, np.asarray(classes, dtype=object).tolist()))
    if wrong := wrong_class_names(names):
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
    told = information(mechanism, num_classes)
    change, worth = 1 - told.kept, told.share * size
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
