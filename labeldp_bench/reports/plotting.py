"""One visual language for every picture: colours, labels and sizes. Imports no torch."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.scale import LogScale, LogTransform
from numpy.typing import ArrayLike
from PIL import Image
from scipy.optimize import isotonic_regression

from labeldp.support.files import replacing
from labeldp_bench.reports.naming import name_of

# Colour-blind safe (Okabe and Ito, 2008); a mechanism has the same colour in every picture.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, OLIVE, WINE, INDIGO, TEAL = "#56B4E9", "#999933", "#AA3377", "#332288", "#44AA99"
PINK, BROWN, GREY, BLACK = "#CC79A7", "#8C564B", "#7F7F7F", "#000000"
VIOLET, MAROON, FOREST = "#9467DD", "#7A0019", "#1B5E20"
COLOURS = {
    "none": GREY,
    "bayes": BLACK,
    "rr": BLUE,
    "lp_1st": BLUE,
    "lp_1st_star": SKY,
    "rappor": RED,
    "alibi": ORANGE,
    "lp_2st": GREEN,
    "lp_2st_star": TEAL,
    "lp_mst": FOREST,
    "subset_selection": WINE,
    "blockrr": MAROON,
    "rrwithprior": TEAL,
    "unary": PINK,
    "oue": SKY,
    "hadamard": BROWN,
    "local_hashing": OLIVE,
    "optimal": VIOLET,
    "ple": BLACK,
    "laplace": BLUE,
    "clipped_laplace": SKY,
    "unbiased_randomizer": RED,
    "rr_on_bins": GREEN,
    "rp_with_prior": ORANGE,
    "cube_means": INDIGO,
}
SPARE = (SKY, PINK, OLIVE, TEAL, BROWN, INDIGO)
Label = tuple[float, str, str]
"""The y of a line's end, a text and a colour."""
LABEL_SIZE = 9.5
STYLE: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E3E3E3",
    "lines.linewidth": 2.0,
    "lines.markersize": 4.5,
    "svg.hashsalt": "labeldp_bench",
    "pdf.fonttype": 42,
}


def colour_of(mechanism: str, position: int = 0) -> str:
    """Returns the fixed colour of a mechanism; unknown ones take spare colours in order."""
    return COLOURS.get(mechanism, SPARE[position % len(SPARE)])


def line_colours(mechanisms: Iterable[str]) -> list[str]:
    """Returns a colour per line: a mechanism's first line has its own, further ones a spare."""
    owned = [colour_of(mechanism, position) for position, mechanism in enumerate(mechanisms)]
    colours: list[str] = []
    for own in owned:
        spare = [colour for colour in SPARE if colour not in {*colours, *owned}]
        colours.append(spare[0] if own in colours and spare else own)
    return colours


def coloured_lines(rows: pd.DataFrame) -> list[tuple[pd.DataFrame, str]]:
    """Returns (points from left to right, colour) of each line."""
    lines = [line.sort_values("x") for _, line in rows.groupby("line", sort=False)]
    colours = line_colours(line.mechanism.iloc[0] for line in lines)
    return list(zip(lines, colours, strict=True))


def new_figure(columns: int, rows: int = 1, height: float = 3.6) -> tuple[Figure, np.ndarray]:
    """Returns a figure and its panels, an array (rows, columns), in the project's style."""
    plt.rcdefaults()
    plt.rcParams.update(STYLE)
    size = (1.4 + 4.6 * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, axes


def ticks_at(axes: Axes, places: Sequence[float]) -> None:
    """Puts a tick at each of the given values of x, and none between."""
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.xaxis.minorticks_off()


class _Rounded(LogTransform):
    """log10 to nine digits after the point, far more than a picture shows."""

    def transform_non_affine(self, values: ArrayLike) -> np.ndarray:
        return np.round(np.asarray(super().transform_non_affine(values)), 9)


class _RoundedLogScale(LogScale):
    """A logarithmic scale that is the same on every machine.

    The last bit of numpy's log10 depends on the processor (with AVX-512 it is another), and where
    a place in the picture lies half-way between two that a file can hold, that bit decides.
    """

    def __init__(self) -> None:
        super().__init__()
        self._transform = _Rounded(self.base)


def log_scale(axes: Axes, which: str) -> None:
    """Makes `x`, `y`, both (`xy`) or none logarithmic; every picture takes this one."""
    if "x" in which:
        axes.set_xscale(_RoundedLogScale())
    if "y" in which:
        axes.set_yscale(_RoundedLogScale())


def title_and_caption(figure: Figure, title: str, caption: str) -> None:
    """Writes a title above all panels and a caption below, in lines as long as the figure is wide.

    The panels leave room for as many lines as there are.
    """
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, wrap=True)
    figure.supxlabel(caption, x=0.01, ha="left", fontsize=8.5, color="#404040", wrap=True)


def draw_lines(axes: Axes, rows: pd.DataFrame) -> list[Label]:
    """Draws lines over x with bands, and the Bayes limit; returns the labels for `label_lines`.

    Rows: line, name (for people), mechanism, x (missing for a level), y, error (half-width of the
    95 % interval) and bayes of each point.
    """
    labels: list[Label] = []
    limit = rows.dropna(subset="bayes").groupby("x").bayes.first()
    if len(limit):
        axes.plot(limit.index, limit, "--", color=colour_of("bayes"), linewidth=1.4, zorder=1)
        labels.append((float(limit.iloc[-1]), name_of("bayes"), colour_of("bayes")))
    for line, colour in coloured_lines(rows):
        low, high = (line.y + sign * line.error.fillna(0) for sign in (-1, 1))
        for place in line.index[line.x.isna()]:
            axes.axhline(line.y[place], color=colour, linestyle=":", linewidth=1.8)
            axes.axhspan(low[place], high[place], color=colour, alpha=0.12, linewidth=0)
            labels.append((float(line.y[place]), line["name"][place], colour))
        curve = line[line.x.notna()]
        if curve.empty:
            continue
        axes.fill_between(
            curve.x, low[curve.index], high[curve.index], color=colour, alpha=0.2, lw=0
        )
        axes.plot(curve.x, curve.y, "o-", color=colour)
        last = curve.iloc[-1]
        if last.x < rows.x.max():  # a thin line leads to the label at the edge
            axes.hlines(last.y, last.x, rows.x.max(), color=colour, lw=0.8, ls=(0, (1, 3)))
        labels.append((float(last.y), last["name"], colour))
    return labels


def share_y(panels: Iterable[Axes]) -> None:
    """Gives panels one range of y, the widest."""
    ranges = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in ranges), max(high for _, high in ranges))


def label_lines(axes: Axes, labels: Sequence[Label]) -> None:
    """Writes labels at the right edge, each near its line and none over another.

    The limits of the axes must be final.
    """
    if not labels:
        return
    ordered = sorted(labels)
    low, high = axes.transData.transform([(0, edge) for edge in axes.get_ylim()])[:, 1]
    gap = LABEL_SIZE * 1.45 * axes.figure.dpi / 72
    steps = gap * np.arange(len(ordered))
    ends = axes.transData.transform([(1, y) for y, _, _ in ordered])[:, 1]
    # As near to the lines as possible (least squares), with `gap` between neighbours.
    levels = np.clip(isotonic_regression(ends - steps).x, low, max(low, high - steps[-1]))
    # As shares of the height, since a caption that is added later makes the panels smaller.
    heights = (levels + steps - low) / (high - low)
    for height, (y, text, colour) in zip(heights, ordered, strict=True):
        leader = {"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 1, "shrinkB": 1}
        axes.annotate(
            text,
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(15, height),
            textcoords=("offset points", "axes fraction"),
            va="center",
            color=colour,
            fontsize=LABEL_SIZE,
            arrowprops=leader | {"relpos": (0, 0.5)},
        )


def legend_of(panels: Iterable[Axes]) -> dict[str, Artist]:
    """Returns {label: handle} of all panels, each label once."""
    shown: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    return shown


def thin_ticks(figure: Figure) -> None:
    """Removes each label on x that would touch the one before; the layout must be final."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        shown, edge = [], -np.inf
        for label in axes.get_xticklabels():
            box = label.get_window_extent()
            is_clear = box.x0 > edge
            edge = box.x1 + 0.4 * box.height if is_clear else edge
            shown.append(label.get_text() if is_clear else "")
        axes.set_xticks(axes.get_xticks(), shown)


def save(figure: Figure, path: Path) -> None:
    """Writes the figure without a date, so that the same records give the same bytes; closes it."""
    with replacing(path) as unfinished:
        if path.suffix == ".png":
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png")
            drawn.seek(0)
            # A picture has few colours: a palette of 256 looks the same at a quarter of the size.
            palette = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE)
            palette.save(unfinished, "png", optimize=True)
        else:
            figure.savefig(unfinished, format="pdf", metadata={"CreationDate": None})
    plt.close(figure)
