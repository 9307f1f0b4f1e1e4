"""Releases your labels, once, through the store that holds them."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.manifest import GIVEN, ClassName, Manifest, Unit
from labeldp.mechanisms.encodings import AsReleased
from labeldp.mechanisms.noise import check_noise
from labeldp.named_mechanisms import law_of
from labeldp.recipe import as_python, is_flat, recipe_of, warn
from labeldp.release import Release, checked_row_ids
from labeldp.remembered import Remembered
from labeldp.spending import (
    UNSEEN,
    UNSURE,
    Earlier,
    Spending,
    have_same_names,
    moved_places,
    share_rows,
)
from labeldp.support.validate import InputError, check_eps, check_integer
from labeldp.units import capped


def privatize(
    labels: Sequence[Any] | ArrayLike,
    classes: Sequence[Any] | None = None,
    eps: float | None = None,
    mechanism: str = "auto",
    *,
    seed: int | None = None,
    row_ids: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    unit: ArrayLike | None = None,
    most_rows: int | None = None,
    after: Release | Sequence[Release] = (),
    again: bool = False,
    parameters: dict[str, Any] | None = None,
    source: str = "",
    unit_name: str = "unit",
) -> Release:
    """Returns one release of every label; eps-label-DP under label replacement.

    The noise is secret, drawn once, and belongs to nobody: no seed of it exists. A second release
    of the same labels in one program is refused, as its eps would add up unseen. A part of them is
    not known again: give the earlier release as `after`.

    Args:
        labels: N class names, or numbers where `bounds` is given.
        classes: all names that a label may have. They must not be taken from the labels, which
            would tell which of them occur.
        eps: > 0, of each label, or of each person where `unit` is given. Infinity: no privacy.
        mechanism: a name on the command line that needs no prior; `auto` takes the one that `plan`
            recommends.
        seed: for tests only: who knows it can undo the noise. Such a draw is neither remembered
            nor counted.
        row_ids: N distinct ones, to find the features by; None counts from 0. The same labels under
            other ids are other rows.
        bounds: (low, high) of numbers; those outside are clipped.
        unit: N names of persons; a person with several rows shares eps among them.
        most_rows: of one person; later rows are left out. None: all, however many there are.
        after: earlier releases of the same rows, which this one adds to.
        again: releases the same labels again although no earlier release is given. What this
            program has released of them counts all the same.
        parameters: of the mechanism, such as {"size": 3}.
        source: name of the column, for the manifest.
        unit_name: name of the persons' column, for the manifest.

    Raises:
        InputError: a label outside `classes`, with its row; no such mechanism; a wrong eps.
        BudgetError: the labels were released before.

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
    for key, name in (("source", source), ("unit_name", unit_name)):
        if not isinstance(name, str):
            raise InputError(f"{key} must be a text, the name of a column, got {name!r}")
    if not isinstance(parameters, dict | None):
        raise InputError(f'parameters must be a dict, such as {{"size": 3}}, got {parameters!r}')
    values, earlier = as_list(labels), as_releases(after)
    group, kept, persons = None, np.arange(len(values)), None
    if unit is not None:
        group, kept, persons = capped(unit, as_python(most_rows), len(values), unit_name)
    elif most_rows is not None:
        raise InputError("most_rows is for persons with several rows (give unit= too)")
    ids, row_id = checked_row_ids(row_ids, len(values)), "" if row_ids is None else GIVEN
    known = [] if seed is not None else _RELEASED.digests_of(ids, values)
    remembered = _RELEASED.earlier(known, row_id) if again or earlier else []
    before = _before(earlier, remembered, ids, row_id, group, persons)
    ids = ids[kept]
    recipe = recipe_of(
        eps, mechanism, parameters or {}, classes=classes, bounds=bounds, unit=group,
        noise="secret" if seed is None else "seeded", source=source,
        identity=earlier[0].manifest.identity if earlier else None, counted=before.counted,
        row_id=row_id,
    )  # fmt: skip
    manifest = recipe.manifest
    if manifest.bounds is None:
        coded = codes(values, manifest.classes)[torch.from_numpy(kept)]
    else:
        coded = scaled_numbers(values, *manifest.bounds)[torch.from_numpy(kept)]
    spent = before.eps[kept] + manifest.eps
    counted = remembered if again or earlier else None
    with _RELEASED.once(known, Earlier(ids, spent, manifest), counted):
        messages = recipe.draw(coded, seed)
    warn(recipe, len(ids), stacklevel=3)
    return Release(messages, ids, spent, manifest)


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
    return np.asarray(labels, dtype=object).tolist()


def as_releases(after: Release | Sequence[Release]) -> list[Release]:
    """Returns one or several releases as a list."""
    if isinstance(after, Release):
        return [after]
    is_list = isinstance(after, list | tuple)
    for each in after if is_list else [after]:
        if not isinstance(each, Release):
            raise InputError(
                f"after must be an earlier release, or a list of them, got {each!r} (what "
                "privatize or load_release returned)"
            )
    return list(after)


def _before(
    releases: list[Release], remembered: list[Earlier], row_ids: NDArray, row_id: str,
    unit: Unit | None, persons: NDArray[np.int64] | None,
) -> Spending:  # fmt: skip
    """Returns what the rows have spent on earlier releases, given or remembered.

    Raises:
        InputError: one of them has none of these rows, or counts for other persons.
    """
    earlier = [Earlier(each.row_ids, each.spent, each.manifest) for each in releases]
    for each in earlier:
        theirs = each.manifest.unit
        if have_same_names(each.manifest.row_id, row_id) is False or not share_rows(each, row_ids):
            some = ", ".join(map(repr, each.row_ids[:2].tolist()))
            raise InputError(
                f"after= holds a release that has none of these rows: its row ids are {some}, ... "
                "(give the row_ids= that it was made with, or leave it out)"
            )
        _check_unit("after= holds a release that counts", theirs, unit)
    for each in remembered:
        if not share_rows(each, row_ids):
            raise InputError(
                "these labels were released before, and their rows had other names (give the "
                "row_ids= of that release, or none if it had none)"
            )
        what = "these labels were released before, and that release counts"
        _check_unit(what, each.manifest.unit, unit)
    found = Spending([*earlier, *remembered], row_ids, persons)
    if row_id == "" and (said := moved_places([*earlier, *remembered], len(row_ids), "row_ids=")):
        warnings.warn(said, stacklevel=3)
    for is_so, words in ((found.unsure, UNSURE), (found.unseen, UNSEEN)):
        if is_so:
            warnings.warn(words.format("after="), stacklevel=3)
    return found


def _check_unit(what: str, theirs: Unit | None, unit: Unit | None) -> None:
    if theirs and (unit is None or unit.column != theirs.column):
        raise InputError(
            f"{what} what each {theirs.column} has spent, not each row (give unit= and "
            f"unit_name={theirs.column!r} too)"
        )


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
    scaled = (np.clip(numbers, low, high) - (low + high) / 2) / ((high - low) / 2)
    return torch.from_numpy(scaled.clip(-1, 1))


_RELEASED = Remembered()
