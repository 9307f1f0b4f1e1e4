"""Pictures of no paper: best known accuracies, three findings, and what audits find in models."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.collect import COMMITTED
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from labeldp_bench.reports.statistics import ENOUGH_SEEDS
from papers.naming import model_name_of
from papers.site.best_known import KINDS

SERIES = {
    "printed_local": ("published, local", plotting.BLACK, "s", "white"),
    "printed_central": ("published, central (delta > 0)", plotting.GREY, "^", "white"),
    "ours": ("ours, local", plotting.RED, "o", plotting.RED),
    "ours_features": ("ours, local, learned features", plotting.BLUE, "o", plotting.BLUE),
    "ours_central": ("ours, central", plotting.SKY, "^", plotting.SKY),
}
"""{column of the best-known table: label, colour, marker, its inside}."""
PREFIXES = {kind.column: prefix for prefix, kind in KINDS.items()}
APART = 0.13
"""Distance between two marks of one eps, in steps of the axis."""
BEST_KNOWN_TITLE = (
    "Under local privacy ours is significantly ahead in {ours} of {count} cells, the published "
    "value in {printed}"
)
BEST_KNOWN = (
    "Best value at each eps. Published: at this eps; it is missing where a better value is "
    "published at a smaller eps or, for the central ones, under local privacy. Ours, filled: mean "
    "of three seeds or more with its 95 % t interval, which may be narrower than the mark. Hollow: "
    "fewer seeds. Ours is chosen by test accuracy, as published values are. CIFAR-100 "
    "at 0.5: the fit loses classes, from releases worth 32 true labels. Data sets of "
    "which we have no run, methods, sources and tests: results/tables/best_known.md."
)
DIFFERENCES = (
    "Bars: 95 % t intervals over the seeds that both methods share. After Holm's correction "
    "{significant} of {count} differences are significant at 5 %."
)
AUDITS = "Lower bounds on eps, from draws, from releases and from trained models, against the claim"
AUDITS_CAPTION = (
    "Grey: the claim, which no honest bound exceeds but by chance. Canaries are examples whose "
    "labels were drawn uniformly; an auditor guesses them. A bound of 0 is no evidence of privacy."
)
BOUNDS = {
    "sampled": ("o", "mechanism, draws"),
    "one_run_release": ("^", "release, one run"),
    "one_run_model": ("s", "model, one run"),
    "observational": ("D", "model, observational"),
}
"""{column of results/audits/end_to_end.csv: marker, label}."""


def write_findings(rows: pd.DataFrame, out: Path) -> list[Path]:
    """Writes the pictures of docs/findings.md, finding_{ranking,loss,ple}.png.

    Args:
        rows: of `findings.differences_of`.
        out: the folder.
    """
    drawn = {
        "ranking": draw_differences(
            rows[rows.family == "ranking"],
            "Whether RAPPOR is ahead of ALIBI depends on the loss that ALIBI learns by",
            "RAPPOR minus ALIBI,\ntest accuracy, points",
            {"ALIBI, own loss": plotting.RED, "ALIBI, soft label": plotting.BLUE},
        ),
        "loss": draw_differences(
            rows[rows.family == "loss"],
            "Another loss helps both mechanisms, in the mean at every eps",
            "marginal minus own loss,\npoints of test accuracy",
            {"RR": plotting.BLUE, "RAPPOR": plotting.RED},
        ),
        "ple": draw_ple(pd.read_csv(COMMITTED.with_name("attacks.csv"))),
    }
    paths = [out / f"finding_{name}.png" for name in drawn]
    for path, figure in zip(paths, drawn.values(), strict=True):
        plotting.save(figure, path)
    return paths


def draw_differences(
    rows: pd.DataFrame, title: str, label: str, lines: Mapping[str, str]
) -> Figure:
    """Returns one method minus another over eps, a panel for each of the two data sets.

    Args:
        rows: a family of `findings.differences_of`.
        title: the message.
        label: of the axis.
        lines: {name: colour} of the family's pairs, in order.
    """
    figure, ((*panels,),) = plotting.new_figure(2, height=3.0)
    for axes, (data, here) in zip(panels, rows.groupby("dataset", sort=False), strict=True):
        pairs = here.groupby(["method", "other"], sort=False)
        for place, ((name, colour), (_, line)) in enumerate(zip(lines.items(), pairs, strict=True)):
            x = np.arange(len(line)) + place / 4 - (len(lines) - 1) / 8
            half = (line.high - line.low) / 2
            style: Any = {"color": colour, "capsize": 3, "linewidth": 1.4, "label": name}
            axes.errorbar(x, line.difference, half, fmt="o", **style)
        axes.axhline(0, color=plotting.GREY, linewidth=1)
        axes.set_xticks(range(here.eps.nunique()), [f"{eps:g}" for eps in here.eps.unique()])
        axes.set(xlabel="privacy budget eps", title=data)
    plotting.share_y(panels)
    panels[0].set_ylabel(label)
    panels[1].legend(frameon=False)
    caption = DIFFERENCES.format(significant=rows.significant.sum(), count=len(rows))
    plotting.title_and_caption(figure, title, caption)
    return figure


def draw_ple(rows: pd.DataFrame) -> Figure:
    """Returns the share of labels that a release names, over the accuracy of its model.

    Args:
        rows: of results/attacks.csv.
    """
    rows = rows[rows.known == 0].dropna(subset="accuracy")
    figure, ((*panels,),) = plotting.new_figure(2, height=3.0)
    for axes, data in zip(panels, ("mnist", "fashion_mnist"), strict=True):
        here = rows[rows.dataset == data]
        bare = here.guarantee == NO_GUARANTEE
        for part, mark, colour in (
            (here[bare], "s", plotting.BLACK),
            (here[~bare], "o", plotting.BLUE),
        ):
            axes.plot(100 * part.accuracy, 100 * part["with"], mark, color=colour)
        axes.axhline(10, color=plotting.GREY, linestyle=":", linewidth=1.4)
        axes.set(xlabel="test accuracy of the model, %", title=data_name_of(data), ylim=(0, 100))
    panels[0].set_ylabel("labels that an attacker\nnames from the release, %")
    inside = panels[0].transAxes
    panels[0].text(0.03, 0.6, f"{name_of('ple')}, {NO_GUARANTEE}", transform=inside)
    private = "private, eps from 0.2 to 1"
    panels[0].text(0.03, 0.22, private, color=plotting.BLUE, transform=inside)
    plotting.title_and_caption(
        figure,
        "What PLE publishes names most labels; private releases name few, most with better models",
        "One seed. Dotted: a guess at random. The attacker knows the images and no label.",
    )
    return figure


def draw_best_known(rows: pd.DataFrame) -> Figure:
    """Returns the picture of the best-known table's rows, a panel per data set with any of ours."""
    any_of_ours = rows[list(PREFIXES)].notna().any(axis=1).groupby(rows.dataset).transform("any")
    panels = list(rows[any_of_ours].groupby("dataset", sort=False))
    figure, grid = plotting.new_figure(2, math.ceil(len(panels) / 2), height=3.6)
    for axes, (dataset, points) in zip(grid.flat, panels, strict=False):
        axes.set_title(data_name_of(str(dataset)))
        _draw_data_set(axes, points.reset_index(drop=True))
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel("test accuracy, %")
    shown = plotting.legend_of(grid.flat[: len(panels)])
    labels = [label for label, *_ in SERIES.values() if label in shown]
    handles = [shown[label] for label in labels]
    grid[0, 0].legend(handles, labels, frameon=False, loc="lower right")
    compared = rows.ahead[rows.ahead != ""]
    title = BEST_KNOWN_TITLE.format(
        ours=compared.str.startswith("ours").sum(),
        printed=compared.eq("printed").sum(),
        count=len(compared),
    )
    plotting.title_and_caption(figure, title, BEST_KNOWN)
    return figure


def _draw_data_set(axes: Axes, points: pd.DataFrame) -> None:
    shown = [column for column in SERIES if not _known(points, column).empty]
    for place, column in enumerate(shown):
        known, (label, colour, marker, inside) = _known(points, column), SERIES[column]
        prefix = PREFIXES.get(column)
        half = few = None
        if prefix is not None:
            few = known[f"{prefix}seeds"] < ENOUGH_SEEDS
            half = ((known[f"{prefix}high"] - known[f"{prefix}low"]) / 2).mask(few, 0)
        x = known.index + APART * (place - (len(shown) - 1) / 2)
        style: Any = {"color": colour, "markersize": 6.5}
        line: Any = {"mfc": inside, "linewidth": 1.4, "label": label}
        axes.errorbar(x, known[column], half, fmt=marker, **style, **line)
        if few is not None:
            axes.plot(x[few], known[column][few], marker, mfc="white", zorder=3, **style)
    axes.set_ylim(0, 102)
    axes.set_xlim(-0.5, len(points) - 0.5)
    axes.set_xticks(points.index, [f"{eps:g}" for eps in points.eps])
    axes.set_xlabel("privacy budget eps")


def _known(points: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the rows with a value of this series; published ones only at their own eps."""
    known = points[points[column].notna()]
    if column in PREFIXES:
        return known
    own_trust = known[f"{column}_trust"] == column.removeprefix("printed_")
    return known[own_trust & (known[f"{column}_eps"] == known.eps)]


def draw_audits(rows: pd.DataFrame, path: Path) -> None:
    """Writes a panel per data set and model of results/audits/end_to_end.csv."""
    rows = rows[np.isfinite(rows.claimed)]
    panels = list(rows.groupby(["dataset", "model"], sort=False))
    figure, axes = plotting.new_figure(math.ceil((len(panels) + 1) / 2), rows=2, height=3.0)
    names = list(rows.mechanism.unique())
    shown = {}
    for panel, (key, points) in zip(axes.flat, panels, strict=False):
        dataset, model = map(str, key)
        panel.set_title(f"{data_name_of(dataset).replace('_', ' ')}, {model_name_of(model)}")
        top = points.claimed.max()
        panel.plot([0, top], [0, top], color="0.6", linewidth=1)
        for name in names:
            colour = plotting.colour_of(name)
            own = points[points.mechanism == name].sort_values("claimed")
            for column, (marker, label) in BOUNDS.items():
                if own[column].notna().any():
                    style: Any = {"markersize": 5, "linewidth": 1, "alpha": 0.85, "color": colour}
                    (line,) = panel.plot(own.claimed, own[column], marker=marker, **style)
                    if name == names[0]:
                        shown[label] = line
        panel.set_xlabel("eps claimed")
        panel.set_ylabel("eps at least")
    for panel in axes.flat[len(panels) :]:  # the legend stands in the first of them
        panel.axis("off")
    colours = [axes[0][0].plot([], [], color=plotting.colour_of(name))[0] for name in names]
    handles, labels = [*colours, *shown.values()], [*map(name_of, names), *shown]
    axes.flat[len(panels)].legend(handles, labels, loc="center", fontsize=10)
    plotting.title_and_caption(figure, AUDITS, AUDITS_CAPTION)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
