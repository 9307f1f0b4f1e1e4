"""A paper's figure: a pure function of committed records and its experiment YAML. Imports no torch.

The YAML's `figure:` says what is drawn and what the paper's text says of it; a new paper is a
folder of YAML, a new kind of picture one file in labeldp_bench/pictures.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from labeldp_bench.collect import read_committed
from labeldp_bench.config import CHECKOUT, Cell, compose_cell
from labeldp_bench.figure_spec import Spec, fill_title, read_spec, text
from labeldp_bench.figure_text import caption, markdown
from labeldp_bench.plotting import name_of, save
from labeldp_bench.records import is_heuristic
from labeldp_bench.statements import Verdict, compare, judge, read_check
from labeldp_bench.sweeper import expand
from labeldp_bench.tables import method_of
from labeldp_bench.validate import InputError, check_choice

EXPERIMENTS = CHECKOUT / "configs" / "experiment"
FIGURES = CHECKOUT / "results" / "figures"
Records = dict[str, dict[str, Any]]
"""{config_hash: record}."""


@dataclass(frozen=True)
class PaperFigure:
    """One figure: its experiment's cells and how they are shown.

    Attributes:
        paper: short name, e.g. `blockrr`.
        figure: as the paper numbers it, e.g. `2`.
        folder: where the experiments lie.
    """

    paper: str
    figure: str
    folder: Path = EXPERIMENTS

    @property
    def experiment(self) -> str:
        """What `experiment=` takes."""
        return f"{self.paper}/figure{self.figure}"

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.paper}_figure{self.figure}"

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return f"python -m labeldp_bench experiment={self.experiment}"

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment's YAML as plain containers."""
        config = OmegaConf.to_container(OmegaConf.load(self.folder / f"{self.experiment}.yaml"))
        assert isinstance(config, dict)
        return {str(key): value for key, value in config.items()}

    @cached_property
    def spec(self) -> Spec:
        """What is drawn."""
        try:
            return read_spec(self.config.get("figure"))
        except InputError as error:
            raise InputError(f"{self.experiment}.yaml: {error}") from None

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of the experiment, each once."""
        cells = [compose_cell(overrides) for overrides in expand(self.config["cells"], {})]
        return list({cell.config_hash: cell for cell in cells}.values())

    @property
    def title(self) -> str:
        """What stands above the picture."""
        keys = {key for cell in self.cells for key in cell.identity}
        values = {key: {text(value_of(cell, key)) for cell in self.cells} for key in keys}
        first = {key: value_of(self.cells[0], key) for key in keys if len(values[key]) == 1}
        budgets = {cell.identity.get("mechanism.eps") for cell in self.cells} - {None}
        if len(budgets) == 1:  # no privacy has none
            first["eps"] = budgets.pop()
        return fill_title(self.spec.title, first)

    def points(self, records: Records) -> pd.DataFrame:
        """Returns one row per point, in the order of the experiment, done or not.

        Columns: panel, line (what statements call it), name (for people), mechanism, x (missing
        for a level), y, error (standard error: over seeds, or of one record over its trials),
        spread (standard deviation over seeds), bayes, cells (wanted), n (done), records (those).
        y, error, spread and bayes are scaled as the axis is, and missing where nothing is done.

        Args:
            records: a cell is filled by exactly its own identity.
        """
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for cell in self.cells:
            identity = {key: value for key, value in cell.identity.items() if key != "seed"}
            for panel in self._panels(cell):
                row = rows.setdefault(
                    (panel, str(identity)),
                    {"panel": panel, "cell": cell, "cells": 0, "records": []},
                )
                row["cells"] += 1
                if cell.config_hash in records:
                    row["records"].append(records[cell.config_hash])
        points = pd.DataFrame([self._point(**row) for row in rows.values()])
        missing = {"x": float, "y": float, "error": float, "spread": float, "bayes": float}
        return points.astype(missing)

    def verdicts(self, points: pd.DataFrame, records: Records) -> list[Verdict]:
        """Returns what the records say of each statement of the paper's text, in its order."""
        verdicts = []
        for statement in self.spec.statements:
            try:
                check = read_check(statement["check"], self.spec.x.symbol)
                other = (
                    figure_of(check.other, self.folder).points(records) if check.other else points
                )
                names = [text(each) for each in statement.get("panels", points.panel.unique())]
                panels = {name: self.spec.panel_title(name) for name in names}
                verdicts.append(judge(compare(check, points, other, panels)))
            except InputError as error:
                raise InputError(f"{self.experiment}.yaml: {statement['check']}: {error}") from None
        return verdicts

    def _panels(self, cell: Cell) -> list[str]:
        """Returns the panels of a cell: its own, or all if it has no such key."""
        if self.spec.panels is None:
            return [""]
        value = value_of(cell, self.spec.panels)
        if value is not None:
            return [text(value)]
        values = [value_of(other, self.spec.panels) for other in self.cells]
        return list(dict.fromkeys(text(value) for value in values if value is not None))

    def _point(
        self, panel: str, cell: Cell, cells: int, records: list[dict[str, Any]]
    ) -> dict[str, Any]:
        y = self.spec.y
        done = pd.Series([r.get(y.key) for r in records], dtype=float) * y.scale
        error = done.std() / math.sqrt(len(done)) if len(done) > 1 else math.nan
        if len(done) == 1 and records[0].get(f"{y.key}_sem") is not None:
            error = float(records[0][f"{y.key}_sem"]) * y.scale
        bayes = next((r["bayes_accuracy"] for r in records if r.get("bayes_accuracy")), math.nan)
        line = method_of(cell) if self.spec.lines == "method" else value_of(cell, self.spec.lines)
        return {
            "panel": panel,
            "line": text(line),
            "name": _name(text(line), records),
            "mechanism": cell.identity["mechanism"],
            "x": self._x(cell, records),
            "y": done.mean(),
            "error": error,
            "spread": done.std(),
            "bayes": bayes * y.scale,
            "cells": cells,
            "n": len(done),
            "records": records,
        }

    def _x(self, cell: Cell, records: list[dict[str, Any]]) -> float:
        x = self.spec.x
        value = value_of(cell, x.key)
        if value is None:  # a field of the record, else a level
            measured = [r[x.key] for r in records if r.get(x.key) is not None]
            return sum(measured) / len(measured) * x.scale if measured else math.nan
        number = float(value) * x.scale
        return number if math.isfinite(number) else math.nan


def value_of(cell: Cell, key: str) -> Any:
    """Returns the value of a config key in a cell, None if it has no such key.

    Args:
        cell: a run.
        key: as on the command line: `eps`, `mechanism`, `dataset.num_classes`.
    """
    key = "mechanism.eps" if key == "eps" else key
    if key in cell.identity:
        return cell.identity[key]
    node: Any = cell.config  # values at their default are in no identity
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return None if isinstance(node, dict) else node


def paper_figures(folder: Path = EXPERIMENTS) -> list[PaperFigure]:
    """Returns every figure that has an experiment."""
    paths = sorted(folder.glob("*/figure*.yaml"))
    return [PaperFigure(p.parent.name, p.stem.removeprefix("figure"), folder) for p in paths]


def figure_of(experiment: str, folder: Path = EXPERIMENTS) -> PaperFigure:
    """Returns the figure of an experiment, e.g. of `blockrr/figure2`."""
    known = [figure.experiment for figure in paper_figures(folder)]
    paper, _, figure = check_choice("experiment of a figure", experiment, known).partition("/")
    return PaperFigure(paper, figure.removeprefix("figure"), folder)


def write_figures(
    out: Path = FIGURES, records: Records | None = None, folder: Path = EXPERIMENTS
) -> list[tuple[PaperFigure, pd.DataFrame]]:
    """Writes every figure as PNG, PDF and Markdown; returns each with its points.

    A figure without any record gets no picture, and an older one is taken away: an empty one would
    look like a result in a report. Its Markdown says so.
    """
    records = read_committed() if records is None else records
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in paper_figures(folder):
        points = figure.points(records)
        for path in (out / f"{figure.name}.png", out / f"{figure.name}.pdf"):
            path.unlink(missing_ok=True)
            if points.n.sum():
                save(picture_of(figure, points), path)
        text = markdown(figure, points, figure.verdicts(points, records))
        (out / f"{figure.name}.md").write_text(text)
        written.append((figure, points))
    return written


def picture_of(figure: PaperFigure, points: pd.DataFrame) -> Figure:
    """Returns the drawing with its title, and below it what the bands are and what is missing."""
    drawn: Figure = figure.spec.picture.draw(points, figure.spec)
    drawn.suptitle(figure.title, x=0.01, ha="left", fontsize=12)
    drawn.supxlabel(caption(figure, points), x=0.01, ha="left", fontsize=8.5, color="#404040")
    return drawn


def _name(line: str, records: list[dict[str, Any]]) -> str:
    """Returns how a line is written for people: "central" or "no guarantee" where it is so."""
    mechanism, *extras = line.split("+")
    marks = []
    if any(record.get("trust") == "central" for record in records):
        marks.append("central")
    if any(is_heuristic(record) for record in records):
        marks.append("no guarantee")
    return ", ".join([name_of(mechanism), *extras, *marks])
