"""Tables of accuracies as Markdown and LaTeX."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.reports.figures.plotting import name_of

if TYPE_CHECKING:
    from labeldp_bench.reports.tables.accuracy import AccuracyTable

CAPTIONS = {
    "accuracy": "Test accuracy in percent",
    "per_class_mean": "Test accuracy in percent, averaged over classes",
    "class_accuracy": "Test accuracy of each class in percent",
}
QUICK_CAPTION = (
    "*ours (quick)*: a smaller version of the cell, for a machine without a GPU; not comparable "
    "with the printed value."
)
Row = dict[str, Any]


def markdown(
    table: "AccuracyTable", rows: pd.DataFrame, recipes: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """Returns the table for people.

    Args:
        table: says what the panels, lines and columns are.
        rows: of `table.rows`.
        recipes: {budget: {how the networks are trained: the methods for which they are}}.
    """
    parts = [
        f"# {table.paper}, table {table.number}",
        "",
        f"{CAPTIONS[table.metric]}. *ours*: mean ± standard deviation over seeds (their number), "
        "at paper budget. *paper*: the printed value. `*`: a difference of more than twice its "
        "standard error. `†`: printed, but known to be wrong."
        + ("" if set(rows.budget) == {PAPER} else f" {QUICK_CAPTION}"),
        "",
    ]
    for heading, group in panels(table, rows):
        columns = ordered(group, _column(table))
        lines = []
        for name, line in _lines(table, group):
            lines += _texts(table, name, line, columns)
        headings = [heading, "", *(_heading(table.columns, value) for value in columns)]
        frame = pd.DataFrame(lines, columns=headings)
        parts += [frame.to_markdown(index=False, disable_numparse=True), ""]
    parts += _notes(rows)
    for budget, trained in recipes.items():
        parts += _recipes(_whose(budget).capitalize(), trained)
    # A run of a per-class table fills one row per class.
    runs = rows[(rows.budget == PAPER) & (rows["class"].isna() | (rows["class"] == 0))]
    done = f"{runs.n.sum()} of {runs.cells.sum()} runs done"
    parts += ["", f"{done}; the others: `{table.experiment.command}`", ""]
    return "\n".join(parts)


def latex(table: "AccuracyTable", rows: pd.DataFrame) -> str:
    """Returns a booktabs table: ours, and the printed value in parentheses."""
    columns = ordered(rows, _column(table))
    heads = [_escaped(_heading(table.columns, value)) for value in columns]
    out = [f"\\begin{{tabular}}{{l{'r' * len(columns)}}}", "\\toprule"]
    out += [" & ".join(["", *heads]) + " \\\\"]
    for heading, group in panels(table, rows):
        if rows[list(table.panels)].drop_duplicates().shape[0] > 1:
            out += ["\\midrule", f"\\multicolumn{{{len(columns) + 1}}}{{l}}{{{_escaped(heading)}}}"]
            out[-1] += " \\\\"
        out.append("\\midrule")
        for name, line in _lines(table, group):
            for budget in _budgets(line):
                at = _at(table, line, budget)
                cells = [_pair(at.get(value)) for value in columns]
                head = name if budget == PAPER else f"{name} ({budget})"
                out.append(" & ".join([_escaped(head), *cells]) + " \\\\")
    return "\n".join([*out, "\\bottomrule", "\\end{tabular}", ""])


def panels(table: "AccuracyTable", rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields (heading, rows) of each part of the printed layout."""
    for values, group in rows.groupby(list(table.panels), sort=False):
        texts = [_heading(key, value) for key, value in zip(table.panels, values, strict=True)]
        yield ", ".join(texts), group


def ordered(rows: pd.DataFrame, key: str) -> list[Any]:
    """Returns the values of a key: methods that a paper prints before ours alone, else sorted."""
    if key != "method":
        return sorted(rows[key].unique())
    ours_alone = rows.published.isna().groupby(rows.method, sort=False).min()
    return list(ours_alone.sort_values(kind="stable").index)


def _column(table: "AccuracyTable") -> str:
    return "printed_eps" if table.columns == "eps" else table.columns


def _lines(table: "AccuracyTable", group: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for value in ordered(group, table.lines):
        line = group[group[table.lines] == value]
        trust = " (central)" if table.lines == "method" and "central" in set(line.trust) else ""
        yield _heading(table.lines, value) + trust, line


def _at(table: "AccuracyTable", line: pd.DataFrame, budget: str) -> dict[Any, Row]:
    """Returns {column: row} of the cells at one budget."""
    line = line[line.budget == budget]
    return {row[_column(table)]: row for row in line.to_dict("records")}


def _whose(budget: str) -> str:
    return "ours" if budget == PAPER else f"ours ({budget})"


def _texts(
    table: "AccuracyTable", name: str, line: pd.DataFrame, columns: Sequence[Any]
) -> list[list[str]]:
    """Returns what stands in the lines of one method: ours, the paper's and the difference."""
    paper = _at(table, line, PAPER)
    kinds: list[tuple[str, dict[Any, Row], Callable[[Row], str]]] = [
        *((_whose(budget), _at(table, line, budget), _ours) for budget in _budgets(line)),
        ("paper", paper, _printed),
        ("difference", paper, _difference),
    ]
    lines: list[list[str]] = []
    for kind, at, write in kinds:
        texts = [write(at[value]) if value in at else "" for value in columns]
        if any(texts):
            lines.append(["" if lines else name, kind, *texts])
    return lines


def _budgets(line: pd.DataFrame) -> list[str]:
    return [PAPER, *sorted(set(line.budget) - {PAPER})]


def _ours(row: Row) -> str:
    if not row["n"]:
        return "-" if row["cells"] else ""
    spread = f" ± {row['std']:.1f}" if row["n"] > 1 else ""
    real = "" if row["eps"] == row["printed_eps"] else f" at eps={row['eps']:g}"
    return f"{row['ours']:.1f}{spread} ({row['n']}){real}"


def _printed(row: Row) -> str:
    if math.isnan(row["published"]):
        return ""
    real = "" if row["eps"] == row["printed_eps"] else f" at eps={row['eps']:g}"
    return f"{row['published']:g}{real}" + ("" if row["usable"] else " †")


def _difference(row: Row) -> str:
    if math.isnan(row["difference"]):
        return ""
    return f"{round(row['difference'], 1) + 0.0:+.1f}" + ("*" if row["marked"] else "")


def _pair(row: Row | None) -> str:
    if row is None:
        return ""
    ours = f"{row['ours']:.1f}" if row["n"] else "--"
    printed = "" if math.isnan(row["published"]) else f" ({row['published']:g})"
    return ours + printed


def _heading(key: str, value: Any) -> str:
    if key == "eps":
        return f"eps={value:g}"
    if key == "class":
        return f"class {value:g}"
    return label(str(value)) if key == "method" else str(value)


def label(method: str) -> str:
    """Returns how a method is written for people.

    >>> label("blockrr_l2"), label("rappor+marginal")
    ('BlockRR, l=2', 'RAPPOR, marginal')
    """
    mechanism, *extras = method.split("+")
    name, _, tail = mechanism.rpartition("_")
    if tail[:1].isalpha() and tail[1:].isdigit():
        mechanism, extras = name, [f"{tail[0]}={tail[1:]}", *extras]
    return ", ".join([name_of(mechanism), *extras])


def _notes(rows: pd.DataFrame) -> list[str]:
    """Returns what is to be said of printed values, each note once."""
    lines = []
    for note, group in rows[rows.note != ""].groupby("note", sort=False):
        where = []
        for method, line in group.groupby("method", sort=False):
            budgets = ", ".join(f"{eps:g}" for eps in line.printed_eps.unique())
            where.append(f"{label(str(method))} at eps={budgets}")
        lines.append(f"- {'; '.join(where)}: {note}.")
    return lines


def _recipes(whose: str, recipes: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns how ours are trained, methods that are trained alike in one line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for recipe, methods in recipes.items():
        alike.setdefault(tuple(methods), []).append(recipe)
    return [
        f"- {whose}{_those(methods) if len(alike) > 1 else ''}: {' or '.join(texts)}."
        for methods, texts in alike.items()
    ]


def _those(methods: Sequence[str]) -> str:
    return f", {', '.join(label(method) for method in methods)}"


def _escaped(text: str) -> str:
    special = {"_": "\\_", "eps=inf": "$\\varepsilon=\\infty$", "%": "\\%"}
    for plain, written in special.items():
        text = text.replace(plain, written)
    head, equals, number = text.partition("eps=")
    return f"{head}$\\varepsilon={number}$" if equals else text
