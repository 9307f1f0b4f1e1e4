"""Tables of accuracies as Markdown and LaTeX."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.reports.naming import method_name
from labeldp_bench.reports.rendering import markdown_table, number_text
from labeldp_bench.reports.statistics import PLUS_MINUS
from labeldp_bench.reports.tables.latex import latex_table, replaced, spanning

CAPTIONS = {
    "accuracy": "Test accuracy in percent",
    "per_class_mean": "Test accuracy in percent, averaged over classes",
    "class_accuracy": "Test accuracy of each class in percent",
}
SMALLER_CAPTIONS = {
    "card": "*ours (card)*: the published network, batch and rates for at most 30 epochs, one "
    "seed; not of the paper's length.",
    "quick": "*ours (quick)*: a smaller version of the cell, for a machine without a GPU (on CIFAR "
    "half an hour of one core, one network and recipe for all methods); not comparable with the "
    "printed value.",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """Arranges the rows of an `AccuracyTable`.

    Attributes:
        panels, lines, columns: keys of rows that tell apart the parts of the printed layout.
        names: {method: how it is written for people} where that is not `method_name` alone.
    """

    panels: Sequence[str]
    lines: str
    columns: str
    names: Mapping[str, str] = field(default_factory=dict)

    def markdown(self, rows: pd.DataFrame) -> list[str]:
        """Returns a Markdown table per panel: lines of ours, the paper's and the difference."""
        tables = []
        for heading, group in self._panels(rows):
            columns = self._values(group, self._column)
            texts: list[list[str]] = []
            for name, line in self._lines(group):
                ours = [(_whose(budget), budget, _ours) for budget in _budgets(line)]
                head = name
                for kind, budget, write in [
                    *ours, ("paper", PAPER, _printed), ("difference", PAPER, _difference)
                ]:  # fmt: skip
                    at = self._at(line, budget)
                    shown = [write(at[value]) if value in at else "" for value in columns]
                    if any(shown):
                        texts.append([head, kind, *shown])
                        head = ""
            headings = [heading, "", *(_heading(self.columns, value) for value in columns)]
            tables.append(markdown_table(texts, headings))
        return tables

    def latex(self, rows: pd.DataFrame) -> str:
        """Returns a booktabs table: ours, and the printed value in brackets."""
        columns = self._values(rows, self._column)
        panels = list(self._panels(rows))
        blocks = []
        for heading, group in panels:
            if len(panels) > 1:
                blocks.append([spanning(_escaped(heading), len(columns) + 1)])
            block = []
            for name, line in self._lines(group):
                for budget in _budgets(line):
                    at = self._at(line, budget)
                    head = name if budget == PAPER else f"{name} ({budget})"
                    pairs = (_pair(at[value]) if value in at else "" for value in columns)
                    block.append([_escaped(head), *pairs])
            blocks.append(block)
        heads = [_escaped(_heading(self.columns, value)) for value in columns]
        return latex_table("l" + "r" * len(columns), ["", *heads], blocks)

    @property
    def _column(self) -> str:
        return "printed_eps" if self.columns == "eps" else self.columns

    def _panels(self, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yields (heading, rows) of each part of the printed layout."""
        for values, group in rows.groupby(list(self.panels), sort=False):
            yield ", ".join(map(_heading, self.panels, values)), group

    def _lines(self, group: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yields (name, rows) of each line of a panel."""
        for value in self._values(group, self.lines):
            line = group[group[self.lines] == value]
            trust = " (central)" if self.lines == "method" and "central" in set(line.trust) else ""
            yield self.names.get(str(value), _heading(self.lines, value)) + trust, line

    def _values(self, rows: pd.DataFrame, key: str) -> list[float | str]:
        """Returns the values of a key, sorted; methods that a paper prints before ours alone."""
        if key != "method":
            return sorted(rows[key].unique())
        ours_alone = rows.published.isna().groupby(rows.method, sort=False).min()
        return list(ours_alone.sort_values(kind="stable").index)

    def _at(self, line: pd.DataFrame, budget: str) -> dict[float | str, Row]:
        """Returns {column: row} of the cells at one budget."""
        rows = line[line.budget == budget].to_dict("records")
        return {row[self._column]: row for row in rows}


def caption(metric: str, budgets: set[str], rows: pd.DataFrame) -> str:
    """Returns what the numbers of a table are, and how its differences are tested."""
    tests = rows.p.notna().sum() if len(rows) else 0
    smaller = "".join(f" {text}" for name, text in SMALLER_CAPTIONS.items() if name in budgets)
    return (
        f"{CAPTIONS[metric]}. *ours*: mean over seeds (their number), at paper budget. "
        f"{PLUS_MINUS} *paper*: the printed value. `*`: a difference that is significant at 5 %, "
        f"t test with Holm's correction for the {tests} differences of this table that can be "
        "tested (two seeds or more); it counts the paper's runs, taken to spread as ours where it "
        f"states no spread, and the number of test images. `†`: printed, but known to be wrong."
        f"{smaller}"
    )


def notes(rows: pd.DataFrame) -> list[str]:
    """Returns the notes on printed values, each once."""
    lines = []
    for note, group in rows[rows.note != ""].groupby("note", sort=False):
        where = []
        for method, line in group.groupby("method", sort=False):
            budgets = ", ".join(f"{eps:g}" for eps in line.printed_eps.unique())
            where.append(f"{method_name(str(method))} at eps={budgets}")
        lines.append(f"- {'; '.join(where)}: {note}.")
    return lines


def training(budget: str, recipes: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns how ours are trained at a budget, methods that are trained alike in one line.

    Recipes are {how a network is trained: names of the methods for which it is}.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for recipe, methods in recipes.items():
        alike.setdefault(tuple(methods), []).append(recipe)
    lines = []
    for methods, texts in alike.items():
        those = ", ".join(["", *methods]) if len(alike) > 1 else ""
        lines.append(f"- {_whose(budget).capitalize()}{those}: {' or '.join(texts)}.")
    return lines


def _whose(budget: str) -> str:
    return "ours" if budget == PAPER else f"ours ({budget})"


def _budgets(line: pd.DataFrame) -> list[str]:
    return [PAPER, *sorted(set(line.budget) - {PAPER})]


def _ours(row: Row) -> str:
    if not row["n"]:
        return "-" if row["cells"] else ""
    spread = number_text((row["high"] - row["low"]) / 2, " ± {:.1f}", unknown="")
    return f"{row['ours']:.1f}{spread} ({row['n']}){_real_eps(row)}"


def _printed(row: Row) -> str:
    if math.isnan(row["published"]):
        return ""
    return f"{row['published']:g}{_real_eps(row)}" + ("" if row["usable"] else " †")


def _real_eps(row: Row) -> str:
    return "" if row["eps"] == row["printed_eps"] else f" at eps={row['eps']:g}"


def _difference(row: Row) -> str:
    if math.isnan(row["difference"]):
        return ""
    return f"{row['difference']:+z.1f}" + ("*" if row["marked"] else "")


def _pair(row: Row) -> str:
    ours = _ours(row).replace("±", "$\\pm$") if row["n"] else "--"
    if math.isnan(row["published"]):
        return ours
    wrong = "" if row["usable"] else "$^\\dagger$"
    printed = f"{row['published']:g}{_real_eps(row)}{wrong}"
    return f"{ours} [{printed}]" + ("*" if row["marked"] else "")


def _heading(key: str, value: float | str) -> str:
    if key in ("eps", "class"):
        return f"eps={value:g}" if key == "eps" else f"class {value:g}"
    return method_name(str(value)) if key == "method" else str(value)


def _escaped(text: str) -> str:
    special = {"_": "\\_", "eps=inf": "$\\varepsilon=\\infty$", "%": "\\%"}
    head, equals, number = replaced(text, special).partition("eps=")
    return f"{head}$\\varepsilon={number}$" if equals else replaced(text, special)
