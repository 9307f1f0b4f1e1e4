"""Releases your labels, once, through the vault that holds them."""

import hashlib
import hmac
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp_bench.mechanisms import ClassMechanism, Mechanism
from labeldp_bench.own_labels.known import (
    REAL,
    class_mechanism,
    class_mechanisms,
    real_mechanism,
)
from labeldp_bench.own_labels.law import chance_of_change
from labeldp_bench.own_labels.manifest import ClassName, Manifest, Unit
from labeldp_bench.own_labels.release import Release, checked_row_ids
from labeldp_bench.own_labels.strength import recommended, share_of_clean
from labeldp_bench.own_labels.units import capped
from labeldp_bench.privacy.ledger import BudgetError
from labeldp_bench.privacy.vault import LabelVault
from labeldp_bench.support.validate import InputError, check_eps

IDENTITY = 0.01
"""Chance of a change below which a release is practically the labels themselves."""
NOISE = 10
"""Clean labels for each class that a release is worth, below which it is practically noise."""


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
    of the same labels in one program is refused, as its eps would add up unseen.

    Args:
        labels: N class names, or numbers where `bounds` is given.
        classes: all names that a label may have. They must not be taken from the labels, which
            would tell which of them occur.
        eps: > 0, of each label, or of each person where `unit` is given. Infinity: no privacy.
        mechanism: a name on the command line that needs no prior; `auto` takes the one that `plan`
            recommends.
        seed: for tests only: who knows it can undo the noise.
        row_ids: N distinct ones, to find the features by; None counts from 0.
        bounds: (low, high) of numbers; those outside are clipped.
        unit: N names of persons; a person with several rows shares eps among them.
        most_rows: of one person; later rows are left out. None: all, however many there are.
        after: earlier releases of the same rows, which this one adds to.
        again: releases the same labels again although no earlier release is given.
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
    check_eps(eps)
    if (classes is None) == (bounds is None):
        raise InputError(
            "classes must be given, all names that a label may have: taking them from the labels "
            "would tell which occur (for numbers give bounds=(low, high) in their place)"
        )
    values, earlier = as_list(labels), as_releases(after)
    group, kept = (None, np.arange(len(values)))
    if unit is not None:
        group, kept = capped(unit, most_rows, len(values), unit_name)
    elif most_rows is not None:
        raise InputError("most_rows is for persons with several rows (give unit= too)")
    ids = checked_row_ids(row_ids, len(values))[kept]
    row_eps = eps / group.most_rows if group else eps
    noise = "secret" if seed is None else "seeded"
    if bounds is None:
        names = check_classes(classes)
        coded = codes(values, names)[torch.from_numpy(kept)]
        made: Mechanism = _class_mechanism(mechanism, row_eps, len(names), parameters or {})
        vault = LabelVault(coded, len(names))
        manifest = _manifest(made, eps, names, None, group, noise, source, earlier)
    else:
        low, high = check_bounds(bounds)
        scaled = scaled_numbers(values, low, high)[torch.from_numpy(kept)]
        name = "unbiased_randomizer" if mechanism == "auto" else mechanism
        if mechanism == "auto" and not 1e-5 <= row_eps <= 20:
            name = "laplace"
        made = real_mechanism(name, row_eps, parameters or {})
        vault, coded = LabelVault(scaled, 0, bound=1.0), scaled
        manifest = _manifest(made, eps, (), (low, high), group, noise, source, earlier)
    spent = _spent(ids, earlier, row_eps)
    if seed is None:
        _RELEASED.refuse_again(ids, coded, again or bool(earlier))
    outputs = vault.open(row_eps, seed).release(made).outputs
    if isinstance(made, ClassMechanism):
        _warn(made, len(manifest.classes), len(outputs))
    return Release(outputs, ids, spent, manifest)


def manifest_for_clients(
    classes: Sequence[Any], eps: float, mechanism: str = "auto",
    parameters: dict[str, Any] | None = None,
) -> Manifest:  # fmt: skip
    """Returns the manifest that clients need to release their own label; no label is there yet."""
    names = check_classes(classes)
    made = _class_mechanism(mechanism, check_eps(eps), len(names), parameters or {})
    return _manifest(made, eps, names, None, None, "secret", "")


def as_list(labels: Sequence[Any] | ArrayLike) -> list[Any]:
    """Returns the labels as Python values; arrays, pandas and polars columns are taken."""
    if isinstance(labels, str | bytes) or not np.ndim(labels) == 1:
        raise InputError("labels must be a sequence or array of N labels")
    return np.asarray(labels, dtype=object).tolist()


def as_releases(after: Release | Sequence[Release]) -> list[Release]:
    """Returns one or several releases as a list."""
    return [after] if isinstance(after, Release) else list(after)


def check_classes(classes: Sequence[Any] | None) -> tuple[ClassName, ...]:
    """Returns the class names as plain Python values, at least two and all different."""
    if classes is None or isinstance(classes, str) or np.ndim(classes) != 1:
        raise InputError(f"classes must be a list of names, got {classes!r}")
    names = tuple(np.asarray(classes, dtype=object).tolist())
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    wrong = [name for name in names if not isinstance(name, str | int | float | bool)]
    if wrong:
        raise InputError(f"classes must be texts or numbers, got {wrong[0]!r}")
    if len(set(names)) < len(names):
        raise InputError(f"classes must be different, got {list(names)}")
    if len(names) < 2:
        raise InputError(f"classes must be at least two, got {list(names)}")
    return names


def codes(values: list[Any], names: tuple[ClassName, ...]) -> Tensor:
    """Returns the position of each label among the classes, int64 (N,).

    Raises:
        InputError: a label outside the classes; says its row, not the label, which is secret.
    """
    place = {name: number for number, name in enumerate(names)}
    found = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            found[row] = place[value]
        except (KeyError, TypeError):
            listed = ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InputError(
                f"row {row}: the label is none of the classes {listed} (it is not shown, as labels "
                "are secret; add its class, or leave the row out)"
            ) from None
    return torch.from_numpy(found)


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Returns the ends of the range of numbers."""
    try:
        low, high = (float(each) for each in bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not -np.inf < low < high < np.inf:
        raise InputError(f"bounds must be two finite numbers (low, high), got {bounds!r}")
    return low, high


def scaled_numbers(values: list[Any], low: float, high: float) -> Tensor:
    """Returns numbers clipped to the bounds and moved to [-1, 1], float64 (N,)."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(f"row {row}: the label is no finite number" if len(numbers) == len(values)
                         else "labels must be numbers where bounds are given")  # fmt: skip
    scaled = (np.clip(numbers, low, high) - (low + high) / 2) / ((high - low) / 2)
    return torch.from_numpy(scaled.clip(-1, 1))


def _class_mechanism(
    name: str, eps: float, num_classes: int, parameters: dict[str, Any]
) -> ClassMechanism:
    chosen = recommended(num_classes, eps) if name == "auto" else name
    return class_mechanism(chosen, eps, parameters)


def _manifest(
    made: Mechanism, eps: float, names: tuple[ClassName, ...], bounds: tuple[float, float] | None,
    unit: Unit | None, noise: str, source: str, earlier: Sequence[Release] = (),
) -> Manifest:  # fmt: skip
    """Returns the manifest of a mechanism that was built by its name.

    A release of the same rows as an earlier one has its identity.
    """
    known: dict[str, Any] = {**class_mechanisms(), **REAL}
    name = next(name for name in ("rr", *known) if known[name] is type(made))
    parameters = {
        each.name: vars(made)[each.name]
        for each in fields(made)
        if each.init and each.name != "eps"
    }
    made_alike = Manifest(name, parameters, float(eps), names, bounds, unit, noise, source)
    return replace(made_alike, identity=earlier[0].manifest.identity) if earlier else made_alike


def _spent(ids: NDArray, earlier: Sequence[Release], eps: float) -> NDArray[np.float64]:
    """Returns what each row has spent after this release."""
    spent = np.full(len(ids), float(eps))
    for release in earlier:
        before = dict(zip(release.row_ids.tolist(), release.spent.tolist(), strict=True))
        spent += [before.get(each, 0.0) for each in ids.tolist()]
    return spent


def _warn(mechanism: ClassMechanism, num_classes: int, size: int) -> None:
    """Warns where the release says nearly all of the labels, or nearly nothing."""
    change = chance_of_change(mechanism, num_classes)
    worth = share_of_clean(mechanism, num_classes) * size
    if change < IDENTITY and np.isfinite(mechanism.eps):
        warnings.warn(
            f"eps={mechanism.eps:g} is practically no privacy: about {100 * change:.2g} % of the "
            "labels change (take a smaller eps)",
            stacklevel=3,
        )
    elif size > 1 and worth < NOISE * num_classes:
        warnings.warn(
            f"the release is practically noise: {size:,} labels at eps={mechanism.eps:g} tell as "
            f"much as about {worth:,.0f} true ones (take a larger eps, or more rows)",
            stacklevel=3,
        )


class _Released:
    """What this program has released, as keyed digests; the key is random and never leaves."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)
        self.digests: set[bytes] = set()

    def refuse_again(self, ids: NDArray, labels: Tensor, allowed: bool) -> None:
        """Remembers a release of these rows; refuses the second one unless it is allowed.

        A single label is not remembered: many clients have the same one.
        """
        if len(ids) < 2:
            return
        content = repr(ids.tolist()).encode() + labels.numpy().tobytes()
        digest = hmac.new(self.key, content, hashlib.sha256).digest()
        if digest in self.digests and not allowed:
            raise BudgetError(
                "these labels were released before, and a second release adds its eps to the first "
                "(use the release that there is; or give it as after=, so that eps_spent says both)"
            )
        self.digests.add(digest)


_RELEASED = _Released()
