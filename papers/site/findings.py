"""The pictures of docs/findings.md that are no figure of a paper."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.collect import COMMITTED
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from labeldp_bench.reports.statistics import SeedsEstimate
from papers.comparisons import holm, is_significant
from papers.site.differences import budgets_of, means_of
from papers.site.tuned import SOFT_LABEL

TABLES = {
    "vector_approximation/table1a": "MNIST",
    "vector_approximation/table1b": "Fashion-MNIST",
}
INTERVALS = (
    "Bars: 95 % t intervals over seeds, the same seeds on both sides, each on its own. After "
    "Holm's correction {sure} of {count} differences are significant at 5 %."
)


def write_pictures(out: Path) -> list[Path]:
    """Writes finding_{ranking,loss,ple}.png; returns their paths."""
    ranking = draw_differences(
        "Whether RAPPOR is ahead of ALIBI depends on the loss that ALIBI learns by",
        "RAPPOR minus ALIBI,\ntest accuracy, points",
        {
            "ALIBI, own loss": ("rappor", "alibi", plotting.RED),
            "ALIBI, soft label": ("rappor", SOFT_LABEL, plotting.BLUE),
        },
    )
    plotting.save(ranking, out / "finding_ranking.png")
    loss = draw_differences(
        "Another loss helps both mechanisms, in the mean at every eps",
        "marginal minus own loss,\npoints of test accuracy",
        {
            "RR": ("rr+marginal", "rr", plotting.BLUE),
            "RAPPOR": ("rappor+marginal", "rappor", plotting.RED),
        },
    )
    plotting.save(loss, out / "finding_loss.png")
    plotting.save(draw_ple(), out / "finding_ple.png")
    return [out / f"finding_{name}.png" for name in ("ranking", "loss", "ple")]


def draw_differences(title: str, label: str, lines: Mapping[str, tuple[str, str, str]]) -> Figure:
    """Returns one method minus another over eps, a panel for each of the two data sets.

    Args:
        title: the message.
        label: of the axis.
        lines: {name: (method, method that is subtracted, colour)}.
    """
    figure, ((*panels,),) = plotting.new_figure(2, height=3.0)
    drawn: list[SeedsEstimate] = []
    for axes, (table, data) in zip(panels, TABLES.items(), strict=True):
        ours = means_of(table, every_seed=True)
        budgets = budgets_of(ours)
        for place, (own, (above, below, colour)) in enumerate(lines.items()):
            gaps = [ours[above, eps].minus(ours[below, eps]) for eps in budgets]
            _bars(axes, gaps, place / 4 - (len(lines) - 1) / 8, own, colour)
            drawn += gaps
        axes.axhline(0, color=plotting.GREY, linewidth=1)
        axes.set_xticks(range(len(budgets)), [f"{eps:g}" for eps in budgets])
        axes.set(xlabel="privacy budget eps", title=data)
    plotting.share_y(panels)
    panels[0].set_ylabel(label)
    panels[1].legend(frameon=False)
    sure = sum(map(is_significant, holm([gap.p for gap in drawn])))
    plotting.title_and_caption(figure, title, INTERVALS.format(sure=sure, count=len(drawn)))
    return figure


def draw_ple() -> Figure:
    """Returns how many labels a release gives away, over the accuracy of the model it trains."""
    rows = pd.read_csv(COMMITTED.with_name("attacks.csv")).dropna(subset="accuracy")
    rows = rows[rows.known == 0]
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


def _bars(axes: Axes, gaps: list[SeedsEstimate], shift: float, name: str, colour: str) -> None:
    places = [number + shift for number in range(len(gaps))]
    means, halves = [gap.value for gap in gaps], [gap.half_width for gap in gaps]
    style: Any = {"color": colour, "capsize": 3, "linewidth": 1.4, "label": name}
    axes.errorbar(places, means, halves, fmt="o", **style)
