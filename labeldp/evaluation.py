"""All metrics of a model from one release: a table, and a picture with bands."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labeldp import metrics
from labeldp.estimates import Estimate, class_shares, possible_values, share_with_interval
from labeldp.intervals import Terms, interval
from labeldp.metrics import Metric, ScoredRows
from labeldp.names import class_text
from labeldp.release import Release
from labeldp.support.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVERALL_METRICS: tuple[Metric, ...] = (
    metrics.accuracy, metrics.balanced_accuracy, metrics.roc_auc, metrics.log_loss, metrics.brier,
    metrics.calibration_error,
)  # fmt: skip
CLASS_METRICS: tuple[Metric, ...] = (
    metrics.recall, metrics.precision, metrics.average_precision, metrics.lift
)  # fmt: skip
MOST_LISTED_CLASSES = 10
"""Number of classes up to which each has lines of its own."""
CALIBRATION_BINS = 10
THRESHOLDS = 25
PLOT_MARGIN = 0.02
"""Space around the calibration plot, so that no point is cut off."""


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
    for metric in OVERALL_METRICS:
        name = metric.__name__.replace("_", " ")
        whose = {} if metric is metrics.calibration_error else {"persons": persons}
        found[name] = metric(release, scores, **whose)
        if metric is metrics.accuracy:
            found[f"accuracy of always saying {class_text(often)}"] = shares[often]
    for own in release.classes if len(release.classes) <= MOST_LISTED_CLASSES else ():
        name = class_text(own)
        found[f"share of {name}"] = shares[own]
        for metric in CLASS_METRICS:
            what = "lift of the top tenth" if metric is metrics.lift else metric.__name__
            found[f"{what.replace('_', ' ')}, {name}"] = metric(
                release, scores, positive=own, persons=persons
            )
    return found


def table_of(found: dict[str, Estimate]) -> pd.DataFrame:
    """Returns metrics as texts: metric, value, 95 % interval or why there is no value."""
    rows = [
        [name, "-", f"cannot be said: {each.reason}"]
        if each.reason
        else [name, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}"]
        for name, each in found.items()
    ]
    return pd.DataFrame(rows, columns=["metric", "value", "95 % interval"])


def draw(release: Release, scores: NDArray[np.float64], path: Path) -> None:
    """Writes a picture, .png, .pdf or .svg: a calibration plot and ROC curves.

    Both with 95 % intervals at each point. Of two classes there is one curve.
    """
    figure = figure_of(release, scores)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, format=path.suffix[1:])


def figure_of(release: Release, scores: NDArray[np.float64]) -> "Figure":
    """Returns the picture that `draw` writes."""
    from matplotlib import rc_context  # half a second, which the other commands need not wait
    from matplotlib.figure import Figure

    given = metrics.scored_rows(release, scores)
    with rc_context({"text.parse_math": False}):  # classes such as $25k_$50k are no formulas
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_calibration(left, given)
        _draw_curves(right, given)
        for axes in (left, right):
            axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
    return figure


def _draw_calibration(axes: "Axes", given: ScoredRows) -> None:
    sure = given.probabilities().max(1)
    hits = given.labels[np.arange(len(sure)), given.chosen]
    bins, values = [], possible_values(given.release)
    for part in np.array_split(np.argsort(sure, kind="stable"), min(CALIBRATION_BINS, len(sure))):
        found = share_with_interval(hits[part], values)
        bins.append([sure[part].mean(), found.value, found.low, found.high])
    centres, value, low, high = np.array(bins).T
    axes.errorbar(centres, value, [value - low, high - value], fmt="o", markersize=4, capsize=2)
    guess = 1 / len(given.release.classes)  # no predicted class is less likely
    axes.set(xlabel="probability of the predicted class", ylabel="how often it is right",
             title="Calibration", xlim=(guess - PLOT_MARGIN, 1 + PLOT_MARGIN),
             ylim=(min(guess, float(low.min())) - PLOT_MARGIN, 1 + PLOT_MARGIN))  # fmt: skip


def _draw_curves(axes: "Axes", given: ScoredRows) -> None:
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
            rows.append([each for at in (false, true) for each in (at.value, at.low, at.high)])
        points = np.array(rows)
        if not np.isnan(points).any():
            # A curve never falls; its estimate may.
            x, x_low, x_high, y, y_low, y_high = np.maximum.accumulate(points).T
            (line,) = axes.plot(x, y, label=class_text(names[number]))
            # Both shares are uncertain: where the curve is steep, mostly that of the other rows.
            axes.fill([*x_low, *x_high[::-1]], [*y_high, *y_low[::-1]], alpha=0.2,
                      color=line.get_color(), linewidth=0)  # fmt: skip
            said = True
    axes.set(xlabel="share of the other rows above the threshold",
             ylabel="share of the class above the threshold", title="ROC",
             xlim=(0, 1), ylim=(0, 1))  # fmt: skip
    if said:
        axes.legend(loc="lower right", frameon=False)
    else:
        axes.text(0.5, 0.5, "cannot be said", ha="center", va="center")
