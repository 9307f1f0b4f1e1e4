"""The model of the command line, and its file."""

import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from labeldp import metrics
from labeldp.classifier import LabelDPClassifier, class_array
from labeldp.cross_validation import cross_val_predict
from labeldp.estimates import Estimate, unbiased_labels
from labeldp.io.columns import numeric_columns, to_features
from labeldp.linear import LinearModel
from labeldp.manifest import ClassName, check_classes
from labeldp.release import Release
from labeldp.support.files import replacing
from labeldp.support.validate import InputError, check_choice
from labeldp.trees import Bins, BoostedClassifier, Stage, TreeSettings, regressor

MOST_CATEGORIES = 50
"""Of one column; rarer ones share an indicator."""
LINEAR, TREES = "linear", "boosted_trees"
MODELS = (LINEAR, TREES)
"""Names on the command line, as in Python."""


def model_for(table: pd.DataFrame, name: str = LINEAR) -> Pipeline:
    """Returns the unfitted model: from columns to features, from features to classes.

    Of the command, and of Python where a data frame has texts or gaps.

    Args:
        table: of features: columns of numbers, NaN where one is missing, and of texts.
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
    """Returns what no row of the fit had, for each column of features that has such cells."""
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
        usual: the most frequent class.
        accuracy_of_usual: of always saying that class, on the same rows.
        gain: accuracy less accuracy_of_usual.
        unknown: names of columns with categories that no row of a fit had.
    """

    accuracy: Estimate
    usual: ClassName
    accuracy_of_usual: Estimate
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
    # Chosen on the rows that it is tried on, the class looks more frequent than it is, which makes
    # the gain too small rather than too large.
    usual = int(unbiased_labels(release).mean(0).argmax())
    always = np.zeros(scores.shape)
    always[:, usual] = 1
    accuracy, of_usual = (
        metrics.accuracy(release, each, persons=persons) for each in (scores, always)
    )
    gain = metrics.difference(metrics.accuracy, release, scores, always, persons=persons)
    value = accuracy.value - of_usual.value  # which noise may take out of [0, 1]
    gain = replace(gain, value=value, low=min(gain.low, value), high=max(gain.high, value))
    return HeldOut(
        _widened(accuracy, 0, 1),
        release.classes[usual],
        of_usual,
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
    import skops.io  # its import takes two seconds

    with replacing(path) as partial:
        skops.io.dump(model, partial)


WRITTEN = {
    "DictNode": {"builtins.dict"},
    "DTypeNode": {"numpy.dtype"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "LossNode": {"sklearn._loss._loss.CyHalfSquaredError"},
    "NdArrayNode": {"numpy.float64", "numpy.int64", "numpy.ndarray", "numpy.uint64"},
    "ObjectNode": {
        "labeldp.classifier.LabelDPClassifier",
        "labeldp.linear.LinearModel",
        "labeldp.trees.Bins",
        "labeldp.trees.BoostedClassifier",
        "labeldp.trees.Stage",
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn.compose._column_transformer.ColumnTransformer",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.impute._base.MissingIndicator",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder",
    },
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "SliceNode": {"builtins.slice"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {"builtins.str", "numpy.float32"},
}
"""All types that a model file of `labeldp fit` holds, by how skops makes them."""


def load_model(path: Path) -> Pipeline:
    """Returns the model that `save_model` wrote.

    Raises:
        InputError: no such file, no model, or one that `labeldp fit` cannot have written.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    import skops.io

    try:
        _check_types(path)
        model = skops.io.load(path, trusted=sorted(set().union(*WRITTEN.values())))
        for damage in _damages(model):
            raise InputError(f"it is damaged: {damage} (fit again)")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception:  # a torn or foreign file may raise anything
        raise InputError(f"{path} holds no model (write one by `labeldp fit`)") from None
    return model


def _check_types(path: Path) -> None:
    """Refuses a file with anything that `save_model` never writes, before skops makes any of it."""
    with zipfile.ZipFile(path) as file:
        if sum(entry.file_size for entry in file.infolist()) > path.stat().st_size:
            raise InputError("it is compressed, as `labeldp fit` never writes it (fit again)")
        left = [json.loads(file.read("schema.json"))]
    arrays: dict[str, int] = {}
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.values()
            if "__loader__" in each:
                name = f"{each['__module__']}.{each['__class__']}"
                if name not in WRITTEN.get(each["__loader__"], ()):
                    steps = sorted(name.rpartition(".")[2] for name in WRITTEN["ObjectNode"])
                    raise InputError(
                        f"it holds {name[:80]}, which `labeldp fit` never writes (allowed are "
                        f"{', '.join(steps)}: fit again)"
                    )
            # skops reads an array once for each number that it goes by.
            number = each.get("__id__")
            if "file" in each and (not number or arrays.setdefault(each["file"], number) != number):
                raise InputError("it holds an array twice, as `labeldp fit` never does (fit again)")


def _damages(model: Any) -> Iterator[str]:
    """Yields where a model is none that `labeldp fit` writes; native code would follow it there."""
    own = _like(model)
    for place in _differences(model, own, "model"):
        yield f"{place} is not what this version of `labeldp fit` writes"
    width = own["classifier"].n_features_in_
    for stage in getattr(model["classifier"].model_, "stages", []):
        for (tree,) in (each for trees in stage.trees for each in trees._predictors):
            if not _is_sound(tree.nodes, width):
                yield "a tree leads out of its table of nodes"


def _like(model: Any) -> Pipeline:
    """Returns a model of the same columns, categories and classes, whose numbers say nothing."""
    found, fitted = model["columns"], model["classifier"]
    cells: dict[str, NDArray] = {}
    if numbers := numbers_of(model):
        imputer = found.named_transformers_["numbers"]["simpleimputer"]
        missing = {numbers[place] for place in imputer.indicator_.features_}
        cells = {name: np.array([np.nan if name in missing else 0.0, 0.0]) for name in numbers}
    if is_mixed := len(columns_of(model)) > len(numbers):
        encoder = found.named_transformers_["categories"]
        of_each = encoder.feature_names_in_, encoder.categories_, encoder.infrequent_categories_
        for name, texts, rare in zip(*of_each, strict=True):
            known = texts.astype(str).astype(object)
            often = known if rare is None else known[~np.isin(known, rare)]
            cells[name] = np.r_[known, often]  # so that a fit finds the same ones rare
    table = pd.DataFrame({name: cells[name][:2] for name in columns_of(model)})
    own = model_for(table, fitted.estimator)
    columns, classifier = own["columns"].fit(table), own["classifier"]
    if is_mixed:
        encoder = columns.named_transformers_["categories"]
        # Each column by itself: a table of all would be as long as its longest.
        parts = [
            vars(clone(encoder).fit(pd.DataFrame({name: cells[name]})))
            for name in encoder.feature_names_in_
        ]
        for key, value in parts[0].items():
            if isinstance(value, list):
                vars(encoder)[key] = [each for part in parts for each in part[key]]
            elif isinstance(value, np.ndarray):
                vars(encoder)[key] = np.concatenate([part[key] for part in parts])
    classifier.classes_ = class_array(check_classes(fitted.classes_.tolist()))
    size, width = len(classifier.classes_), columns.transform(table).shape[1]
    classifier.n_features_in_ = width
    classifier.fitted_rows_, classifier.eps_spent_ = np.zeros(0, np.uint64), 0.0
    if fitted.estimator == LINEAR:
        classifier.model_ = LinearModel(np.zeros((size, width)), np.zeros(size), 0.0)
    else:
        settings, blank = TreeSettings(), np.zeros((2, width), np.float32)
        tree = regressor(settings).fit(blank, np.zeros(2), np.ones(2))
        stage = Stage([tree] * (1 if size == 2 else size), 0.0)
        stages = [stage] * min(len(fitted.model_.stages), settings.stages)
        edges: list[NDArray] = [np.zeros(1)] * width
        if all(each.dtype == np.float32 for each in fitted.model_.bins.edges):
            edges = [blank[0]] * width  # of an older version
        classifier.model_ = BoostedClassifier(Bins(edges), stages, np.zeros(size))
    return own


def _is_sound(nodes: NDArray, width: int) -> bool:
    """Returns whether every path of a tree ends in a leaf, and asks only for columns that exist.

    scikit-learn follows them without looking.
    """
    place = np.arange(len(nodes))
    inner = nodes["is_leaf"] == 0
    # scikit-learn numbers a child after its parent, so that no path comes back.
    children = np.stack([nodes["left"], nodes["right"]]).astype(np.int64)
    ahead = ((children > place) & (children < len(nodes))).all(0)
    column = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < width)
    number = nodes["is_categorical"] == 0  # columns come as numbers, see `columns.to_features`
    is_finite = np.isfinite(nodes["value"]).all()
    return bool(len(nodes) and is_finite and (ahead & column & number)[inner].all())


OF_ANY_LENGTH = {"fitted_rows_", "edges", "bin_thresholds_", "nodes"}
FREE = OF_ANY_LENGTH | {
    "statistics_", "mean_", "var_", "scale_", "n_samples_seen_", "coefficients", "intercept",
    "penalty", "eps_spent_", "constant", "share", "_baseline_prediction", "n_bins_non_missing_",
    "n_threads",
}  # fmt: skip
"""Attributes whose values differ between models of the same columns and classes."""


def _differences(found: Any, own: Any, place: str) -> Iterator[str]:
    """Yields where a model has another form than our own one, which says how deep to look."""
    name = place.rpartition(".")[2]
    if type(found) is not type(own):
        yield place
    elif isinstance(own, dict) and found.keys() == own.keys():
        for key in own:
            yield from _differences(found[key], own[key], f"{place}.{key}")
    elif isinstance(own, list | tuple) and len(found) == len(own):
        for one, other in zip(found, own, strict=True):
            yield from _differences(one, other, place)
    elif isinstance(own, dict | list | tuple):
        yield place
    elif isinstance(own, np.ndarray):
        is_long = name in OF_ANY_LENGTH and found.ndim == own.ndim
        if found.dtype != own.dtype or not (is_long or found.shape == own.shape):
            yield place
        elif own.dtype == object:
            yield from _differences(found.tolist(), own.tolist(), place)
        elif name == "nodes":  # see `_is_sound`
            return
        elif not (np.isfinite(found).all() if name in FREE else np.array_equal(found, own)):
            yield place
    elif isinstance(own, str | int | float | type | np.generic | np.dtype):
        # As texts, because NaN is not equal to NaN.
        if not (np.isfinite(found) if name in FREE else repr(found) == repr(own)):
            yield place
    else:
        yield from _differences(getattr(found, "__dict__", {}), getattr(own, "__dict__", {}), place)
