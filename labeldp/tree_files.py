"""Trees that were read from a file: a wrong index in one would crash the reader, or worse."""

from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from labeldp.classifier import LabelDPClassifier
from labeldp.expectation import Expectation
from labeldp.support.validate import InputError

TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
"""The only type of boosted trees that skops does not trust by itself, for that reason."""


def check_trees(classifier: LabelDPClassifier, file: str) -> None:
    """Refuses trees whose indices lead out of their arrays or in a circle.

    scikit-learn follows them without looking. Models without trees pass.

    Args:
        classifier: as it was read.
        file: its name, for the message.

    Raises:
        InputError: a tree that no fit can have made.
    """
    model = vars(classifier).get("model_")
    if not isinstance(model, Expectation):
        return
    estimator = model.estimator
    if not isinstance(estimator, HistGradientBoostingClassifier):
        raise InputError(f"{file} holds another model (write one by `labeldp fit`)")
    width = vars(estimator).get("n_features_in_")
    if not isinstance(width, int) or not all(_sound(each, width) for each in _trees(estimator)):
        raise InputError(f"{file} is damaged: a tree leads out of its table of nodes")


def _trees(estimator: HistGradientBoostingClassifier) -> Iterator[object]:
    for stage in vars(estimator).get("_predictors", []):
        yield from stage


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
