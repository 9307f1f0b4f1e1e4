"""Releases your labels, once, through the store that holds them."""

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.accounted_rows import AccountedRows, ColumnDigest
from labeldp.designs import Design, check_design
from labeldp.information import information, recommended
from labeldp.ledger import Ledger
from labeldp.manifest import GIVEN_IN_PYTHON, ClassName, Manifest, Unit, check_bounds, check_classes
from labeldp.mechanisms import ClassMechanism, Messages, RealMechanism
from labeldp.mechanisms.encodings import AsReleased
from labeldp.mechanisms.noise import check_noise
from labeldp.named_mechanisms import (
    DESIGNS,
    class_mechanism,
    law_of,
    real_mechanism,
)
from labeldp.names import (
    as_list,
    as_python,
    check_columns,
    check_index,
    checked_persons,
    checked_row_ids,
    label_texts,
    places_of,
)
from labeldp.release import Release
from labeldp.store import LabelStore
from labeldp.support.validate import InputError, check_eps, check_integer


def privatize(
    labels: Sequence[Any] | ArrayLike,
    classes: Sequence[Any] | None = None,
    eps: float | None = None,
    mechanism: str = "auto",
    *,
    design: Design | None = None,
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
        eps: > 0, of each label, or of each person where `persons` is given. Infinity: no privacy.
        mechanism: a name on the command line that needs no prior; `auto` takes the one that `plan`
            recommends.
        design: of a survey, such as `labeldp.designs.warner(p=0.7)`, in place of mechanism and eps;
            it has the classes too.
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
    if design is None:
        _check_options(classes, eps, bounds, parameters)
    else:
        _check_design(design, classes, eps, mechanism, bounds, parameters)
    check_columns(source=source, persons_column=persons_column)
    if seed is not None:
        seed = check_integer("seed", as_python(seed), low=0)
    values = as_list(labels)
    for name, given in (("row_ids", row_ids), ("persons", persons)):
        ours, theirs = getattr(labels, "index", None), getattr(given, "index", None)
        if hasattr(ours, "isin") and hasattr(theirs, "isin"):  # both are of pandas
            check_index(name, theirs, ours, "labels", "labels.index")
    ids, row_id = checked_row_ids(row_ids, len(values)), "" if row_ids is None else GIVEN_IN_PYTHON
    if persons is None and most_rows is not None:
        raise InputError("most_rows is for persons with several rows (give persons= too)")
    who = None if persons is None else checked_persons(persons, len(values))
    unit, kept = Unit.of(who, persons_column, as_python(most_rows))
    about: dict[str, Any] = {
        "unit": unit, "noise": "secret" if seed is None else "seeded", "source": source,
        "row_id": row_id, "num_rows": len(values),
    }  # fmt: skip
    if design is not None:
        blank = design.manifest(**about)
    else:
        blank = new_manifest(
            as_python(eps), mechanism, parameters, classes=classes, bounds=bounds, **about
        )
    coded = coded_labels(values, blank)[kept]
    if ledger is None:
        # Many clients have the same single label, and a seed is for tests.
        is_booked = seed is None and (len(values) > 1 or row_ids is not None)
        ledger = _PROGRAM if is_booked else Ledger()
    digest = ColumnDigest().add(label_texts(values))
    rows = AccountedRows(
        len(values), lambda column: digest, source, None if row_ids is None else ids, row_id,
        who, persons_column if unit else "",
    )  # fmt: skip

    with ledger.charge(blank, rows, again=again) as (made, before):
        messages = draw(made, coded, seed)
    warn(made, len(coded), before.notes, stacklevel=2)
    return Release(messages, ids[kept], before.eps[kept] + made.eps, made)


def _check_options(classes: object, eps: object, bounds: object, parameters: object) -> None:
    """Refuses what is missing, given twice, or of another kind."""
    if eps is None:
        raise InputError("eps must be given, a number > 0 (1 is a usual choice)")
    if classes is not None and bounds is not None:
        raise InputError("give classes, or bounds of numbers, not both")
    if classes is None and bounds is None:
        raise InputError(
            "classes must be given, all names that a label may have: taking them from the labels "
            "would tell which occur (for numbers give bounds=(low, high) in their place)"
        )
    if not isinstance(parameters, dict | None):
        raise InputError(f'parameters must be a dict, such as {{"size": 3}}, got {parameters!r}')


def _check_design(
    design: object, classes: Any, eps: object, mechanism: object, bounds: object,
    parameters: object,
) -> None:  # fmt: skip
    """Refuses what is no design, and what a design says already."""
    own = check_design(design)
    others = {"eps": eps, "bounds": bounds, "parameters": parameters}
    given = [name for name, value in others.items() if value is not None]
    given += ["mechanism"] if mechanism != "auto" else []
    if given:
        raise InputError(
            f"give design, or {' and '.join(given)}, not both (this design costs eps={own.eps:g})"
        )
    if classes is not None and own.classes and check_classes(classes) != own.classes:
        raise InputError(
            f"classes must be those of the design, {list(own.classes)}, got {list(classes)} "
            "(leave them out)"
        )


def manifest_for_clients(
    classes: Sequence[Any], eps: float, mechanism: str = "auto",
    parameters: dict[str, Any] | None = None,
) -> Manifest:  # fmt: skip
    """Returns the manifest that clients need to release their own label; no label is there yet.

    Raises:
        InputError: a wrong value, or an eps at which rounding leaves no noise.
    """
    manifest = new_manifest(as_python(eps), mechanism, parameters, classes=classes)
    made, count = manifest.class_mechanism, len(manifest.classes)
    made.encoding(count).draw(torch.zeros(1, dtype=torch.int64), torch.Generator().manual_seed(0))
    law = law_of(made, count)
    check_noise(manifest.name, made.eps, *(law[key] for key in law.keys() & {"own", "other"}))
    return replace(manifest, stored=AsReleased.name)  # they draw by `law`


def coded_labels(values: list[Any], manifest: Manifest) -> Tensor:
    """Returns labels as `draw` takes them: positions of classes, or numbers in [-1, 1]."""
    if manifest.bounds is None:
        return torch.from_numpy(places_of(values, manifest.classes))
    numbers = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # whose words hold the label
        numbers = np.array(values, dtype=np.float64)
    if numbers is None:
        raise InputError("labels must be numbers where bounds are given")
    for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
        raise InputError(f"row {row}: the label is no finite number")
    return torch.from_numpy(scaled(numbers, *manifest.bounds))


def scaled(numbers: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Returns numbers clipped to the bounds and moved to [-1, 1]."""
    return ((np.clip(numbers, low, high) - (low + high) / 2) / ((high - low) / 2)).clip(-1, 1)


_PROGRAM = Ledger()
"""What this program has released; rows of all its tables."""


LEAST_CHANGED = 0.01
"""Smallest chance that a label changes; below it, a release is practically the labels."""
LEAST_CLEAN_LABELS = 10
"""Smallest worth of a release, in true labels for each class; below it, it is practically noise."""


def new_manifest(
    eps: float, mechanism: str, parameters: dict[str, Any] | None = None, *,
    classes: Sequence[Any] | None = None, bounds: tuple[float, float] | None = None,
    unit: Unit | None = None, noise: str = "secret", source: str = "", row_id: str | None = None,
    num_rows: int | None = None,
) -> Manifest:  # fmt: skip
    """Returns the manifest of a release of classes, or of numbers where bounds are given.

    Arguments as `privatize`; `row_id` and `num_rows` are as in the manifest.
    """
    eps = check_eps(eps)
    row_eps = eps / unit.most_rows if unit else eps
    if unit:
        check_eps(row_eps, f"eps={eps:g} shared among {unit.most_rows} rows of a {unit.column}")
    ends: tuple[float, float] | None = None
    names: tuple[ClassName, ...] = ()
    made: ClassMechanism | RealMechanism
    if bounds is None:
        names = check_classes(classes)
        if mechanism in DESIGNS:
            raise InputError(
                f"mechanism={mechanism} is a design, which has an eps of its own (in Python give "
                f"design=labeldp.designs.{mechanism}(...) in place of mechanism and eps)"
            )
        if mechanism == "auto":
            mechanism = recommended(len(names), row_eps)
        made = class_mechanism(mechanism, row_eps, parameters or {})
        stored = made.encoding(len(names)).name
    else:
        ends, stored = check_bounds(bounds), "outputs"
        if mechanism == "auto":
            mechanism = "unbiased_randomizer" if row_eps <= 20 else "laplace"
        made = real_mechanism(mechanism, row_eps, parameters or {})
    name = "rr" if mechanism == "lp_1st" else mechanism  # two names of one mechanism
    manifest = Manifest(
        name, made, eps, names, ends, unit, noise, source, stored,
        row_id=row_id, num_rows=num_rows,
    )  # fmt: skip
    return manifest.checked()  # before anything is drawn


def draw(manifest: Manifest, labels: Tensor, seed: int | None, part: str = "") -> Tensor:
    """Returns one release of each label, as the manifest says it is stored.

    Args:
        manifest: of the release.
        labels: int64 classes (N,), or float64 numbers in [-1, 1] where there are bounds.
        seed: for tests; None: secret randomness, new for each call.
        part: names these labels among those that are released under one seed.
    """
    closed = LabelStore(labels, len(manifest.classes), 1.0 if manifest.bounds else None)
    store = closed.open(manifest.row_eps, seed, part)
    if manifest.bounds is not None:
        return store.release(manifest.mechanism).outputs
    return store.release(Messages(manifest.class_mechanism))


def warn(manifest: Manifest, size: int, notes: Sequence[str], stacklevel: int) -> None:
    """Warns of notes, and of a release of `size` labels that says nearly all, or nearly nothing.

    `stacklevel` is that of `warnings.warn`, counted from the caller.
    """
    for note in notes:
        warnings.warn(note, stacklevel=stacklevel + 1)
    num_classes, eps = len(manifest.classes), manifest.row_eps
    if not num_classes:
        return
    known = information(manifest.class_mechanism, num_classes)
    change, worth = 1 - known.kept, known.share * size
    if change < LEAST_CHANGED and np.isfinite(eps):
        warnings.warn(
            f"eps={eps:g} is practically no privacy: about {100 * change:.2g} % of the "
            "labels change (take a smaller eps)",
            stacklevel=stacklevel + 1,
        )
    elif size > 1 and worth < LEAST_CLEAN_LABELS * num_classes:
        warnings.warn(
            f"the release is practically noise: {size:,} labels at eps={eps:g} tell no "
            f"more than about {worth:,.1f} true labels (take a larger eps, or more rows)",
            stacklevel=stacklevel + 1,
        )
