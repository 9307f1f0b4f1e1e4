"""All metrics of a model from one release: a table, and a picture with bands."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from labeldp import metrics
from labeldp.estimates import Estimate, class_shares, possible_values, share_with_interval
from labeldp.intervals import Terms, interval
from labeldp.metrics import Metric, ScoredRows
from labeldp.names import class_text
from labeldp.release import Release
from labeldp.support.files import replacing
from labeldp.support.validate import InputError

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
    release: Release, scores: Any, persons: ArrayLike | None = None
) -> dict[str, Estimate]:
    """Returns all metrics of a model, by name, with 95 % intervals.

    Args:
        release: of N rows that the model was not fitted to.
        scores: (N, K) probabilities, or what `scored_rows` returned; without scores, the metrics
            that need none.
        persons: (N,), whose row each is.
    """
    given = metrics.scored_rows(release, scores)
    shares = class_shares(release, persons=persons)
    often = max(shares, key=lambda name: shares[name].value)
    found = {}
    for name, metric, options in _listed(given):
        if metric is metrics.recall:
            name_of_class = options["positive"]
            found[f"share of {class_text(name_of_class)}"] = shares[name_of_class]
        bins = min(CALIBRATION_BINS, max(1, len(release) // 2))
        own = {"bins": bins} if metric is metrics.calibration_error else {"persons": persons}
        found[name] = metric(release, given, **own, **options)
        if metric is metrics.accuracy:
            found[f"accuracy of always saying {class_text(often)}"] = shares[often]
    return found


def compared(
    first: ScoredRows, second: ScoredRows, names: tuple[str, str], persons: ArrayLike | None = None
) -> pd.DataFrame:
    """Returns the metrics of two models of the same rows as texts, and the first less the second.

    With the 95 % interval of the difference, which says where chance alone could make it. Metrics
    that either has no scores for are left out, and those that `difference` does not take.

    Raises:
        InputError: a row that only one of them has.
    """
    release, both, rows = first.release, (first, replace(second, release=first.release)), []
    for name in np.setxor1d(release.row_ids, second.release.row_ids)[:1]:
        raise InputError(
            f"a difference needs the same rows in both, and only one has row {name} (predict it in "
            "the other too, or leave it out)"
        )
    for name, metric, options in _listed(*both):
        if metric not in (metrics.lift, metrics.calibration_error):
            values = [metric(release, each, persons=persons, **options) for each in both]
            gap = metrics.difference(metric, release, *both, persons=persons, **options)
            value, ends = _texts(gap, "+.3f")
            ends += ": cannot be told" * (not gap.reason and gap.low <= 0 <= gap.high)
            rows.append([name, *(_texts(each)[0] for each in values), value, ends])
    return pd.DataFrame(rows, columns=["metric", *names, "difference", "95 % interval"])


def _listed(*given: ScoredRows) -> Iterator[tuple[str, Metric, dict[str, Any]]]:
    """Yields each metric that all of these have the scores for, with its name and options."""
    classes, no_scores = given[0].release.classes, any(each.scores is None for each in given)
    each_class = [{"positive": own} for own in classes if len(classes) <= MOST_LISTED_CLASSES]
    asked = [(metric, dict[str, Any]()) for metric in OVERALL_METRICS]
    asked += [(metric, options) for options in each_class for metric in CLASS_METRICS]
    for metric, options in asked:
        if metrics.NEEDS[metric] == "classes" or not no_scores:
            what = "lift of the top tenth" if metric is metrics.lift else metric.__name__
            whose = "".join(f", {class_text(own)}" for own in options.values())
            yield what.replace("_", " ") + whose, metric, options


def table_of(found: dict[str, Estimate]) -> pd.DataFrame:
    """Returns metrics as texts: metric, value, 95 % interval or why there is no value."""
    rows = [[name, *_texts(each)] for name, each in found.items()]
    return pd.DataFrame(rows, columns=["metric", "value", "95 % interval"])


def _texts(each: Estimate, form: str = ".3f") -> tuple[str, str]:
    """Returns a value and its interval, or why there is no value."""
    if each.reason:
        return "-", f"cannot be said: {each.reason}"
    return format(each.value, form), f"{each.low:{form}} to {each.high:{form}}"


def draw(release: Release, scores: Any, path: Path) -> None:
    """Writes a picture, .png, .pdf or .svg: a calibration plot and ROC curves.

    Both with 95 % intervals at each point. Of two classes there is one curve.
    """
    figure = figure_of(release, scores)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, format=path.suffix[1:])


def figure_of(release: Release, scores: Any) -> "Figure":
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
    sure, chosen = given.probabilities().max(1), given.probabilities().argmax(1)
    hits = given.labels[np.arange(len(sure)), chosen]
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
