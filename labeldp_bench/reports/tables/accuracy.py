"""The usual kind of table: accuracies of runs, ours beside the printed ones."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.draws import OLDER, left_out, newest, records_of, without_zeros
from labeldp_bench.reports.estimates import examples_of
from labeldp_bench.reports.naming import SMALLER, method_name, setting_of
from labeldp_bench.reports.statistics import (
    SeedsEstimate,
    against_printed,
    from_seeds,
    holm,
    is_significant,
)
from labeldp_bench.reports.tables.base import Table
from labeldp_bench.reports.tables.latex import latex_notes
from labeldp_bench.reports.tables.layout import Layout, caption, notes, training
from labeldp_bench.support.checkout import CONFIGS

KEY = ["dataset", "method", "eps", "class"]
NO_CLASS = -1


@dataclass(frozen=True, kw_only=True)
class AccuracyTable(Table):
    """Accuracies of runs, over all test images, averaged over classes, or of each class.

    Which of the three is the metric of the paper's rows. A cell that is not at paper budget stands
    in rows of its own, with nothing printed beside it.

    Attributes:
        published_runs: how many runs a printed value averages, where the paper says so.
        really: {method: {printed eps: real eps}} where a paper's column is not what it says.
        readings: {method: row} where the paper does not say which of two methods its row is:
            each has the printed value beside it.
        variant: {letter: setting} where methods differ in a setting too: `{l: mechanism.favoured}`
            makes of `blockrr` the methods `blockrr_l0`, `blockrr_l1`, ...
        panels, lines, columns: which keys tell apart the parts of the printed layout.
    """

    published_runs: int = 1
    really: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    readings: Mapping[str, str] = field(default_factory=dict)
    variant: Mapping[str, str] = field(default_factory=dict)
    panels: Sequence[str] = ("dataset",)
    lines: str = "method"
    columns: str = "eps"

    @property
    def metric(self) -> str:
        """What the paper's rows are: accuracy, per_class_mean or class_accuracy."""
        metrics = self._published().metric
        return str(metrics.iloc[0]) if len(metrics) else "accuracy"

    @cached_property
    def names(self) -> dict[str, str]:
        """{method: how it is written for people}, with the setting that our runs of it have."""
        settings: dict[str, dict[str, None]] = defaultdict(dict)
        for cell in self.experiment.cells():
            settings[self.method_of(cell)][setting_of(cell.identity)] = None
        return {
            method: method_name(method, " or ".join(filter(None, found)))
            for method, found in settings.items()
        }

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (data set, method, eps, class, budget).

        Columns: these; cells and n (runs that it has, that are done); ours over seeds, its std, and
        low and high of its 95 % t interval; trust, n_test; published, published_std, usable, note;
        difference; p (of the difference, after Holm's correction for the table), effect (the
        difference in standard deviations over seeds), marked; printed_eps, the column of the paper;
        model, epochs, examples, selection. Percent throughout; `class` is missing but for
        per-class tables, `ours` until a cell is done. `marked` says that p is below 5 %; never
        where one seed alone is done. `older` counts runs that are left out (see `reports.draws`);
        there is no such column without any.
        """
        published = self._published()
        printed = published[[*KEY, "value", "std", "usable", "note", "printed_eps"]].rename(
            columns={"value": "published", "std": "published_std"}
        )
        ours = self._ours(records, self.metric)
        rows = ours.merge(printed, how="outer", on=KEY).assign(budget=PAPER)
        order = {method: place for place, method in enumerate(ours.method.unique())}
        rows = rows.iloc[rows.method.map(order).argsort(kind="stable")]
        there = {record.get("budget") for record in records.values()}
        for budget in SMALLER:
            if budget in there:
                less = self._ours(records, self.metric, budget)
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
        return without_zeros(rows)

    def parts(self, rows: pd.DataFrame) -> list[str]:
        """Returns the page: lines of ours, the paper's and the difference; how ours are trained."""
        budgets = [budget for budget in (PAPER, *SMALLER) if (rows.budget == budget).any()]
        lines = notes(rows)
        for budget in budgets:
            lines += training(budget, self._recipes(budget))
        # A run of a per-class table fills one row per class.
        runs = rows[rows["class"].isna() | (rows["class"] == 0)]
        older = left_out(runs)
        runs = runs[runs.budget == PAPER]
        count = runs.n.sum() + (runs[OLDER].sum() if OLDER in runs else 0)
        wanted, command = int(runs.cells.sum()), self.experiment.command
        done = f"all {wanted} runs done: `{command}`"
        if count < wanted:
            done = f"{count} of {wanted} runs done; the others: `{command}`"
        return [
            caption(self.metric, set(budgets), rows),
            *self._layout.markdown(rows),
            "\n".join(lines),
            *older,
            done,
        ]

    def latex(self, rows: pd.DataFrame) -> str:
        """Returns a booktabs table: ours, and the printed value in brackets; notes below."""
        below = [part for part in self.parts(rows) if not part.startswith("|")]
        return self._layout.latex(rows) + latex_notes(below)

    def method_of(self, cell: Cell) -> str:
        """Returns what the table calls a cell's method."""
        return method_of(cell, self.variant)

    @property
    def _layout(self) -> Layout:
        return Layout(self.panels, self.lines, self.columns, self.names)

    def _published(self) -> pd.DataFrame:
        """Returns the rows of the paper's table, at the eps that they really have."""
        rows = read_published(self.paper)
        rows = rows[rows.table == self.number].assign(printed_eps=lambda frame: frame.eps)
        rows["class"] = rows["class"].fillna(NO_CLASS).astype(int)
        for method, moved in self.really.items():
            for printed, real in moved.items():
                found = (rows.method == method) & (rows.printed_eps == printed)
                rows.loc[found, "eps"] = float(real)
                rows.loc[found, "usable"] = True  # at its real eps the number is right
        for method, row in self.readings.items():
            unclear = (rows.method == row) & (rows.note == "")
            rows.loc[unclear, "note"] = "the paper does not say which of these it printed"
            rows = pd.concat([rows, rows[rows.method == row].assign(method=method)])
        return rows

    def _ours(self, records: Records, metric: str, budget: str = PAPER) -> pd.DataFrame:
        """Returns the part of `rows` that comes from our runs at one budget."""
        points: dict[tuple[str, str, float], list[Cell]] = defaultdict(list)
        for cell in self.experiment.cells(budget):
            eps = float(cell.identity.get("mechanism.eps", math.inf))
            points[cell.dataset_name, self.method_of(cell), eps].append(cell)
        rows = []
        for place, cells in points.items():
            found = records_of(cells, records)
            kept = newest(found)
            trust = kept[0]["trust"] if kept else None
            # Cells that differ in the seed alone have the same classes.
            for number in range(cells[0].num_classes) if metric == "class_accuracy" else [NO_CLASS]:
                pairs = [_measured(cells[0], record, metric, number) for record in kept]
                values = pd.Series([value for value, _ in pairs], dtype=float)
                n_test = pairs[0][1] if pairs else math.nan
                mean = from_seeds(values.dropna().to_dict())
                rows.append(
                    (*place, number, len(cells), values.count(), mean.value, values.std(),
                     mean.low, mean.high, trust, n_test, len(found) - len(kept),
                     *recipe_of(cells[0]))
                )  # fmt: skip
        columns = [*KEY, "cells", "n", "ours", "std", "low", "high", "trust", "n_test", OLDER]
        columns += ["model", "epochs", "examples", "selection"]
        return pd.DataFrame(rows, columns=columns)

    def _recipes(self, budget: str) -> dict[str, list[str]]:
        """Returns {network, epochs, examples and selection: names of methods trained so}."""
        found: dict[str, dict[str, None]] = {}
        for cell in self.experiment.cells(budget):
            model, epochs, examples, selection = recipe_of(cell)
            text = model
            if epochs:
                text += f", {epochs} epochs, {examples:,.0f} training examples"
                text += f", selection {selection}".replace("_", " ")
            found.setdefault(text, {})[self.names[self.method_of(cell)]] = None
        return {text: list(methods) for text, methods in found.items()}

    def _chance(self, row: dict[str, Any]) -> float:
        """Returns the p value of a difference from print (in percent); NaN where unknown."""
        if row["n"] < 2 or math.isnan(row["difference"]) or not row["usable"]:
            return math.nan
        seeds, error = int(row["n"]), row["std"] / math.sqrt(row["n"])
        ours = SeedsEstimate(
            row["ours"], error, seeds - 1, dict.fromkeys(range(seeds), row["ours"])
        )
        return against_printed(
            ours, row["published"], row["n_test"],
            spread=row["published_std"], runs=self.published_runs,
        ).p  # fmt: skip


def recipe_of(cell: Cell) -> tuple[str, int | None, float, str | None]:
    """Returns a cell's model, epochs, training examples and selection of the epoch."""
    selection = cell.setting("trainer.selection")
    return (
        str(cell.identity["model"]), cell.setting("trainer.epochs"), examples_of(cell),
        selection and str(selection),
    )  # fmt: skip


def _measured(cell: Cell, record: Record, metric: str, number: int) -> tuple[float, float]:
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


def method_of(cell: Cell, variant: Mapping[str, str] | None = None) -> str:
    """Returns the mechanism, with its variant, and loss and retraining if not its own."""
    mechanism = cell.identity["mechanism"]
    name = mechanism + "".join(f"_{x}{cell.setting(key)}" for x, key in (variant or {}).items())
    extras = []
    if cell.identity.get("learner.loss") != default_loss(mechanism):
        extras.append(cell.identity["learner.loss"])
    if "learner.retrain" in cell.identity:
        extras.append(cell.identity["learner.retrain"])
    return "+".join([name, *extras])


@cache
def default_loss(mechanism: str) -> str | None:
    """Returns the loss that a mechanism's YAML chooses; None where its learner knows but one."""
    config = OmegaConf.load(CONFIGS / "mechanism" / f"{mechanism}.yaml")
    if "learner" in config:
        return str(config.learner.loss)
    # A recipe that builds on another, as lp_2st_star does, keeps the other's loss.
    bases = [str(base) for base in config.defaults if isinstance(base, str)]
    return default_loss(bases[0]) if bases else None
