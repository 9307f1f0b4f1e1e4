"""The page of a figure: its caption, its numbers, what the paper's text says of it."""

from collections.abc import Sequence

import pandas as pd

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.reports.draws import left_out
from labeldp_bench.reports.naming import counted, name_of
from labeldp_bench.reports.rendering import lines_over_x, markdown_table, number_text, with_errors
from labeldp_bench.reports.statistics import PLUS_MINUS
from papers.figures.paper import PaperFigure
from papers.statements.verdict import Verdict

NOTE = """\
Statements are in our words. A figure has no printed values to compare with, so each statement is
checked on our records: it *holds* if every comparison is true by a one-sided t test at 2.5 %, *does
not hold* if one is false by the same test after Holm's correction for their number, and is
*undecided* otherwise. Seeds that two methods share are compared seed by seed. Where a check needs
a number that the paper does not give, such as from which K on there are many classes, the number
is ours. The last column is the comparison that speaks most against the statement."""


def counts(points: pd.DataFrame) -> tuple[int, int]:
    """Returns how many cells a figure wants and has; one that stands in all panels counts once."""
    once = points[~points.cell.map(lambda cell: cell.config_hash).duplicated()]
    return int(once.cells.sum()), int(once.n.sum())


def caption(figure: PaperFigure, points: pd.DataFrame) -> str:
    """Returns what stands below the picture: source, runs, bands, missing cells."""
    cells, done = counts(points)
    is_paper = figure.budget == PAPER
    small = "" if is_paper else f" at budget={figure.budget}, smaller than the paper's"
    what = f"Figure {figure.number} of {figure.paper}" if figure.number else "Drawn"
    # Records without what x measures have no mark, so nothing is said of their training.
    drawn = points[points.x.notna()] if figure.x_is_measured else points
    said = [
        f"{what} from our own records{small}.", figure.spec.note, runs_of_networks(drawn),
        figure.kind.caption,
        f"{cells - done} of {cells} cells are missing." if done < cells else "",
    ]  # fmt: skip
    return " ".join(filter(None, said))


def runs_of_networks(points: pd.DataFrame) -> str:
    """Returns the seeds and epochs behind the points of networks; nothing without networks.

    A reader of the picture alone must see that one seed has no error bar, and that a run of two
    epochs is not the paper's run of three hundred.
    """
    done = points[points.cell.map(lambda cell: cell.has("trainer.epochs")) & (points.n > 0)]
    if done.empty:
        return ""
    trained: dict[str, dict[str, None]] = {}
    for mechanism, cell in zip(done.mechanism, done.cell, strict=True):
        epochs = counted([cell.setting("trainer.epochs")], "epoch")
        client = cell.setting("learner.client.epochs")
        epochs = f"client {client}, server {epochs}" if client else epochs
        trained.setdefault(epochs, {})[name_of(mechanism)] = None
    who = [f"{', '.join(names)}: {epochs}" for epochs, names in trained.items()]
    return f"{'; '.join([counted(done.n, 'seed'), *who])}."


def markdown(figure: PaperFigure, points: pd.DataFrame, verdicts: Sequence[Verdict]) -> str:
    """Returns the page of a figure: picture, numbers, statements, what fills missing cells."""
    cells, done = counts(points)
    name = figure.experiment.name.rpartition("/")[2]
    parts = [f"# {figure.paper}, {f'figure {figure.number}' if figure.number else name}"]
    if done:
        parts += [
            f"![{figure.title}]({figure.stem}.png)", f"{figure.title}. {caption(figure, points)}",
            *numbers(figure, points), *figure.kind.notes(points, figure.spec), *left_out(points),
        ]  # fmt: skip
    else:
        parts.append(f"{figure.title}. No cell has a record yet, so there is no picture.")
    if verdicts:
        parts += ["## What the paper says of it", _statements(figure, verdicts), NOTE]
    missing = f"; the others: `{figure.command}`" if done < cells else ""
    return "\n\n".join([*parts, f"{done} of {cells} cells done{missing}"]) + "\n"


def numbers(figure: PaperFigure, points: pd.DataFrame) -> list[str]:
    """Returns a table per panel: a row per line, a column per x, value ± half-width.

    Where x is measured, so that each point has its own, there is a row per point. Methods without
    a guarantee have a table of their own: no column holds them beside private ones.
    """
    x, y = figure.spec.x, figure.spec.y
    tables = []
    bare = points["name"].str.contains(NO_GUARANTEE)
    for panel, rows in points.groupby("panel", sort=False):
        name = figure.spec.panel_title(str(panel)) or y.label
        if figure.x_is_measured:
            rows = rows[rows.n > 0]
            if rows.empty:
                tables.append(f"{name}: no record yet")
        apart = rows.mechanism.isin(points.mechanism[bare])
        for part in (part for part in (rows[~apart], rows[apart]) if len(part)):
            if figure.x_is_measured:
                table = _one_row_per_point(figure, part)
            else:
                xs = sorted(part.x.dropna().unique())
                headings = [f"{x.symbol}={value:g}" for value in xs] or [y.label]
                table = lines_over_x(part, xs, headings)
            tables.append(markdown_table(table, name=name))
    return [f"{y.label}:", *tables, PLUS_MINUS]


def _one_row_per_point(figure: PaperFigure, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per point that is done, sorted by line, eps and the settings of `marks`."""
    marks = {"mechanism.eps": "eps"} | figure.spec.options.get("marks", {})
    settings = {
        symbol: rows.cell.map(lambda cell, key=key: cell.setting(key))
        for key, symbol in marks.items()
    }
    own = [symbol for symbol, values in settings.items() if values.notna().any()]
    shown = rows.assign(**settings).sort_values(["name", *own])
    columns = {
        symbol: [number_text(value, "{:g}") for value in shown[symbol]] for symbol in own
    } | {
        figure.spec.x.symbol: [number_text(x, "{:.2f}") for x in shown.x],
        figure.spec.y.symbol: with_errors(shown),
    }
    return pd.DataFrame(columns, index=shown["name"])


def _statements(figure: PaperFigure, verdicts: Sequence[Verdict]) -> str:
    """Returns a row per statement: the check of it and the verdict."""
    rows = []
    for statement, verdict in zip(figure.spec.statements, verdicts, strict=True):
        panels = [figure.spec.panel_title(f"{panel}") for panel in statement.panels or ()]
        where = f", {' and '.join(panels)}" if panels else ""
        rows.append(
            (statement.says, statement.where, f"`{statement.check}`{where}",
             f"**{verdict.word}**", verdict.evidence)
        )  # fmt: skip
    centred_log_likelihood = f"speaks most against it (at {figure.spec.x.symbol})"
    return markdown_table(rows, ["statement", "where", "check", "ours", centred_log_likelihood])
