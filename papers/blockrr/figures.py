"""Figures 2 and 3 of BlockRR: accuracy over sigma on its second imbalanced CIFAR-10."""

from collections.abc import Sequence
from functools import partial

from labeldp_bench.experiments.identity import PAPER
from papers.blockrr import checks
from papers.checks import Statement
from papers.figures import BANDS, Axis, PaperFigure, draw_panels


def _over_sigma(
    number: int, at: str, note: str, statements: Sequence[Statement]
) -> list[PaperFigure]:
    """Returns a figure with the paper's network, and with a classifier on a public encoder."""
    models = {PAPER: "resnet18", "features": "linear classifier on features from ImageNet"}
    return [
        PaperFigure(
            name=f"blockrr/figure{number}",
            title=f"CIFAR-10_2, {model}: BlockRR over sigma at {at}",
            x=Axis("mechanism.sigma", "sigma", "sigma of the partition"),
            draw=partial(draw_panels, share_y=True),
            bands=BANDS,
            panels="mechanism.eps",
            note=note,
            statements=statements,
            budget=budget,
        )
        for budget, model in models.items()
    ]


ALL = (
    *_over_sigma(2, "eps <= 1", "RR is ours; l as in Table 9.", checks.FIGURE_2),
    *_over_sigma(
        3,
        "eps >= 2",
        "RR is ours; l as in Table 9, so that BlockRR is RR at eps=3 and 4 for every sigma.",
        checks.FIGURE_3,
    ),
)
