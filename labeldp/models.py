"""The model of the command line, and its file."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import skops.io
from numpy.typing import ArrayLike
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.pipeline import Pipeline
from skops.io.exceptions import UntrustedTypesFoundException

from labeldp import metrics
from labeldp.classifier import LabelDPClassifier
from labeldp.cross_validation import cross_val_predict
from labeldp.estimates import Estimate
from labeldp.io.columns import numeric_columns, to_features
from labeldp.release import Release
from labeldp.rows import objects_in
from labeldp.support.files import replacing
from labeldp.support.validate import InputError, check_choice

TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
"""The only type of boosted trees that skops does not trust by itself, for that reason."""


def check_trees(model: object, file: str) -> None:
    """Refuses trees whose indices lead out of their arrays or in a circle, wherever they are.

    scikit-learn follows them without looking.

    Args:
        model: as it was read.
        file: its name, for the message.

    Raises:
        InputError: a tree that no fit can have made.
    """
    for each in objects_in(model):
        if isinstance(each, BaseHistGradientBoosting):
            width = vars(each).get("n_features_in_")
            trees = [tree for stage in vars(each).get("_predictors", []) for tree in stage]
            if not isinstance(width, int) or not all(_sound(tree, width) for tree in trees):
                raise InputError(f"{file} is damaged: a tree leads out of its table of nodes")


def _sound(tree: object, width: int) -> bool:
    """Returns whether every path of a tree ends in a leaf, and asks only for columns that exist."""
    if not isinstance(tree, TreePredictor):
        return False
    nodes = tree.nodes
    if not isinstance(nodes, np.ndarray) or nodes.dtype != PREDICTOR_RECORD_DTYPE or not len(nodes):
        return False
    place = np.arange(len(nodes))
    inner = nodes["is_leaf"] == 0
    # scikit-learn numbers a child after its parent, so that no path comes back.
    children = np.stack([nodes["left"], nodes["right"]]).astype(np.int64)
    ahead = ((children > place) & (children < len(nodes))).all(0)
    column = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < width)
    number = nodes["is_categorical"] == 0  # columns come as numbers, see `columns.to_features`
    return bool((ahead & column & number)[inner].all())


MOST_CATEGORIES = 50
"""Of one column; rarer ones share an indicator."""
TRUSTED = [
    "numpy.dtype",
    "labeldp.classifier.LabelDPClassifier",
    "labeldp.linear.LinearModel",
    "labeldp.trees.Bins",
    "labeldp.trees.BoostedClassifier",
    "labeldp.trees.Stage",
    TREE,
]
"""Types that a model file may hold, beside those of scikit-learn and NumPy that skops trusts."""
LINEAR, TREES = "linear", "boosted_trees"
MODELS = (LINEAR, TREES)
"""Names on the command line, as in Python."""


def model_for(table: pd.DataFrame, name: str = LINEAR) -> Pipeline:
    """Returns the unfitted model: from columns to features, from features to classes.

    Args:
        table: of features, as `TableFile.features` returns them.
        name: `linear` or `boosted_trees`, by the marginal likelihood of the release.

    Raises:
        InputError: another name.
    """
    check_choice("--model", name, MODELS)
    numeric = numeric_columns(table)
    others = [column for column in table.columns if column not in numeric]
    columns = to_features(numeric, others, MOST_CATEGORIES)
    classifier = LabelDPClassifier(name)
    return Pipeline([("columns", columns), ("classifier", classifier)])


def columns_of(model: Pipeline) -> list[str]:
    """Returns the columns that a fitted model was given."""
    return model["columns"].feature_names_in_.tolist()


def numbers_of(model: Pipeline) -> list[str]:
    """Returns those of them that hold numbers."""
    return next(own for name, _, own in model["columns"].transformers if name == "numbers")


class UnknownCategories(NamedTuple):
    """Cells of a column whose category no row of the fit had; as which one they count."""

    cells: pd.Series
    counts_as: str


def unknown_categories(model: Pipeline, table: pd.DataFrame) -> dict[str, UnknownCategories]:
    """Returns what no row of the fit had, for each column that has such cells.

    Args:
        model: fitted.
        table: of features.
    """
    encoder = model["columns"].named_transformers_["categories"]
    if not hasattr(encoder, "categories_"):  # there is no column of categories
        return {}
    counted = table.reset_index(drop=True)  # a Parquet file may bring an index of its own
    found = {}
    for place, name in enumerate(encoder.feature_names_in_):
        known, rare = encoder.categories_[place], encoder.infrequent_categories_[place]
        cells = counted.loc[~counted[name].isin(known), name]
        # Of two categories one indicator tells: it is 0 for the first, and for what is unknown.
        alike = repr(known[0]) if len(known) == 2 else "none of the known ones"
        if len(cells):
            found[name] = UnknownCategories(cells, alike if rare is None else "a rare one")
    return found


UNKNOWN = re.compile(r"Found unknown categories in columns \[([0-9, ]+)\]")
"""How scikit-learn says that a column has categories that the fit had not; counted among texts."""


class HeldOut(NamedTuple):
    """What models do on rows that were held out in turn.

    Attributes:
        accuracy: of the models.
        gain: by which it exceeds that of always saying the most frequent class of a fit's rows.
        unknown: names of columns with categories that no row of a fit had.
    """

    accuracy: Estimate
    gain: Estimate
    unknown: list[str]


def cross_validated(
    model: Any, table: pd.DataFrame, release: Release, persons: ArrayLike | None = None
) -> HeldOut:
    """Returns how good models are on rows that were held out in turn, from releases alone.

    They are fitted to four fifths of the rows. Intervals are widened for the rows that these have
    in common: they would hold too seldom otherwise (docs/evaluating.md). With persons, (N,), the
    rows of each are held out together: a model that has seen a person knows more of that person's
    other rows.

    Raises:
        InputError: as `cross_val_predict`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cross_val_predict(model, table, release, persons=persons)
    unknown = set[str]()
    for each in caught:
        if found := UNKNOWN.match(str(each.message)):  # scikit-learn's, once for each fifth
            texts = [name for name in table if name not in numeric_columns(table)]
            unknown |= {texts[int(place)] for place in found[1].split(",")}
        else:
            warnings.warn(each.message, each.category, stacklevel=2)
    # Chosen on the rows that it is tried on, the most frequent class would look too frequent.
    nothing, blank = LabelDPClassifier(penalty=1.0), np.zeros((len(release), 1))
    always = cross_val_predict(nothing, blank, release, persons=persons)
    gain = metrics.difference(metrics.accuracy, release, scores, always, persons=persons)
    return HeldOut(
        _widened(metrics.accuracy(release, scores, persons=persons), 0, 1),
        _widened(gain, -1, 1),
        [name for name in table if name in unknown],
    )


OVERLAP = 1.5
"""By which intervals are widened: sqrt(1 + J n2 / n1), n1 rows of J = 5 fits and n2 held out."""


def _widened(found: Estimate, least: float, most: float) -> Estimate:
    """Returns an interval that allows for models that learn from each other's rows.

    Their errors do not average out as those of rows do. Source: Nadeau and Bengio (2003),
    Inference for the generalization error, eq. 9, which is a rule of thumb for J parts.

    Args:
        found: of `cross_val_predict` with five parts.
        least: the smallest possible value.
        most: the largest possible value.
    """
    if found.reason:
        return found
    low, high = (found.value + OVERLAP * (end - found.value) for end in (found.low, found.high))
    return replace(found, low=max(least, low), high=min(most, high))


def save_model(model: Pipeline, path: Path) -> None:
    """Writes a file that is read back without executing code (skops)."""
    with replacing(path) as partial:
        skops.io.dump(model, partial)


def load_model(path: Path) -> Pipeline:
    """Returns the model that `save_model` wrote.

    Raises:
        InputError: no such file, no model, or one with types that are not trusted.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        model = skops.io.load(path, trusted=TRUSTED)
    except UntrustedTypesFoundException as error:
        raise InputError(
            f"{path} is not trusted: {' '.join(str(error).split())} (if an older `labeldp fit` "
            "wrote it: fit it again)"
        ) from None
    except InputError as error:  # of `LabelDPClassifier`
        raise InputError(f"{path}: {error}") from None
    except Exception:  # a torn or foreign file may raise anything
        raise InputError(f"{path} holds no model (write one by `labeldp fit`)") from None
    if not isinstance(model, Pipeline) or not isinstance(model[-1], LabelDPClassifier):
        raise InputError(f"{path} holds another model (write one by `labeldp fit`)")
    check_trees(model, str(path))
    return model
