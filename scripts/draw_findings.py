"""Draws the pictures of docs/findings.md that no other script draws, from committed results alone.

    python scripts/draw_findings.py

Writes results/figures/finding_{ranking,loss,ple}.png; trains nothing; a few seconds.
"""

import sys
from collections.abc import Mapping

import pandas as pd
from findings import ATTACKS, TABLES
from matplotlib.axes import Axes

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.collect import check_committed
from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from labeldp_bench.reports.statistics import SeedsEstimate, holm, is_significant
from papers import FIGURES
from papers.site.differences import budgets_of, means_of
from papers.site.tuned import SOFT_LABEL

DATA = dict(zip(TABLES, ("MNIST", "Fashion-MNIST"), strict=True))
INTERVALS = (
    "Bars: 95 % t intervals over seeds, the same seeds on both sides, each on its own. After "
    "Holm's correction {sure} of {count} differences are significant at 5 %."
)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what is drawn."""
    read_arguments(arguments, {})
    check_committed()
    draw_differences(
        "finding_ranking",
        "Whether RAPPOR is ahead of ALIBI depends on the loss that ALIBI learns by",
        "RAPPOR minus ALIBI,\ntest accuracy, points",
        {"ALIBI, own loss": ("rappor", "alibi", plotting.RED),
         "ALIBI, soft label": ("rappor", SOFT_LABEL, plotting.BLUE)},
    )  # fmt: skip
    draw_differences(
        "finding_loss",
        "Another loss helps both mechanisms, in the mean at every eps",
        "marginal minus own loss,\npoints of test accuracy",
        {"RR": ("rr+marginal", "rr", plotting.BLUE),
         "RAPPOR": ("rappor+marginal", "rappor", plotting.RED)},
    )  # fmt: skip
    draw_ple()
    return 0


def draw_differences(
    name: str, title: str, label: str, lines: Mapping[str, tuple[str, str, str]]
) -> None:
    """Draws one method minus another over eps, a panel for each of the two data sets.

    Args:
        name: of the file.
        title: the message.
        label: of the axis.
        lines: {name: (method, method that is taken off, colour)}.
    """
    figure, ((*panels,),) = plotting.new_figure(2, height=3.0)
    drawn: list[SeedsEstimate] = []
    for axes, table in zip(panels, TABLES, strict=True):
        ours = means_of(table, every_seed=True)
        budgets = budgets_of(ours)
        for place, (own, (above, below, colour)) in enumerate(lines.items()):
            gaps = [ours[above, eps].minus(ours[below, eps]) for eps in budgets]
            _bars(axes, gaps, place / 4 - (len(lines) - 1) / 8, own, colour)
            drawn += gaps
        axes.axhline(0, color=plotting.GREY, linewidth=1)
        axes.set_xticks(range(len(budgets)), [f"{eps:g}" for eps in budgets])
        axes.set(xlabel="privacy budget eps", title=DATA[table])
    plotting.share_y(panels)
    panels[0].set_ylabel(label)
    if len(lines) > 1:
        panels[1].legend(frameon=False)
    sure = sum(map(is_significant, holm([gap.p for gap in drawn])))
    caption = INTERVALS.format(sure=sure, count=len(drawn))
    plotting.title_and_caption(figure, title, caption)
    plotting.save(figure, FIGURES / f"{name}.png")
    print(FIGURES / f"{name}.png")


def draw_ple() -> None:
    """Draws how many labels a release gives away, beside the accuracy of the model it trains."""
    rows = pd.read_csv(ATTACKS, dtype={"config_hash": str}).dropna(subset="accuracy")
    rows = rows[rows.known == 0]
    figure, ((*panels,),) = plotting.new_figure(2, height=3.0)
    for axes, data in zip(panels, ("mnist", "fashion_mnist"), strict=True):
        here = rows[rows.dataset == data]
        bare = here.guarantee == NO_GUARANTEE
        for rows_of, mark, colour in ((here[bare], "s", plotting.BLACK),
                                      (here[~bare], "o", plotting.BLUE)):  # fmt: skip
            axes.plot(100 * rows_of.accuracy, 100 * rows_of["with"], mark, color=colour)
        axes.axhline(10, color=plotting.GREY, linestyle=":", linewidth=1.4)
        axes.set(xlabel="test accuracy of the model, %", title=data_name_of(data), ylim=(0, 100))
    panels[0].set_ylabel("labels that an attacker\nnames from the release, %")
    said = f"{name_of('ple')}, {NO_GUARANTEE}"
    panels[0].text(0.03, 0.6, said, transform=panels[0].transAxes)
    private = {"color": plotting.BLUE, "transform": panels[0].transAxes}
    panels[0].text(0.03, 0.22, "private, eps from 0.2 to 1", **private)
    plotting.title_and_caption(
        figure,
        "What PLE publishes names most labels; private releases name few, most with better models",
        "One seed. Dotted: a guess at random. The attacker knows the images and no label.",
    )
    plotting.save(figure, FIGURES / "finding_ple.png")
    print(FIGURES / "finding_ple.png")


def _bars(axes: Axes, gaps: list[SeedsEstimate], shift: float, name: str, colour: str) -> None:
    places = [number + shift for number in range(len(gaps))]
    axes.errorbar(
        places, [gap.value for gap in gaps], [gap.half_width for gap in gaps],
        fmt="o", color=colour, capsize=3, linewidth=1.4, label=name,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
