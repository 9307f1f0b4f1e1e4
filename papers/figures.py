"""A paper's figure: the cells of an experiment, the points they make, the page of numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp.support.files import write_text
from labeldp_bench.experiments.cell import NO_GUARANTEE, Cell
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.published import method_of
from labeldp_bench.records.record import Record, Records, is_heuristic
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import counted, name_of, setting_of
from labeldp_bench.reports.rendering import lines_over_x, markdown_table, number_text, with_errors
from labeldp_bench.reports.statistics import PLUS_MINUS, average, left_out
from papers.checks import Statement, Verdict, compare, judge
from papers.naming import method_name

NOTE = """\
Statements are in our words. A figure has no printed values to compare with, so each statement is
checked on our records: it *holds* if every comparison is true by a one-sided t test at 2.5 %, *does
not hold* if one is false by the same test after Holm's correction for their number, and is
*undecided* otherwise. Seeds that two methods share are compared seed by seed. Where a check needs
a number that the paper does not give, such as from which K on there are many classes, the number
is ours. The last column is the comparison that speaks most against the statement."""


@dataclass(frozen=True)
class Axis:
    """One axis of a figure.

    Attributes:
        key: a config key (`eps`, `dataset.num_classes`) or a field of records (`accuracy`).
        symbol: the short name in tables, e.g. `K`.
        label: the text at the axis.
        scale: the factor of values; 100 for percent.
        log: whether the axis is logarithmic.
    """

    key: str
    symbol: str
    label: str = ""
    scale: float = 1.0
    log: bool = False


ACCURACY = Axis("accuracy", "accuracy", "test accuracy, %", scale=100)


@dataclass(frozen=True)
class PaperFigure:
    """One figure.

    Attributes:
        name: its experiment, e.g. `blockrr/figure2`.
        title: the text above the picture.
        x, y: its axes.
        draw: returns the picture of the points, without title and caption.
        bands: the meaning of bands, bars and dashes, below the picture.
        lines: the config key that tells lines apart; `method` is mechanism, loss and retraining,
            `method+model` the model too.
        panels: the config keys that tell panels apart, joined by `+`; empty for a single panel.
        titles: {value: its part of a title} where that is not `symbol=value`.
        note: what a reader of the picture must know, such as which lines the paper does not have.
        statements: what the paper's text says of the figure.
        notes: returns further parts of the page, Markdown.
        marks: {config key: symbol} of what tells points apart where x is measured.
        budget: at which its cells are run; at another than the paper's it is no figure of the
            paper, and its files and page say so.
    """

    name: str
    title: str
    x: Axis
    draw: Callable[[pd.DataFrame, "PaperFigure"], Figure]
    bands: str
    y: Axis = ACCURACY
    lines: str = "method"
    panels: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    statements: Sequence[Statement] = ()
    notes: Callable[[pd.DataFrame, "PaperFigure"], list[str]] = lambda points, figure: []
    marks: Mapping[str, str] = field(default_factory=dict)
    budget: str = PAPER

    @property
    def paper(self) -> str:
        """Short name, e.g. `blockrr`."""
        return self.name.partition("/")[0]

    @property
    def number(self) -> str:
        """As the paper numbers it, e.g. `2`; empty for a picture that only we have."""
        return self.name.partition("/figure")[2]

    @property
    def stem(self) -> str:
        """Name of its files."""
        at = "" if self.budget == PAPER else f"_{self.budget}"
        return self.name.replace("/", "_") + at

    @cached_property
    def experiment(self) -> Experiment:
        """Where its cells come from."""
        return read_experiment(self.name)

    @property
    def cells(self) -> list[Cell]:
        """The cells of the experiment, each once."""
        return self.experiment.cells(self.budget)

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return self.experiment.command_at(self.budget)

    @property
    def x_is_measured(self) -> bool:
        """Whether x is no setting of any cell but a field of records, each with its own value."""
        return all(_setting(cell, self.x.key) is None for cell in self.cells)

    def panel_title(self, panel: str) -> str:
        """Returns the title of a panel."""
        keys = self.panels.split("+") if self.panels else ()
        values = zip(keys, panel.split("+"), strict=False)
        return ", ".join(
            self.titles.get(value, f"{key.rpartition('.')[2]}={value}") for key, value in values
        )

    def points(self, records: Records) -> pd.DataFrame:
        """Returns one row per point, in the order of the experiment, done or not.

        Columns: panel, line (what statements call it), name (for people), mechanism, x (missing
        for a level), estimate (of y), y, error (half-width of its 95 % t interval), bayes, cells
        (wanted), n (done), older (left out), records (those done), cell (that of the first seed).
        y, error and bayes are scaled as the axis is, and missing where nothing is done.
        """
        rows: dict[tuple[str, str], tuple[str, list[Cell]]] = {}
        for cell in self.cells:
            for panel in self._panels(cell):
                _, same = rows.setdefault((panel, all_but_seed(cell.identity)), (panel, []))
                same.append(cell)
        points = pd.DataFrame([self._point(*row, records) for row in rows.values()])
        return points.astype(dict.fromkeys(("x", "y", "error", "bayes"), float))

    def verdicts(self, points: pd.DataFrame, records: Records) -> list[Verdict]:
        """Returns what the records say of each statement, in its order."""
        verdicts = []
        for one in self.statements:
            other = replace(self, name=one.other).points(records) if one.other else None
            verdicts.append(judge(compare(one, points, self.panel_title, other)))
        return verdicts

    def _panels(self, cell: Cell) -> list[str]:
        """Returns the panels of a cell: its own, or all if it has no such key."""
        if not self.panels:
            return [""]
        own = self._panel(cell)
        panels = [own] if own else filter(None, map(self._panel, self.cells))
        return list(dict.fromkeys(panels))

    def _panel(self, cell: Cell) -> str:
        """Returns the panel of a cell; empty if it lacks a key."""
        values = [_setting(cell, key) for key in self.panels.split("+")]
        return "" if None in values else "+".join(map(text, values))

    def _point(self, panel: str, cells: Sequence[Cell], records: Records) -> dict[str, Any]:
        found = [records[cell.config_hash] for cell in cells if cell.config_hash in records]
        mean, cell = average(found, self.y.key), cells[0]
        estimate = mean.estimate.scaled(self.y.scale)
        bayes = next((r["bayes_accuracy"] for r in found if r.get("bayes_accuracy")), math.nan)
        line, name = self._line(cell)
        return {
            "panel": panel,
            "line": line,
            "name": _name(name, cell, mean.kept),
            "mechanism": cell.identity["mechanism"],
            "x": self._x(cell, mean.kept),
            "estimate": estimate,
            "y": estimate.value,
            "error": estimate.half_width,
            "bayes": bayes * self.y.scale,
            "cells": len(cells),
            "n": len(mean.kept),
            "older": mean.older,
            "records": mean.kept,
            "cell": cell,
        }

    def _line(self, cell: Cell) -> tuple[str, str]:
        """Returns what statements call the line of a cell, and its name for people."""
        if self.lines in ("method", "method+model"):
            model = f"+{cell.identity['model']}" if self.lines != "method" else ""
            return method_of(cell) + model, method_of(cell) + model
        value = text(_setting(cell, self.lines))
        return value, f"{self.lines.rpartition('.')[2]}={value}"

    def _x(self, cell: Cell, records: list[Record]) -> float:
        value = _setting(cell, self.x.key)
        if value is None:  # x is a field of the record, or the point is a level
            known = {record.get(self.x.key) for record in records}
            # One value, as no privacy has eps=inf, needs no average.
            one = known.pop() if len(known) == 1 else None
            value = average(records, self.x.key).estimate.value if one is None else one
        number = float(value) * self.x.scale
        return number if math.isfinite(number) else math.nan


def text(value: object) -> str:
    """Returns a value as panels show it: 1 and 1.0 are both `1`."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _setting(cell: Cell, key: str) -> Any:
    """Returns the value of a key as the command line has it, a group's being its choice's name."""
    value = cell.setting("mechanism.eps" if key == "eps" else key)
    return cell.identity.get(key) if isinstance(value, dict) else value


def _name(line: str, cell: Cell, records: list[Record]) -> str:
    """Returns how a line is written for people: "central" or "no guarantee" where it is so."""
    marks = ["central"] if any(record.get("trust") == "central" for record in records) else []
    if any(is_heuristic(record) for record in records):
        marks.append(NO_GUARANTEE)
    return ", ".join([method_name(line, setting_of(cell.identity)), *marks])


def style_axes(axes: Axes, x: Axis, y: Axis, ticks: Sequence[float]) -> None:
    """Labels both axes, sets their scales and puts a tick at each of the given values of x.

    Measured values have too many digits for that: they keep matplotlib's own ticks.
    """
    axes.margins(x=0.02)
    axes.set_xlabel(x.label)
    axes.set_ylabel(y.label)
    plotting.log_scale(axes, "x" * x.log + "y" * y.log)
    if ticks and all(float(f"{tick:.3g}") == tick for tick in ticks):
        plotting.ticks_at(axes, ticks)


def draw_panels(
    points: pd.DataFrame, figure: PaperFigure, *, share_y: bool = False, columns: int = 0
) -> Figure:
    """Returns lines over x with bands, so many panels next to each other, or all.

    A line that has no x, such as no privacy over eps, is a level.
    """
    panels = list(points.groupby("panel", sort=False))
    columns = columns or len(panels)
    height = 4.2 if columns == len(panels) else 3.0
    drawn, grid = plotting.new_figure(columns, len(panels) // columns, height)
    all_axes = list(grid.flat)
    labels: list[list[plotting.Label]] = []
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        axes.set_title(figure.panel_title(str(panel)))
        style_axes(axes, figure.x, figure.y, sorted(rows.x.dropna().unique()))
        labels.append(plotting.draw_lines(axes, rows.dropna(subset="y")))
        if not labels[-1]:  # an empty scale from 0 to 1 would look like one of values
            where = {"transform": axes.transAxes, "ha": "center", "color": plotting.GREY}
            axes.text(0.5, 0.5, "no record yet", **where)
            axes.set_yticks([])
    if share_y:
        plotting.share_y([axes for axes, ends in zip(all_axes, labels, strict=True) if ends])
    for axes, ends in zip(all_axes, labels, strict=True):
        plotting.label_lines(axes, ends)
    return drawn


BANDS = "Bands: 95 % t intervals over seeds, or over the trials of one seed."
"""What the bands of `draw_panels` are."""


def counts(points: pd.DataFrame) -> tuple[int, int]:
    """Returns the numbers of cells wanted and done; a level of all panels counts once."""
    once = points[~points.cell.map(lambda cell: cell.config_hash).duplicated()]
    return int(once.cells.sum()), int(once.n.sum())


def caption(figure: PaperFigure, points: pd.DataFrame) -> str:
    """Returns the text below the picture: source, runs, bands, missing cells."""
    cells, done = counts(points)
    what = f"Figure {figure.number} of {figure.paper}" if figure.number else "Drawn"
    if figure.budget != PAPER:
        what += f" at budget {figure.budget}"
    # Records without what x measures have no mark, so nothing is said of their training.
    drawn = points[points.x.notna()] if figure.x_is_measured else points
    missing = f"{cells - done} of {cells} cells are missing." if done < cells else ""
    parts = [f"{what} from our own records.", figure.note, runs_of_networks(drawn), figure.bands]
    return " ".join(filter(None, [*parts, missing]))


def runs_of_networks(points: pd.DataFrame) -> str:
    """Returns the seeds and epochs behind the points of networks; nothing without networks.

    A reader of the picture must see that one seed has no error bar, and that a run of two epochs
    is not the paper's run of three hundred.
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


def page(figure: PaperFigure, points: pd.DataFrame, verdicts: Sequence[Verdict]) -> str:
    """Returns the page of a figure: picture, numbers, statements, what fills missing cells."""
    cells, done = counts(points)
    name = f"figure {figure.number}" if figure.number else figure.name.rpartition("/")[2]
    if figure.budget != PAPER:
        name += f", budget {figure.budget}"
    parts = [f"# {figure.paper}, {name}"]
    if done:
        parts += [
            f"![{figure.title}]({figure.stem}.png)",
            f"{figure.title}. {caption(figure, points)}",
            *numbers(figure, points),
            *figure.notes(points, figure),
            *left_out(points),
        ]
    else:
        parts.append(f"{figure.title}. No cell has a record yet, so there is no picture.")
    if verdicts:
        parts += ["## What the paper says of it", _statements(figure, verdicts), NOTE]
        if figure.budget != PAPER:
            parts.append(
                "The paper speaks of its own network; the verdicts are of the model above."
            )
    missing = f"; the others: `{figure.command}`" if done < cells else ""
    return "\n\n".join([*parts, f"{done} of {cells} cells done{missing}"]) + "\n"


def numbers(figure: PaperFigure, points: pd.DataFrame) -> list[str]:
    """Returns a table per panel: a row per line, a column per x, value ± half-width.

    Where x is measured, so that each point has its own, there is a row per point. Methods without
    a guarantee have a table of their own: no column compares them with private ones.
    """
    tables = []
    bare = points.mechanism[points["name"].str.contains(NO_GUARANTEE)]
    for panel, rows in points.groupby("panel", sort=False):
        name = figure.panel_title(str(panel)) or figure.y.label
        if figure.x_is_measured:
            rows = rows[rows.n > 0]
            if rows.empty:
                tables.append(f"{name}: no record yet")
        apart = rows.mechanism.isin(bare)
        for part in (part for part in (rows[~apart], rows[apart]) if len(part)):
            tables.append(markdown_table(_table(figure, part), name=name))
    return [f"{figure.y.label}:", *tables, PLUS_MINUS]


def _table(figure: PaperFigure, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per line, or of a measured x a row per point by line, eps and `marks`."""
    if not figure.x_is_measured:
        xs = sorted(rows.x.dropna().unique())
        headings = [f"{figure.x.symbol}={value:g}" for value in xs] or [figure.y.label]
        return lines_over_x(rows, xs, headings)
    settings = {
        symbol: rows.cell.map(lambda cell, key=key: cell.setting(key))
        for key, symbol in ({"mechanism.eps": "eps"} | dict(figure.marks)).items()
    }
    own = [symbol for symbol, values in settings.items() if values.notna().any()]
    shown = rows.assign(**settings).sort_values(["name", *own])
    columns = {
        symbol: [number_text(value, "{:g}") for value in shown[symbol]] for symbol in own
    } | {
        figure.x.symbol: [number_text(x, "{:.2f}") for x in shown.x],
        figure.y.symbol: with_errors(shown),
    }
    return pd.DataFrame(columns, index=shown["name"])


def _statements(figure: PaperFigure, verdicts: Sequence[Verdict]) -> str:
    """Returns a row per statement: its check and the verdict."""
    rows = []
    for one, verdict in zip(figure.statements, verdicts, strict=True):
        panels = [figure.panel_title(panel) for panel in one.panels]
        where = f", {' and '.join(panels)}" if panels else ""
        check, word = f"`{one.check}`{where}", f"**{verdict.word}**"
        rows.append((one.says, one.where, check, word, verdict.evidence))
    against = f"speaks most against it (at {figure.x.symbol})"
    return markdown_table(rows, ["statement", "where", "check", "ours", against])


def picture_of(figure: PaperFigure, points: pd.DataFrame) -> Figure:
    """Returns the drawing with its title, and its caption below."""
    drawn = figure.draw(points, figure)
    plotting.title_and_caption(drawn, figure.title, caption(figure, points))
    return drawn


def write_figure(figure: PaperFigure, records: Records, out: Path) -> pd.DataFrame:
    """Writes a figure as PNG, PDF and Markdown; without any record only the Markdown.

    Returns:
        Its points.
    """
    points = figure.points(records)
    out.mkdir(parents=True, exist_ok=True)
    write_both(out / figure.stem, picture_of(figure, points) if points.n.sum() else None)
    write_text(out / f"{figure.stem}.md", page(figure, points, figure.verdicts(points, records)))
    return points


def write_both(stem: Path, figure: Figure | None) -> list[Path]:
    """Writes a picture as PNG and PDF, and returns their paths; without one, old ones are deleted.

    In a report an old picture would look like a result.
    """
    paths = [stem.with_suffix(ending) for ending in (".png", ".pdf")]
    for path in paths:
        if figure is None:
            path.unlink(missing_ok=True)
        else:
            plotting.save(figure, path)
            figure.set_layout_engine("none")  # a second layout would differ from the first
    return paths if figure else []
