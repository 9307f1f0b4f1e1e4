"""Figures 2 to 4 of vector_approximation, accuracy over the number of classes, and its bounds."""

from collections.abc import Sequence

from papers.checks import Statement
from papers.figures import BANDS, Axis, PaperFigure, draw_panels
from papers.vector_approximation import bounds, checks

CLASSES = Axis("dataset.num_classes", "K", "number of classes K")


def _on_the_circle(number: int, eps: int, k: int, statements: Sequence[Statement]) -> PaperFigure:
    return PaperFigure(
        name=f"vector_approximation/figure{number}",
        title=(
            f"K Gaussians on the circle, eps={eps}, {k} nearest neighbours, N=10,000, "
            "mean of 1,000 trials"
        ),
        x=CLASSES,
        draw=draw_panels,
        bands=BANDS,
        panels="dataset.sigma",
        note="No privacy and subset selection are ours.",
        statements=statements,
    )


ALL = (
    _on_the_circle(2, eps=1, k=200, statements=checks.FIGURE_2),
    _on_the_circle(3, eps=2, k=100, statements=checks.FIGURE_3),
    _on_the_circle(4, eps=1, k=100, statements=checks.FIGURE_4),
    bounds.FIGURE,
)
