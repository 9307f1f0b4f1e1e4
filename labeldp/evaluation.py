"""All metrics of a model from one release: a table, and a picture with bands."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labeldp import metrics
from labeldp.estimates import Estimate, class_shares, possible_values, share_with_interval
from labeldp.intervals import Terms, interval
from labeldp.metrics import Judged, Metric
from labeldp.release import Release
from labeldp.support.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHOLE: tuple[Metric, ...] = (
    metrics.accuracy, metrics.balanced_accuracy, metrics.roc_auc, metrics.log_loss, metrics.brier,
    metrics.calibration_error,
)  # fmt: skip
OF_CLASS: tuple[Metric, ...] = (
    metrics.recall, metrics.precision, metrics.average_precision, metrics.lift
)  # fmt: skip
MOST_CLASSES = 10
"""Up to which each class has lines of its own."""
BINS = 10
THRESHOLDS = 25


def evaluated(
    release: Release, scores: NDArray[np.float64], persons: ArrayLike | None = None
) -> dict[str, Estimate]:
    """Returns all metrics of a model, by name, with 95 % intervals.

    Args:
        release: of N rows that the model was not fitted to.
        scores: (N, K) probabilities.
        persons: (N,), whose row each is.
    """
    shares = class_shares(release, persons=persons)
    often = max(shares, key=lambda name: shares[name].value)
    found = {}
    for metric in WHOLE:
        name = metric.__name__.replace("_", " ")
        whose = {} if metric is metrics.calibration_error else {"persons": persons}
        found[name] = metric(release, scores, **whose)
        if metric is metrics.accuracy:
            found[f"accuracy of always saying {often}"] = shares[often]
    for own in release.classes if len(release.classes) <= MOST_CLASSES else ():
        found[f"share of {own}"] = shares[own]
        for metric in OF_CLASS:
            what = "lift of the top tenth" if metric is metrics.lift else metric.__name__
            found[f"{what.replace('_', ' ')}, {own}"] = metric(
                release, scores, positive=own, persons=persons
            )
    return found


def table_of(found: dict[str, Estimate]) -> pd.DataFrame:
    """Returns metrics as texts: metric, value, 95 % interval; what cannot be said, with why."""
    rows = [
        [name, "-", f"cannot be said: {each.reason}"]
        if each.reason
        else [name, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}"]
        for name, each in found.items()
    ]
    return pd.DataFrame(rows, columns=["metric", "value", "95 % interval"])


def draw(release: Release, scores: NDArray[np.float64], path: Path) -> None:
    """Writes a picture: how often the model is right where it is sure, and ROC curves.

    Both with 95 % intervals at each point. Of two classes there is one curve.

    Args:
        release: as `evaluated`.
        scores: as `evaluated`.
        path: ends in .png, .pdf or .svg.
    """
    from matplotlib.figure import Figure  # half a second, which the other commands need not wait

    given = metrics.judged(release, scores)
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_calibration(left, given)
    _draw_curves(right, given)
    for axes in (left, right):
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, format=path.suffix[1:])


def _draw_calibration(axes: "Axes", given: Judged) -> None:
    sure = given.probabilities().max(1)
    hits = given.labels[np.arange(len(sure)), given.chosen]
    values = possible_values(given.release)
    parts = np.array_split(np.argsort(sure, kind="stable"), min(BINS, len(sure)))
    bins = [share_with_interval(hits[part], values) for part in parts]
    value, low, high = np.array([[each.value, each.low, each.high] for each in bins]).T
    centres = [sure[part].mean() for part in parts]
    axes.errorbar(centres, value, [value - low, high - value], fmt="o", markersize=4, capsize=2)
    axes.set(xlabel="probability of the predicted class", ylabel="how often it is right",
             title="Calibration")  # fmt: skip


def _draw_curves(axes: "Axes", given: Judged) -> None:
    names = given.release.classes
    classes = [1] if len(names) == 2 else range(min(len(names), 5))
    said = False
    for number in classes:
        scores, labels = given.ranks()[:, number], given.labels[:, [number]]
        rows = []
        for cut in np.quantile(scores, np.linspace(1, 0, THRESHOLDS)):
            above = (scores >= cut)[:, None]
            true = interval(Terms(labels * above, labels))
            false = interval(Terms((1 - labels) * above, 1 - labels))
            rows.append([false.value, true.value, true.low, true.high])
        points = np.array(rows)
        if not np.isnan(points).any():
            # A curve never falls; its estimate may.
            x, *bands = np.maximum.accumulate(points).T
            axes.plot(x, bands[0], label=str(names[number]))
            axes.fill_between(x, bands[1], bands[2], alpha=0.2)
            said = True
    axes.set(xlabel="share of the other rows above the threshold",
             ylabel="share of the class above the threshold", title="ROC")  # fmt: skip
    if said:
        axes.legend(loc="lower right", frameon=False)
    else:
        axes.text(0.5, 0.5, "cannot be said", ha="center", va="center")
