"""Labels made up from public features, released and learnt: what a plan may expect."""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from labeldp_bench.own_labels.classifier import LabelDPClassifier
from labeldp_bench.own_labels.privatize import privatize
from labeldp_bench.support.validate import InputError

MOST_ROWS = 4000
HELD_OUT = 0.25
TEMPERATURES = (0.25, 1.0)
"""Of random linear rules; at the higher one features explain less of the label."""


def simulated_accuracies(
    features: NDArray[np.float64], num_rows: int, num_classes: int, eps: float, mechanism: str
) -> list[float]:
    """Returns the accuracies on held-out rows of models that learnt made-up labels from releases.

    Three kinds of labels: the groups of k-means, and classes drawn from random linear rules, sharp
    and blurred. None of them costs privacy, as features are public.

    Args:
        features: (n, d), finite.
        num_rows: how many are to be released; at most this many, and 4,000, are used.
        num_classes: K.
        eps: of each label.
        mechanism: name on the command line.

    Raises:
        InputError: too few rows, or entries that are no numbers.
    """
    if features.ndim != 2 or not np.isfinite(features).all():
        raise InputError("X must be numbers of shape (n, d), without missing ones")
    size = min(len(features), num_rows, MOST_ROWS)
    if size < 10 * num_classes:
        raise InputError(f"a simulation needs at least {10 * num_classes} rows, got {size}")
    stream = np.random.default_rng(0)
    rows = stream.permutation(len(features))[:size]
    scaled = StandardScaler().fit_transform(features[rows])
    groups = KMeans(num_classes, n_init=3, random_state=0).fit_predict(scaled)
    made_up = [groups]
    for temperature in TEMPERATURES:
        scores = scaled @ stream.standard_normal((scaled.shape[1], num_classes))
        scores = (scores - scores.mean(0)) / scores.std(0) / temperature
        made_up.append((scores + stream.gumbel(size=scores.shape)).argmax(1))
    test = int(HELD_OUT * size)
    found = []
    for number, labels in enumerate(made_up):
        release = privatize(
            labels[test:], classes=list(range(num_classes)), eps=eps, mechanism=mechanism,
            seed=number,
        )  # fmt: skip
        model = LabelDPClassifier().fit(scaled[test:], release)
        found.append(float((model.predict(scaled[:test]) == labels[:test]).mean()))
    return found
