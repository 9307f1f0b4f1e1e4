"""Writes the papers' figures: each a picture with its caption, and a page of its numbers."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from labeldp.support.files import write_text
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.reports.figures.plotting import title_and_caption, write_both
from labeldp_bench.reports.naming import SMALLER
from papers import FIGURES
from papers.figures.paper import PaperFigure, paper_figures
from papers.figures.text import caption, markdown
from papers.site import best_known, best_known_page, tuned, tuned_page
from papers.site.best_known_picture import draw_best_known
from papers.site.tuned_picture import draw_tuned
from papers.statements.verdict import Verdict


def write_figures(out: Path = FIGURES) -> list[tuple[PaperFigure, pd.DataFrame]]:
    """Writes every figure from the committed records; returns the papers', each with its points.

    Cells of a smaller budget fill a figure of their own, never the paper's; it is written if there
    are any, and deleted if there are none any more.
    """
    records = read_committed()
    figures = []
    there = {PAPER, *(record.get("budget") for record in records.values())}
    budgets = [budget for budget in (PAPER, *SMALLER) if budget in there]
    for budget in set(SMALLER) - there:
        for old in out.glob(f"*_{budget}.*"):
            old.unlink()
    for figure in [each for budget in budgets for each in paper_figures(budget)]:
        points = figure.points(records)
        if figure.budget == PAPER or points.n.sum():
            write_figure(figure, points, figure.verdicts(points, records), out)
            figures.append((figure, points))
        else:
            write_both(out / figure.stem, lambda: None)
            (out / f"{figure.stem}.md").unlink(missing_ok=True)
    published = read_published()
    known = best_known.rows_of(records, published)
    compared = tuned.rows_of(tuned.compared(records, published))
    write_both(out / best_known_page.STEM, lambda: draw_best_known(known))
    write_both(out / tuned_page.STEM, lambda: draw_tuned(compared))
    return figures


def write_figure(
    figure: PaperFigure, points: pd.DataFrame, verdicts: list[Verdict], out: Path
) -> None:
    """Writes one figure as PNG, PDF and Markdown; without any record the Markdown alone."""
    out.mkdir(parents=True, exist_ok=True)
    write_both(out / figure.stem, lambda: picture_of(figure, points) if points.n.sum() else None)
    write_text(out / f"{figure.stem}.md", markdown(figure, points, verdicts))


def picture_of(figure: PaperFigure, points: pd.DataFrame) -> Figure:
    """Returns the drawing with its title, and its caption below."""
    drawn = figure.kind.draw(points, figure.spec)
    title_and_caption(drawn, figure.title, caption(figure, points))
    return drawn
