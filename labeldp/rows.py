"""Rows of features: as numbers, in the order of a release, and which of them a fit has seen."""

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.designs import check_design
from labeldp.io.tables import LARGEST_NUMBER
from labeldp.manifest import ClassName
from labeldp.names import as_list, check_index
from labeldp.privatization import privatize
from labeldp.release import Release
from labeldp.support.validate import InputError


def as_numbers(model: Any, X: Any, **settings: Any) -> NDArray[np.float64]:
    """Returns features as numbers, float64, checked as scikit-learn does for `model`.

    Raises:
        InputError: they hold texts or gaps, and scikit-learn's own message says neither where nor
            what to do; or numbers beyond LARGEST_NUMBER, of which nothing would be learnt without a
            word.
        ValueError: as `validate_data`, which takes the `settings`.
    """
    from sklearn.utils.validation import validate_data  # metrics need none of it, nor its import

    try:
        numbers = validate_data(model, X, dtype=np.float64, **settings)
    except ValueError as error:
        if "contains NaN" in str(error):
            raise InputError(
                "X must hold numbers, and contains NaN for missing ones (fill them, as by "
                "scikit-learn's SimpleImputer(add_indicator=True); for classes, "
                "labeldp.models.model_for(X) fills those of a data frame as `labeldp fit` does)"
            ) from None
        value = str(error).partition("could not convert string to float: ")[2]
        if not value:
            raise
        text = value.removeprefix("np.str_(").removesuffix(")")
        raise InputError(
            f"X must hold numbers, and holds texts, such as {text[:40]} (encode them, for example "
            "by scikit-learn's OneHotEncoder(sparse_output=False); for classes, "
            "labeldp.models.model_for(X) encodes those of a data frame as `labeldp fit` does)"
        ) from None
    except TypeError as error:
        if "NAType" not in str(error):
            raise
        table = pd.DataFrame(X)
        row, place = np.argwhere(table.isna().to_numpy())[0]
        raise InputError(
            f"X must hold numbers, and holds pd.NA in row {row}, column {table.columns[place]} "
            "(fill it with a number, or leave the row out, here and of the release)"
        ) from None
    if (most := max(numbers.max(), -numbers.min())) > LARGEST_NUMBER:
        raise InputError(
            f"X must hold numbers of at most {LARGEST_NUMBER:g} in size, and holds one of {most:g} "
            "(give that column another unit)"
        )
    return numbers


def keys_of(release: Release) -> NDArray[np.uint64]:
    """Returns a number for each row, which names it among all releases, uint64 (N,).

    Of a stack one for each release: the rows of the first one, then those of the next.
    """
    texts = release.row_ids.astype(str).astype(object)
    return np.concatenate(
        [
            pd.util.hash_array(texts, hash_key=name[:16], categorize=False)
            for name in release.manifest.identity.split(" ")
        ]
    )


def refuse_fitted_rows(model: Any, release: Release) -> None:
    """Refuses a release of rows that the model, or any model inside it, was fitted to.

    Raises:
        InputError: how many they are.
    """
    held = (getattr(each, "__dict__", {}) for each in objects_in(model))
    seen = [each["fitted_rows_"] for each in held if "fitted_rows_" in each]
    if not seen:  # a model of another library: its user knows what it was fitted to
        return
    is_seen = np.isin(keys_of(release), np.concatenate(seen))
    shared = int(is_seen.reshape(-1, max(1, len(release))).any(0).sum())
    if shared:
        raise InputError(
            f"{shared:,} of {len(release):,} rows were used in the fit, which says nothing of new "
            "ones (hold rows out: fit on release[:n], estimate on release[n:]; or use "
            "cross_val_score with scoring=released_accuracy)"
        )


def objects_in(root: object) -> Iterator[object]:
    """Yields an object and all that it holds, in attributes, lists and dicts, each once."""
    seen, left = set[int](), [root]
    kept = []  # so that no other object gets the id of one that is gone
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kept.append(each)
        yield each
        if isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            left += each
        elif isinstance(each, np.ndarray):
            left += each.ravel().tolist() if each.dtype == object else []
        elif not isinstance(each, type | ModuleType | Tensor):
            left += getattr(each, "__dict__", {}).values()
            left.append(getattr(each, "__self__", None))  # of a method
            left += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]


def as_release(
    given: Any, design: object, X: Any = None, *, of_numbers: bool = False,
    known: Iterable[ClassName] = (),
) -> Any:  # fmt: skip
    """Returns what was given, or the release that an array of labels is by its design.

    Args:
        given: N labels; anything if there is no design.
        design: of `labeldp.designs`, by which others randomised the labels; None: there is none.
        X: features of the same rows; its index names them, or that of the labels.
        of_numbers: whether labels are numbers, not classes.
        known: classes that `identity()` has besides those that occur.

    Raises:
        InputError: a release with a design, or labels that the design does not know.
    """
    if design is None:
        return given
    own = check_design(design)
    if given is None:
        raise InputError("design= requires y to be passed, but the target y is None")
    if isinstance(given, Release):
        raise InputError("design= is for an array, got a release, which has its own (leave it out)")
    if getattr(given, "ndim", 1) == 2:
        from sklearn.utils.validation import column_or_1d

        given = column_or_1d(given, warn=True)
    values = as_list(given)
    if complex in set(map(type, values)):
        raise InputError("Complex data not supported as labels (give names, or real numbers)")
    tables = [each for each in (given, X) if isinstance(each, pd.DataFrame | pd.Series)]
    indexes = [each.index.to_flat_index() for each in tables if len(each) == len(values)]
    if len(indexes) == 2:
        check_index("y", indexes[0], indexes[1], "X", "X.index")
    ids = indexes[-1].astype(str) if indexes and not indexes[-1].hasnans else pd.Index([0, 0])
    names = ids.tolist() if ids.is_unique else None
    if of_numbers:
        if own.classes or own.name != "identity":
            raise InputError(f"numbers take design=labeldp.designs.identity(), got {own.name}")
        sizes = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").astype(float).abs()
        most = float(sizes[sizes < np.inf].max())
        end = most if most > 0 else 1.0  # around 0, numbers come back to the last bit but one
        release = privatize(values, bounds=(-end, end), eps=math.inf, seed=0, row_ids=names)
        rows = hashlib.sha256(repr((values, names)).encode()).hexdigest()[:32]
        return replace(release, manifest=replace(release.manifest, identity=rows))
    if not own.classes and any(type(value) is float and value % 1 for value in values):
        raise InputError(
            "identity() takes each number for a class, and these are continuous (use "
            "LabelDPRegressor, or give identity(classes))"
        )
    return Release.from_answers(values, own.of([*values, *known]), row_ids=names)


def check_release(
    asked: str, release: Any, X: Any, *, of_numbers: bool = False, design: object = None,
    known: Iterable[ClassName] = (), **given: Any,
) -> Release:  # fmt: skip
    """Returns a release; refuses any but one of this kind whose rows are those of X in their order.

    Args:
        asked: the method that was given it, for the message.
        release: what it was given.
        X: features.
        of_numbers: whether it must be a release of numbers, not of classes.
        design: as of `as_release`.
        known: likewise.
        given: other arguments with something for each row, by name.

    Raises:
        InputError: what is wrong.
    """
    release = as_release(release, design, X, of_numbers=of_numbers, known=known)
    if not isinstance(release, Release):
        raise InputError(
            f"{asked} takes a release as its second argument, got {type(release).__name__}: true "
            "labels are not for training (make a release by labeldp.privatize; labels that were "
            "randomised elsewhere become one by Release.from_answers, and models with design= fit "
            "and score them)"
        )
    if bool(release.classes) == of_numbers:
        other = (
            "classes (use LabelDPClassifier)" if of_numbers else "numbers (use LabelDPRegressor)"
        )
        raise InputError(f"this is a release of {other}")
    if not len(release):
        raise InputError("the release has no rows")
    check_order(release, X=X, **given)
    return release


def checked_weights(sample_weight: ArrayLike | None, size: int) -> NDArray[np.float64] | None:
    """Returns weights of rows with mean 1, float64 (N,), such as a survey's; None: all alike.

    Raises:
        InputError: not a number >= 0 for each row, or all are 0.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty((0, 0))
    if weights.shape != (size,):
        raise InputError(f"sample_weight must be {size} numbers, one for each row")
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[:1]:
        raise InputError(
            f"sample_weight must be finite and >= 0, got {weights[row]:g} in row {row} (leave the "
            "row out, or give it 0)"
        )
    if not weights.any():
        raise InputError("sample_weight must be > 0 for some row, got zero for all")
    return weights / weights.mean()


def said_of(model: Any, X: Any, release: Release, method: str = "predict_proba") -> Any:
    """Returns what a model says of the rows of a release, which it was not fitted to.

    Raises:
        InputError: rows of the fit, no features or in another order, or other classes.
    """
    refuse_fitted_rows(model, release)
    if X is None:
        raise InputError("a model needs the features too (give X=)")
    check_order(release, X=X)
    if method == "predict_proba" and np.asarray(model.classes_).tolist() != release.classes:
        raise InputError("the model has other classes, or another order, than the release")
    return getattr(model, method)(X)


def check_size(num_rows: int, release: Release) -> None:
    """Refuses features of another number of rows than the release has."""
    if len(release) != num_rows:
        raise InputError(f"{num_rows} rows of features, but {len(release)} releases")


def check_order(release: Release, **given: Any) -> None:
    """Refuses a pandas object whose index names other rows than the release, or in another order.

    Args:
        release: of N rows.
        given: arguments by name; what has no index, or another length, says nothing here.

    Raises:
        InputError: the first row that differs.
    """
    for name, each in given.items():
        if isinstance(each, pd.DataFrame | pd.Series) and len(each) == len(release):
            ids = pd.Index(release.row_ids)
            check_index(name, each.index, ids, "the release", "release.row_ids")
