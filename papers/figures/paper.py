"""A paper's figure: a pure function of committed records and its experiment YAML.

The YAML's `figure:` says what is drawn and what the paper's text says of it; a new paper is a
folder of YAML, a new kind of picture one file in labeldp_bench/reports/figures/kinds.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import NO_GUARANTEE, Cell
from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.record import Record, Records, is_heuristic
from labeldp_bench.reports.draws import average
from labeldp_bench.reports.naming import method_name, setting_of
from papers.figures.kinds import Kind, load_kind
from papers.figures.spec import Spec, fill_title, read_spec, text
from papers.statements.check import read_check
from papers.statements.verdict import Verdict, compare, judge
from papers.tables import method_of


@dataclass(frozen=True)
class PaperFigure:
    """One figure: the cells of its experiment, at one budget, and how they are shown."""

    experiment: Experiment
    budget: str = PAPER

    @property
    def paper(self) -> str:
        """Short name, e.g. `blockrr`."""
        return self.experiment.name.partition("/")[0]

    @property
    def number(self) -> str:
        """As the paper numbers it, e.g. `2`; empty for a picture that is ours alone."""
        return self.experiment.name.partition("/figure")[2]

    @property
    def stem(self) -> str:
        """Name of its files."""
        return self.experiment.name.replace("/", "_") + f"_{self.budget}" * (self.budget != PAPER)

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return self.experiment.command_at(self.budget)

    @cached_property
    def spec(self) -> Spec:
        """What is drawn.

        Raises:
            InputError: a key of the YAML's `figure:` that nobody reads, or one that is missing.
        """
        try:
            return read_spec(self.experiment.figure, lambda kind: load_kind(kind).options)
        except InputError as error:
            raise InputError(f"experiment={self.experiment.name}: {error}") from None

    @property
    def kind(self) -> Kind:
        """What draws it."""
        return load_kind(self.spec.kind)

    @property
    def cells(self) -> list[Cell]:
        """The cells of the experiment, each once."""
        return self.experiment.cells(self.budget)

    @property
    def x_is_measured(self) -> bool:
        """Whether x is no setting of any cell but a field of records, each with its own value."""
        return all(_setting(cell, self.spec.x.key) is None for cell in self.cells)

    @property
    def title(self) -> str:
        """What stands above the picture."""
        shared = {}
        for key in {"eps"}.union(*(cell.identity for cell in self.cells)):
            found = [_setting(cell, key) for cell in self.cells]
            values = {text(value): value for value in found if value is not None}
            if len(values) == 1:  # cells without the key, as no privacy has no eps, do not count
                (shared[key],) = values.values()
        return fill_title(self.spec.title, shared)

    def points(self, records: Records) -> pd.DataFrame:
        """Returns one row per point, in the order of the experiment, done or not.

        Columns: panel, line (what statements call it), name (for people), mechanism, x (missing
        for a level), estimate (of y), y, error (half-width of its 95 % t interval), bayes, cells
        (wanted), n (done), older (left out), records (those done), cell (that of the first seed).
        y, error and bayes are scaled as the axis is, and missing where nothing is done.
        """
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for cell in self.cells:
            alike = all_but_seed(cell.identity)
            for panel in self._panels(cell):
                new = {"panel": panel, "cell": cell, "cells": 0, "records": []}
                row = rows.setdefault((panel, alike), new)
                row["cells"] += 1
                if cell.config_hash in records:
                    row["records"].append(records[cell.config_hash])
        points = pd.DataFrame([self._point(**row) for row in rows.values()])
        return points.astype(dict.fromkeys(("x", "y", "error", "bayes"), float))

    def verdicts(self, points: pd.DataFrame, records: Records) -> list[Verdict]:
        """Returns what the records say of each statement of the paper's text, in its order.

        Raises:
            InputError: a check that cannot be read, or asks for what the figure does not have.
        """
        verdicts = []
        for statement in self.spec.statements:
            try:
                check = read_check(statement.check, self.spec.x.symbol)
                other = points
                if check.other:
                    other = load_figure(check.other, self.budget).points(records)
                wanted = statement.panels or points.panel.unique()
                names = [text(each) for each in wanted]
                panels = {name: self.spec.panel_title(name) for name in names}
                verdicts.append(judge(compare(check, points, other, panels)))
            except InputError as error:
                where = f"experiment={self.experiment.name}, {statement.check!r}"
                raise InputError(f"{where}: {error}") from None
        return verdicts

    def _panels(self, cell: Cell) -> list[str]:
        """Returns the panels of a cell: its own, or all if it has no such key."""
        key = self.spec.panels.key
        if key is None:
            return [""]
        if _setting(cell, key) is not None:
            return [text(_setting(cell, key))]
        values = [_setting(other, key) for other in self.cells]
        return list(dict.fromkeys(text(value) for value in values if value is not None))

    def _point(self, panel: str, cell: Cell, cells: int, records: list[Record]) -> dict[str, Any]:
        y = self.spec.y
        found = average(records, y.key)
        estimate = found.estimate.scaled(y.scale)
        bayes = next((r["bayes_accuracy"] for r in records if r.get("bayes_accuracy")), math.nan)
        line, said = self._line(cell)
        return {
            "panel": panel,
            "line": line,
            "name": _name(said, cell, found.kept),
            "mechanism": cell.identity["mechanism"],
            "x": self._x(cell, found.kept),
            "estimate": estimate,
            "y": estimate.value,
            "error": estimate.half_width,
            "bayes": bayes * y.scale,
            "cells": cells,
            "n": len(found.kept),
            "older": found.older,
            "records": found.kept,
            "cell": cell,
        }

    def _line(self, cell: Cell) -> tuple[str, str]:
        """Returns what statements call the line of a cell, and what people do."""
        key = self.spec.lines
        if key in ("method", "method+model"):
            line = method_of(cell) + (f"+{cell.identity['model']}" if key != "method" else "")
            return line, line
        line = text(_setting(cell, key))
        return line, f"{key.rpartition('.')[2]}={line}"

    def _x(self, cell: Cell, records: list[Record]) -> float:
        x = self.spec.x
        value = _setting(cell, x.key)
        if value is None:  # x is a field of the record, or the point is a level
            known = {record.get(x.key) for record in records}
            # One value, as no privacy has eps=inf, needs no average.
            one = known.pop() if len(known) == 1 else None
            value = average(records, x.key).estimate.value if one is None else one
        number = float(value) * x.scale
        return number if math.isfinite(number) else math.nan


def load_figure(name: str, budget: str = PAPER) -> PaperFigure:
    """Returns the figure of the experiment called `name`, e.g. `blockrr/figure2`."""
    return PaperFigure(read_experiment(name), budget)


def paper_figures(budget: str = PAPER) -> list[PaperFigure]:
    """Returns every figure: each experiment whose YAML has a `figure:` section."""
    return [
        load_figure(name, budget) for name in experiment_names() if read_experiment(name).figure
    ]


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
