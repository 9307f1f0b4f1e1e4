"""Lines over x with bands, a panel beside another: the usual picture of a paper's experiment."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.figures.spec import Spec
from labeldp_bench.reports.naming import name_of

OPTIONS = ("share_y",)
CAPTION = "Bands: two standard errors to each side, over trials or seeds."

Ends = list[tuple[float, str, str]]


def draw(points: pd.DataFrame, spec: Spec) -> Figure:
    """Returns one panel per value of `panels`, one line per value of `lines`.

    A line that has no x, such as no privacy over eps, is a level. `share_y: true` gives all panels
    the same range of y.
    """
    panels = list(points.groupby("panel", sort=False))
    figure, (all_axes,) = plotting.new_figure(len(panels), height=4.2)
    labels: list[Ends] = []
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        axes.set_title(spec.panel_title(str(panel)))
        plotting.style_axes(axes, spec.x, spec.y, sorted(rows.x.dropna().unique()))
        labels.append(_draw_panel(axes, rows.dropna(subset="y")))
        if not labels[-1]:
            plotting.mark_empty(axes)
    if spec.options.get("share_y"):
        plotting.share_y([axes for axes, ends in zip(all_axes, labels, strict=True) if ends])
    for axes, ends in zip(all_axes, labels, strict=True):
        plotting.label_lines(axes, ends)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> Ends:
    """Draws the lines of one panel; returns their labels as `plotting.label_lines` takes them."""
    ends: Ends = []
    if rows.bayes.notna().any():
        limit = rows.dropna(subset="bayes").groupby("x").bayes.first()
        colour, name = plotting.colour_of("bayes"), name_of("bayes")
        axes.plot(limit.index, limit, "--", color=colour, linewidth=1.4, zorder=1)
        ends.append((float(limit.iloc[-1]), name, colour))
    lines = [line.sort_values("x") for _, line in rows.groupby("line", sort=False)]
    colours = plotting.line_colours(line.mechanism.iloc[0] for line in lines)
    for line, colour in zip(lines, colours, strict=True):
        band = 2 * line.error.fillna(0)
        if line.x.isna().all():
            axes.axhline(line.y.iloc[0], color=colour, linestyle=":", linewidth=1.8)
            low, high = (line.y - band).iloc[0], (line.y + band).iloc[0]
            axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
        else:
            axes.fill_between(line.x, line.y - band, line.y + band, color=colour, alpha=0.2, lw=0)
            axes.plot(line.x, line.y, "o-", color=colour)
            if line.x.iloc[-1] < rows.x.max():  # leads to the label at the edge
                span = (line.x.iloc[-1], rows.x.max())
                axes.hlines(line.y.iloc[-1], *span, color=colour, lw=0.8, ls=(0, (1, 3)))
        ends.append((float(line.y.iloc[-1]), line.name.iloc[0], colour))
    return ends
