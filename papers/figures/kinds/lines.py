"""Lines over x with bands, a panel beside another: the usual picture of a paper's experiment."""

import pandas as pd
from matplotlib.figure import Figure

from labeldp_bench.reports.figures import plotting
from papers.figures.kinds import Kind
from papers.figures.spec import Spec


class Lines(Kind):
    """Lines with bands, a panel beside another."""

    options = ("share_y",)
    caption = "Bands: 95 % t intervals over seeds, or over the trials of one seed."

    def draw(self, points: pd.DataFrame, spec: Spec) -> Figure:
        """Returns one panel per value of `panels`, one line per value of `lines`.

        A line that has no x, such as no privacy over eps, is a level. `share_y: true` gives all
        panels the same range of y.
        """
        panels = list(points.groupby("panel", sort=False))
        figure, (all_axes,) = plotting.new_figure(len(panels), height=4.2)
        labels: list[list[plotting.Label]] = []
        for axes, (panel, rows) in zip(all_axes, panels, strict=True):
            axes.set_title(spec.panel_title(str(panel)))
            plotting.style_axes(axes, spec.x, spec.y, sorted(rows.x.dropna().unique()))
            labels.append(plotting.draw_lines(axes, rows.dropna(subset="y")))
            if not labels[-1]:
                # An empty scale from 0 to 1 would look like one of values.
                where = axes.transAxes
                axes.text(
                    0.5, 0.5, "no record yet", transform=where, ha="center", color=plotting.GREY
                )
                axes.set_yticks([])
        if spec.options.get("share_y"):
            plotting.share_y([axes for axes, ends in zip(all_axes, labels, strict=True) if ends])
        for axes, ends in zip(all_axes, labels, strict=True):
            plotting.label_lines(axes, ends)
        return figure


KIND = Lines()
