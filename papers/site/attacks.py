"""Pictures of what attackers gain from a release, and of the eps that audits find in models."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from papers.naming import model_name_of

ADVANTAGES = {
    "additive": ("right guesses that only\nthe release gives, points", 100, (0, 1, 3, 10, 30, 100)),
    "log_odds_95": ("change of the true label's log odds,\n95 % are below", 1, (0, 1, 3, 10)),
}
"""What each row of panels shows: column, label, factor, ticks."""
MARKERS = "voD^P*X"
"""One for each eps, in order."""
BOUNDS = {
    "sampled": ("o", "mechanism, draws"),
    "one_run_release": ("^", "release, one run"),
    "one_run_model": ("s", "model, one run"),
    "observational": ("D", "model, observational"),
}


def draw_attacks(rows: pd.DataFrame, path: Path) -> bool:
    """Writes a column per share of known labels; returns False, and writes nothing, without rows.

    Log odds have no meaning for an attacker without any known label, who cannot tell how certain a
    vector of ple is. The legend takes the place of that panel. Of the rows, those of one data set
    in results/attacks.csv, the ones without a model accuracy are left out.
    """
    rows = rows.dropna(subset="accuracy")
    rows = rows[rows.mechanism != "none"]
    if not len(rows):
        return False
    columns = list(rows.groupby("known"))
    budgets = sorted(rows.eps[rows.guarantee != NO_GUARANTEE].unique())
    markers = dict(zip(budgets, itertools.cycle(MARKERS), strict=False))
    figure, axes = plotting.new_figure(len(columns), rows=len(ADVANTAGES), height=3.6)
    figure.set_figwidth(1.4 + 3.1 * len(columns))
    shown: dict[str, Artist] = {}
    for column, (share, points) in enumerate(columns):
        known = float(str(share))
        axes[0][column].set_title(f"{100 * known:g} % known" if known else "no label known")
        for row, measure in enumerate(ADVANTAGES):
            if row and not known:
                axes[row][column].axis("off")
                continue
            shown |= _draw_panel(axes[row][column], points, measure, markers)
    for row, (label, _, ticks) in enumerate(ADVANTAGES.values()):
        drawn = [panel for panel in axes[row] if panel.axison]
        for panel in drawn:
            panel.set_yscale("symlog", linthresh=1, linscale=0.7)
            panel.yaxis.set_major_locator(FixedLocator(ticks))
            panel.yaxis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
            panel.yaxis.set_minor_locator(FixedLocator([]))
            panel.set_xlabel("test accuracy of the model, %")
        plotting.share_y(drawn)
        if drawn:
            drawn[0].set_ylabel(label)
    for eps, marker in markers.items():
        shown[f"eps={eps:g}"] = axes[0][0].plot([], [], marker, color="#606060")[0]
    empty = [panel for panel in axes.flat if not panel.axison]
    place = {"loc": "center", "ncols": 2, "frameon": False} if empty else {"loc": "outside right"}
    (empty or [figure])[0].legend(shown.values(), shown.keys(), fontsize=8.5, **place)
    data = data_name_of(str(rows.dataset.iloc[0]))
    seeds = ", ".join(str(seed) for seed in sorted(rows.seed.unique()))
    plotting.title_and_caption(
        figure,
        f"{data}, seed {seeds}: utility against additive and multiplicative advantage",
        "Advantage of who has the release over who knows the images and as many labels. LP-2ST "
        "(halves) and top-k subset release within sets that a model of other releases chose, and "
        "the sets tell of the image too. Axes of y are linear up to 1, logarithmic above.",
    )
    plotting.save(figure, path)
    return True


def _draw_panel(
    axes: Axes, points: pd.DataFrame, measure: str, markers: dict[float, str]
) -> dict[str, Artist]:
    """Draws one measure of one share; returns {name: handle}."""
    axes.axhline(0, color=plotting.GREY, linewidth=0.8)
    shown: dict[str, Artist] = {}
    lines = list(points.groupby("mechanism"))
    lines.sort(key=lambda pair: NO_GUARANTEE not in set(pair[1].guarantee))  # drawn first
    colours = plotting.line_colours(str(name) for name, _ in lines)
    for (name, line), colour in zip(lines, colours, strict=True):
        bare = (line.guarantee == NO_GUARANTEE).any()
        mean = line.groupby(["eps", "config_hash"])[["accuracy", measure]].mean().reset_index()
        mean = mean.sort_values("accuracy")
        x, y = 100 * mean.accuracy, ADVANTAGES[measure][1] * mean[measure]
        label = name_of(str(name)) + (f", {NO_GUARANTEE}" if bare else "")
        (shown[label],) = axes.plot(
            x, y, "s--" if bare else "-", color=colour, linewidth=1.2, markersize=6.5
        )
        for eps, one_x, one_y in zip(mean.eps, x, y, strict=True):
            if not bare:
                axes.plot(one_x, one_y, markers[eps], color=colour, markersize=4.5)
    return shown


def draw_audits(rows: pd.DataFrame, path: Path) -> None:
    """Writes a panel per data set and model of results/audits/end_to_end.csv."""
    rows = rows[np.isfinite(rows.claimed)]
    panels = list(rows.groupby(["dataset", "model"], sort=False))
    figure, axes = plotting.new_figure(len(panels), rows=1, height=3.4)
    figure.set_figwidth(3.1 * len(panels) + 1.6)
    names = list(rows.mechanism.unique())
    shown = {}
    for panel, (key, points) in zip(axes[0], panels, strict=True):
        dataset, model = map(str, key)
        panel.set_title(f"{data_name_of(dataset).replace('_', ' ')}, {model_name_of(model)}")
        top = points.claimed.max()
        panel.plot([0, top], [0, top], color="0.6", linewidth=1)
        for name in names:
            colour = plotting.colour_of(name)
            own = points[points.mechanism == name].sort_values("claimed")
            for column, (marker, words) in BOUNDS.items():
                if own[column].notna().any():
                    style: Any = {"markersize": 5, "linewidth": 1, "alpha": 0.85, "color": colour}
                    (line,) = panel.plot(own.claimed, own[column], marker=marker, **style)
                    if name == names[0]:
                        shown[words] = line
        panel.set_xlabel("eps claimed")
    axes[0][0].set_ylabel("eps at least")
    colours = [axes[0][0].plot([], [], color=plotting.colour_of(name))[0] for name in names]
    handles, labels = [*colours, *shown.values()], [*map(name_of, names), *shown]
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
