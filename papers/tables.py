"""A paper's table from records: rows as CSV, the page as Markdown and LaTeX.

Which cells a table has is said by its experiment YAML, what the paper prints by its CSV under
results/published, and how it is laid out by the `table:` node of the YAML.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd

from labeldp.support.files import write_text
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.published import method_of, published_of
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.durations import examples_of
from labeldp_bench.reports.naming import setting_of
from labeldp_bench.reports.rendering import Part, latex_of, markdown_of, number_text
from labeldp_bench.reports.statistics import (
    OLDER,
    PLUS_MINUS,
    SeedsEstimate,
    from_seeds,
    holm,
    is_significant,
    left_out,
    newest,
    without_zeros,
)
from labeldp_bench.support.checkout import CHECKOUT
from papers.comparisons import against_printed
from papers.naming import SMALLER, method_name

TABLES = CHECKOUT / "results" / "tables"
KEY = ["dataset", "method", "eps", "class"]
NO_CLASS = -1
NO_RUN = "-"
"""Stands where a cell of ours has no run."""
WIDE = 50
"""Half an interval in points from which on it tells nothing: the scale has 100."""
CAPTIONS = {
    "accuracy": "Test accuracy in percent",
    "per_class_mean": "Test accuracy in percent, averaged over classes",
    "class_accuracy": "Test accuracy of each class in percent",
}
SMALLER_CAPTIONS = {
    "card": "*ours (card)*: the published network, batch and rates for at most 30 epochs, one "
    "seed; not of the paper's length.",
    "features": "*ours (features)*: the paper's mechanism, data, eps and loss, with a linear "
    "classifier on features from ImageNet's labels in place of its network, so that a starred "
    "mechanism is the one without a star; compare methods with one another, not with the published "
    "value.",
    "quick": "*ours (quick)*: a smaller version of the cell, for a machine without a GPU (on CIFAR "
    "half an hour of one core, one network and recipe for all methods); not comparable with the "
    "printed value.",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Table(ABC):
    """One table of a paper, and the experiment behind it."""

    experiment: Experiment

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Returns the table that the `table:` node of an experiment's YAML describes."""
        elsewhere = ("kind", "really", "readings")  # the last two are for `published_of`
        node = experiment.table or {}
        return cls(experiment, **{key: node[key] for key in node if key not in elsewhere})

    @property
    def paper(self) -> str:
        """Short name, e.g. `vector_approximation`."""
        return self.experiment.name.partition("/")[0]

    @property
    def number(self) -> str:
        """As the paper numbers it, e.g. `1a`."""
        return self.experiment.name.rpartition("/")[2].removeprefix("table")

    @property
    def stem(self) -> str:
        """Name of its files."""
        return self.experiment.name.replace("/", "_")

    @property
    def title(self) -> str:
        """The title above it."""
        return f"{self.paper}, table {self.number}"

    @abstractmethod
    def rows(self, records: Records) -> pd.DataFrame:
        """Returns all that the table shows, one row per number: this is the CSV."""

    @abstractmethod
    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the paragraphs and tables below the title."""

    def markdown(self, rows: pd.DataFrame) -> str:
        """Returns the table for people."""
        return markdown_of([f"# {self.title}", *self.parts(rows)])


def write_page(
    stem: str, rows: pd.DataFrame | None, title: str, parts: Sequence[Part], digits: int = 4
) -> None:
    """Writes a table into results/tables: rows, if any, as CSV, parts as Markdown and LaTeX."""
    TABLES.mkdir(parents=True, exist_ok=True)
    if rows is not None:
        write_csv(TABLES / f"{stem}.csv", rows, digits)
    write_text(TABLES / f"{stem}.md", markdown_of([f"# {title}", *parts]))
    write_text(TABLES / f"{stem}.tex", latex_of(parts))


def write_csv(path: Path, rows: pd.DataFrame, digits: int = 4) -> None:
    """Writes rows with so many digits; the same on every system."""
    numbers = rows.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")
    write_text(path, numbers)


@dataclass(frozen=True)
class AccuracyTable(Table):
    """Accuracies of runs, over all test images, averaged over classes, or of each class.

    Which of the three is the metric of the paper's rows. A cell that is not at paper budget has
    rows of its own, without a published value.

    Attributes:
        published_runs: how many runs a printed value averages, where the paper says so.
        variant: {letter: setting} where methods differ in a setting too: `{l: mechanism.favoured}`
            makes of `blockrr` the methods `blockrr_l0`, `blockrr_l1`, ...
        panels, lines, columns: which keys tell apart the parts of the printed layout.
    """

    published_runs: int = 1
    variant: Mapping[str, str] = field(default_factory=dict)
    panels: Sequence[str] = ("dataset",)
    lines: str = "method"
    columns: str = "eps"

    @cached_property
    def metric(self) -> str:
        """What the paper's rows are: accuracy, per_class_mean or class_accuracy."""
        metrics = self._published.metric
        return str(metrics.iloc[0]) if len(metrics) else "accuracy"

    @cached_property
    def names(self) -> dict[str, str]:
        """{method: how it is written for people}, with the setting that our runs of it have."""
        return {each: method_name(each, own) for each, own in self._settings(PAPER).items()}

    def _settings(self, budget: str) -> dict[str, str]:
        """Returns {method: which of the settings of its name its cells at a budget have}."""
        settings: dict[str, dict[str, None]] = defaultdict(dict)
        for cell in self.experiment.cells(budget):
            settings[self.method_of(cell)][setting_of(cell.identity)] = None
        return {each: " or ".join(filter(None, own)) for each, own in settings.items()}

    def method_of(self, cell: Cell) -> str:
        """Returns what the table calls a cell's method."""
        return method_of(cell, self.variant)

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (data set, method, eps, class, budget).

        Columns: these; cells and n (runs that it has, that are done); ours over seeds, its std, and
        low and high of its 95 % t interval; trust, n_test; published, published_std, usable, note;
        best_epoch, the accuracy in the best epoch of what is one run alone, if any is known;
        difference; p (of the difference, after Holm's correction for the table), effect (the
        difference in standard deviations over seeds), marked; printed_eps, the column of the paper;
        model, epochs, examples, selection. Percent throughout; `class` is missing but for
        per-class tables, `ours` until a cell is done. `marked` says that p is below 5 %; never
        where only one seed is done. `older` counts runs that are left out (see
        `statistics.newest`); there is no such column without any.
        """
        printed = self._published.rename(columns={"value": "published", "std": "published_std"})
        printed = printed[[*KEY, "published", "published_std", "usable", "note", "printed_eps"]]
        ours = self._ours(records)
        rows = ours.merge(printed, how="outer", on=KEY).assign(budget=PAPER)
        order = {method: place for place, method in enumerate(ours.method.unique())}
        rows = rows.iloc[rows.method.map(order).argsort(kind="stable")]
        there = {record.get("budget") for record in records.values()}
        for budget in SMALLER:
            if budget in there and self.experiment.cells(budget):
                less = self._ours(records, budget)
                less = less.merge(printed[[*KEY, "printed_eps"]], how="left", on=KEY)
                rows = pd.concat([rows, less[less.n > 0].assign(budget=budget)])
        rows["usable"] = rows.usable.fillna(True).astype(bool)
        for column in ("cells", "n", OLDER):
            rows[column] = rows[column].fillna(0).astype(int)
        rows["printed_eps"] = rows.printed_eps.fillna(rows.eps)
        rows["note"] = rows.note.fillna("")
        rows["difference"] = rows.ours - rows.published
        rows["p"] = holm([self._chance(row) for row in rows.to_dict("records")])
        rows["effect"] = rows.difference / rows["std"]
        rows["marked"] = rows.p.map(is_significant)
        rows["class"] = rows["class"].where(rows["class"] != NO_CLASS)
        if rows.best_epoch.isna().all():
            rows = rows.drop(columns="best_epoch")
        return without_zeros(rows)

    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the page: lines of ours, the paper's and the difference; how ours are trained."""
        budgets = [budget for budget in (PAPER, *SMALLER) if (rows.budget == budget).any()]
        training = [line for budget in budgets for line in self._training(budget)]
        # A run of a per-class table fills one row per class.
        runs = rows[rows["class"].isna() | (rows["class"] == 0)]
        paper = runs[runs.budget == PAPER]
        count = paper.n.sum() + (paper[OLDER].sum() if OLDER in paper else 0)
        wanted, command = int(paper.cells.sum()), self.experiment.command
        done = f"all {wanted} runs done: `{command}`"
        if count < wanted:
            done = f"{count} of {wanted} runs done; the others: `{command}`"
            if len(budgets) > 1:
                done = (
                    f"{'Only ' * bool(count)}{count} of {wanted} cells have the paper's length; "
                    f"compare the shorter ones with each other. The others: `{command}`"
                )
        return [
            self._caption(rows, budgets),
            *self._frames(rows),
            "\n".join([*notes(rows), *training, *without_runs(paper), *single_runs(paper)]),
            *left_out(runs),
            done,
        ]

    @cached_property
    def _published(self) -> pd.DataFrame:
        """The rows of the paper's table, at the eps that they really have."""
        rows = published_of(self.experiment)
        rows = rows[rows.table == self.number].copy()
        rows["class"] = rows["class"].fillna(NO_CLASS).astype(int)
        return rows

    def _ours(self, records: Records, budget: str = PAPER) -> pd.DataFrame:
        """Returns the part of `rows` that comes from our runs at one budget."""
        points: dict[tuple[str, str, float], list[Cell]] = defaultdict(list)
        for cell in self.experiment.cells(budget):
            eps = float(cell.identity.get("mechanism.eps", math.inf))
            points[cell.dataset_name, self.method_of(cell), eps].append(cell)
        rows = []
        for place, cells in points.items():
            found = records_of(cells, records)
            kept = newest(found)
            by_class = self.metric == "class_accuracy"
            # Cells that differ only in the seed have the same classes.
            for number in range(cells[0].num_classes) if by_class else [NO_CLASS]:
                pairs = [measured(cells[0], record, self.metric, number) for record in kept]
                values = pd.Series([value for value, _ in pairs], dtype=float)
                mean = from_seeds(values.dropna().to_dict())
                row = dict(zip(KEY, (*place, number), strict=True)) | {
                    "cells": len(cells),
                    "n": values.count(),
                    "ours": mean.value,
                    "std": values.std(),
                    "low": mean.low,
                    "high": mean.high,
                    "trust": kept[0]["trust"] if kept else None,
                    "n_test": pairs[0][1] if pairs else math.nan,
                    OLDER: len(found) - len(kept),
                    "best_epoch": self._best_epoch(kept),
                }
                rows.append(row | recipe_of(cells[0]))
        return pd.DataFrame(rows)

    def _best_epoch(self, runs: Sequence[Record]) -> float:
        """Returns the accuracy of one run alone in its best epoch, in percent; NaN if unknown."""
        if len(runs) != 1 or self.metric != "accuracy":
            return math.nan
        return 100 * (runs[0].get("best_epoch_accuracy") or math.nan)

    def _chance(self, row: Row) -> float:
        """Returns the p value of a difference from print (in percent); NaN where unknown."""
        seeds = int(row["n"])
        if seeds < 2 or math.isnan(row["difference"]) or not row["usable"]:
            return math.nan
        same = {seed: float(row["ours"]) for seed in range(seeds)}
        ours = SeedsEstimate(row["ours"], row["std"] / math.sqrt(seeds), seeds - 1, same)
        spread, runs = row["published_std"], self.published_runs
        return against_printed(ours, row["published"], row["n_test"], spread=spread, runs=runs).p

    def _caption(self, rows: pd.DataFrame, budgets: Sequence[str]) -> str:
        """Returns what the numbers of the table are, and how its differences are tested."""
        said = [
            f"{CAPTIONS[self.metric]}. *ours*: mean over seeds (their number), at paper budget: "
            "its recipe, and ours where it states none, as often of epochs (configs/trainer)."
        ]
        said.append(PLUS_MINUS)
        if (_half_width(rows) > WIDE).any():
            said.append(f"Over {WIDE}: wider than the scale.")
        said.append("*paper*: the printed value.")
        if tests := rows.p.count():
            said.append(
                "`*`: a difference that is significant at 5 %, t test with Holm's correction for "
                f"the {tests} differences of this table that can be tested (two seeds or more); it "
                "counts the paper's runs, taken to spread as ours where it states no spread, and "
                "the number of test images."
            )
        if not rows.usable.all():
            said.append("`†`: printed, but known to be wrong.")
        return " ".join([*said, *(SMALLER_CAPTIONS[name] for name in SMALLER if name in budgets)])

    def _frames(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yields a frame of texts per panel: lines of ours, the paper's and the difference."""
        column = "printed_eps" if self.columns == "eps" else self.columns
        # Where all have public features a star says nothing: its runs are copies.
        copies = rows.duplicated(["budget", "dataset", "eps", "class", "ours", "std"])
        copies &= rows.method.str.endswith("_star") & (rows.budget != PAPER)
        for values, panel in rows[~copies].groupby(list(self.panels), sort=False):
            columns = _in_order(panel, column)
            lines: list[list[str]] = []
            for value in _in_order(panel, self.lines):
                line = panel[panel[self.lines] == value]
                at = {(row["budget"], row[column]): row for row in line.to_dict("records")}
                smaller = [budget for budget in SMALLER if budget in set(line.budget)]
                kinds = [("ours", PAPER, _ours_text)]
                kinds += [(self._kind(budget, value), budget, _ours_text) for budget in smaller]
                kinds += [("paper", PAPER, _printed_text), ("difference", PAPER, _difference_text)]
                head = self._line_name(value, line)
                for kind, budget, write in kinds:
                    texts = [write(at[budget, x]) if (budget, x) in at else "" for x in columns]
                    if {*texts} - {"", NO_RUN}:
                        lines.append([head, kind, *texts])
                        head = ""
            heading = ", ".join(map(_heading, self.panels, values))
            heads = [heading, "", *(_heading(self.columns, value) for value in columns)]
            yield pd.DataFrame(lines, columns=heads)

    def _kind(self, budget: str, value: Any) -> str:
        """Returns what a line of a smaller budget is called; names a setting of its own."""
        own = self._settings(budget).get(value, "")
        differs = own and own != self._settings(PAPER)[value]
        return f"ours ({budget}, {own})" if differs else f"ours ({budget})"

    def _line_name(self, value: Any, line: pd.DataFrame) -> str:
        is_central = self.lines == "method" and "central" in set(line.trust)
        own = self.names.get(str(value), _heading(self.lines, value))
        return own + " (central)" * is_central

    def _training(self, budget: str) -> Iterator[str]:
        """Yields how ours are trained at a budget, methods that are trained alike in one line."""
        methods: dict[str, dict[str, None]] = {}
        for cell in self.experiment.cells(budget):
            recipe = recipe_of(cell)
            text = recipe["model"]
            if recipe["epochs"]:
                text += f", {recipe['epochs']} epochs, {recipe['examples']:,.0f} training examples"
                text += f", selection {recipe['selection']}".replace("_", " ")
            methods.setdefault(text, {})[self.names[self.method_of(cell)]] = None
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for text, names in methods.items():
            alike[tuple(names)].append(text)
        whose = "Ours" if budget == PAPER else f"Ours ({budget})"
        for names_alike, texts in alike.items():
            those = ", ".join(["", *names_alike]) if len(alike) > 1 else ""
            yield f"- {whose}{those}: {' or '.join(texts)}."


def records_of(cells: Iterable[Cell], records: Records) -> list[Record]:
    """Returns the records of those cells that are done: exactly its own identity fills a cell."""
    return [records[cell.config_hash] for cell in cells if cell.config_hash in records]


def accuracy_table(name: str) -> AccuracyTable:
    """Returns the table of the experiment called `name`, which is one of accuracies."""
    return AccuracyTable.of(read_experiment(name))


def notes(rows: pd.DataFrame) -> Iterator[str]:
    """Yields the notes on printed values, each once."""
    for note, group in rows[rows.note != ""].groupby("note", sort=False):
        where = [
            f"{method_name(str(method))} at eps="
            + ", ".join(f"{eps:g}" for eps in line.printed_eps.unique())
            for method, line in group.groupby("method", sort=False)
        ]
        yield f"- {'; '.join(where)}: {note}."


def without_runs(rows: pd.DataFrame) -> Iterator[str]:
    """Yields which methods have no run at paper budget, and so no line, in one line."""
    counts = rows.groupby("method", sort=False)[["n", "cells"]].sum()
    missing = counts[(counts.n == 0) & (counts.cells > 0)]
    if len(missing):
        names = (f"{method_name(str(name))} (0 of {row.cells})" for name, row in missing.iterrows())
        yield f"- No run of ours at paper budget: {', '.join(names)}."


def single_runs(rows: pd.DataFrame) -> Iterator[str]:
    """Yields how far the last epoch of what is one run alone is from its best one, in one line."""
    known = rows[rows.best_epoch.notna()] if "best_epoch" in rows else rows.head(0)
    runs = [
        f"{method_name(row['method'])} at eps={row['printed_eps']:g} ends at {row['ours']:.1f} "
        f"(best epoch {row['best_epoch']:.1f})"
        for row in known.to_dict("records")
    ]
    if runs:
        yield f"- One run alone says little of a method: {'; '.join(runs)}."


def recipe_of(cell: Cell) -> Row:
    """Returns a cell's model, epochs, training examples and selection of the epoch."""
    selection = cell.setting("trainer.selection")
    return {
        "model": str(cell.identity["model"]),
        "epochs": cell.setting("trainer.epochs"),
        "examples": examples_of(cell.identity),
        "selection": selection and str(selection),
    }


def measured(cell: Cell, record: Record, metric: str, number: int) -> tuple[float, float]:
    """Returns a record's value in percent, and how many test images it is as good as."""
    if metric == "accuracy":
        return 100 * record["accuracy"], record["n_test"]
    # The test images of each class: even, but for the imbalanced sets.
    shares = cell.config["dataset"].get("train_counts") or [1] * cell.num_classes
    counts = [record["n_test"] * share / sum(shares) for share in shares]
    if metric == "per_class_mean":
        return 100 * record["per_class_mean"], len(counts) ** 2 / sum(1 / n for n in counts)
    classes = record.get("per_class_accuracy")
    return 100 * classes[number] if classes else math.nan, counts[number]


def _in_order(rows: pd.DataFrame, key: str) -> list[Any]:
    """Returns the values of a key, sorted; methods that a paper prints come before others."""
    if key != "method":
        return sorted(rows[key].unique())
    ours_alone = rows.published.isna().groupby(rows.method, sort=False).min()
    return list(ours_alone.sort_values(kind="stable").index)


def _half_width(row: Any) -> Any:
    return (row["high"] - row["low"]) / 2


def _ours_text(row: Row) -> str:
    if not row["n"]:
        return NO_RUN if row["cells"] else ""
    half = _half_width(row)
    spread = f" ± over {WIDE}" if half > WIDE else number_text(half, " ± {:.1f}", unknown="")
    return f"{row['ours']:.1f}{spread} ({row['n']}){_real_eps(row)}"


def _printed_text(row: Row) -> str:
    wrong = "" if row["usable"] else " †"
    return number_text(row["published"], f"{{:g}}{_real_eps(row)}{wrong}", unknown="")


def _difference_text(row: Row) -> str:
    return number_text(row["difference"], "{:+z.1f}" + "*" * bool(row["marked"]), unknown="")


def _real_eps(row: Row) -> str:
    return "" if row["eps"] == row["printed_eps"] else f" at eps={row['eps']:g}"


def _heading(key: str, value: Any) -> str:
    if key in ("eps", "class"):
        return f"eps={value:g}" if key == "eps" else f"class {value:g}"
    return method_name(str(value)) if key == "method" else str(value)
