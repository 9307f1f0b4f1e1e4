"""The site's own pages: means of runs and their differences, as a YAML file per page says.

papers/site/tables/STEM.yaml describes results/tables/STEM.*, or with a `figure` node
results/figures/STEM.*. Its keys are the attributes of `Page`, `Summary` and `Listing`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.published import method_of, published_of
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import counted, data_name_of, name_of
from labeldp_bench.reports.rendering import Part, markdown_table, number_text
from labeldp_bench.reports.statistics import (
    ENOUGH_SEEDS,
    LEVEL,
    OLDER,
    PLUS_MINUS,
    TESTED,
    Pair,
    average,
    differences,
    is_significant,
    left_out,
)
from papers.figures import Axis, PaperFigure, draw_panels
from papers.naming import features_name_of, method_name, model_name_of
from papers.site import comparison, lost_classes, mechanisms
from papers.tables import Row, write_page
from papers.vector_approximation import budget

FOLDER = Path(__file__).with_name("tables")
SOURCES = {
    "information": mechanisms.rows_of,
    "lost_classes": lost_classes.rows_of,
    "ranks": comparison.ranks_page,
    "rappor_budget": budget.rows_of,
}
"""{`source` of a listing: the function that makes its rows of the records}."""
NAMES: dict[str, Any] = {
    "dataset": data_name_of,
    "eps": "eps={:g}".format,
    "K": "K={}".format,
    "mechanism": name_of,
    "method": method_name,
    "model": model_name_of,
    "pretrain": features_name_of,
}
"""{column: how its values are written for people}."""
PRINTED = "published"
"""The recipe of a published value."""


@dataclass(frozen=True)
class Listing:
    """Rows that are no means of an experiment's runs.

    Attributes:
        source: a key of `SOURCES`.
        by: the columns that name a row; the first tells the tables of the page apart.
        columns: {heading: form}, where a form such as `{mean:.1f}` takes the columns of a row.
        caption: above them; `{hidden}` is the number of rows that `where` leaves out.
        where: which rows the page shows, a query of pandas.
        has_csv: whether the rows are the CSV; else a script has written it, and they come from it.
    """

    source: str
    by: Sequence[str]
    columns: Mapping[str, str]
    caption: str
    where: str = ""
    has_csv: bool = True

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns what the source makes of the records."""
        return SOURCES[self.source](records)

    def parts(self, rows: pd.DataFrame) -> Iterator[Part]:
        """Yields the caption, and a table per value of the first column of `by`."""
        shown = rows.query(self.where) if self.where else rows
        yield self.caption.format(hidden=len(rows) - len(shown))
        yield from _frames(
            _names(self.by, row)
            | {head: form.format(**row).replace("nan", "-") for head, form in self.columns.items()}
            for row in shown.to_dict("records")
        )

    def csv(self, rows: pd.DataFrame) -> pd.DataFrame | None:
        """Returns the rows of the CSV, all of them."""
        return rows if self.has_csv else None

    def state(self, rows: pd.DataFrame) -> list[str]:
        """Returns no command."""
        return []


@dataclass(frozen=True)
class Summary:
    """Means of the runs of experiments, and their differences with Holm's correction.

    Attributes:
        experiments: whose cells are shown.
        by: the columns of `runs` that tell means apart; the first tells the tables of the page
            apart.
        scores: {field of records: heading}.
        caption: above the tables; `{tests}` is the number of differences that are tested.
        column: one of `by` whose values are compared.
        pairs: (one, other), values of `column`, each of which has a table column of its own; `one`
            is in no other pair. Lines where a side has no run are left out.
        baseline: a value of `column`, in place of `pairs`: the others, in lines of their own, are
            tested against it.
        best: one of `by`: of its values only the one with the highest mean is shown, and p counts
            for all pairs that it was chosen from.
        published: the experiment of a paper's table, whose published values are runs of
            `recipe=published`.
        order: {column: its values in order}; runs with others are left out.
        where: which runs, a query of pandas.
        titles: {value: how it is written} where `NAMES` does not say it.
        scale: factor of the means.
        digits: after the point.
    """

    experiments: Sequence[str]
    by: Sequence[str]
    scores: Mapping[str, str]
    caption: str = ""
    column: str = ""
    pairs: Sequence[Sequence[str]] = ()
    baseline: str = ""
    best: str = ""
    published: str = ""
    order: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    where: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    scale: float = 100.0
    digits: int = 1

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns the means and differences of the records."""
        return self.compare(self.runs(records))

    def runs(self, records: Records) -> pd.DataFrame:
        """Returns a row per cell, with its record or None, and per published value."""
        cells = [cell for name in self.experiments for cell in read_experiment(name).cells()]
        rows: list[Row] = []
        for cell in {cell.config_hash: cell for cell in cells}.values():
            identity, record = cell.identity, records.get(cell.config_hash)
            method, model = method_of(cell), identity["model"]
            rows.append(
                {"dataset": cell.dataset_name, "method": method, "model": model, "record": record}
                | {"method_and_model": f"{method}+{model}", "mechanism": identity["mechanism"]}
                | {"eps": float(identity.get("mechanism.eps", math.inf))}
                | {"loss": identity.get("learner.loss")}
                | {"trust": record["trust"] if record else "not run"}
                | {"recipe": "tuned" if "tuning" in identity else "stated"}
            )
        if self.published:
            printed = published_of(read_experiment(self.published))
            for row in printed[printed.usable & (printed.metric == "accuracy")].to_dict("records"):
                as_record = {"accuracy": row["value"] / 100, "distribution": 1}
                own = {key: row[key] for key in ("dataset", "method", "eps")}
                rows.append(own | {"recipe": PRINTED, "record": as_record})
        runs = pd.DataFrame(rows)
        runs = runs.query(self.where) if self.where else runs
        for key, values in reversed(list(self.order.items())):
            runs = runs[runs[key].isin(values)]
            runs = runs.iloc[runs[key].map([*values].index).argsort(kind="stable")]
        return runs

    def compare(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Returns the mean of each group of runs, and its difference from another group's.

        Args:
            runs: a row per run that is wanted: the columns `by`, and record, None if not done.

        Returns:
            A row per group and score, in the order of the runs. Columns: `by`, score, cells
            (wanted), n (done), older (runs that are left out), estimate, ours, low, high, records
            (those that count), other (the value that it is compared with) and those of `TESTED`,
            missing where nothing is compared.
        """
        rows = []
        for place, group in runs.groupby([*self.by], sort=False):
            done = [record for record in group.record if record is not None]
            for score in self.scores:
                kept, mean, older = average(done, score)
                mean = mean.scaled(self.scale)
                own = dict(zip(self.by, place, strict=True)) | {"score": score, "estimate": mean}
                own |= {"cells": len(group), "n": len(kept), OLDER: older, "records": kept}
                rows.append(own | {"ours": mean.value, "low": mean.low, "high": mean.high})
        means = pd.DataFrame(rows).assign(chosen_from=1)
        keys = [*(key for key in self.by if key != self.best), "score"]
        if self.best:
            same = (means := means[means.n > 0]).groupby(keys, sort=False).ours
            means = means.assign(chosen_from=same.transform("size")).loc[same.idxmax()]
        tested = list(self._pairs(means[means.n > 0], [key for key in keys if key != self.column]))
        if not tested:
            return means.assign(**dict.fromkeys(("other", *TESTED), math.nan))
        return means.merge(differences(tested), how="left", on=keys)

    def _pairs(self, means: pd.DataFrame, keys: Sequence[str]) -> Iterator[Pair]:
        """Yields the pairs that have runs on both sides."""
        for place, group in means.groupby([*keys], sort=False) if self.column else ():
            at = {row[self.column]: row for row in group.to_dict("records")}
            against = [(value, self.baseline) for value in at if value != self.baseline]
            for one, other in self.pairs or against:
                if one in at and other in at:
                    own = dict(zip(keys, place, strict=True)) | {self.column: one, "other": other}
                    times = at[one]["chosen_from"] * at[other]["chosen_from"]
                    yield Pair(own, at[one]["estimate"], at[other]["estimate"], times)

    def parts(self, rows: pd.DataFrame) -> Iterator[Part]:
        """Yields the caption, and a table per value of the first column of `by`."""
        yield self.caption.format(tests=rows.p.count(), level=LEVEL, plus_minus=PLUS_MINUS)
        yield from _frames(self._line(place, own) for place, own in self._lines(rows))

    def csv(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Returns the rows of the CSV: one per mean, or with pairs one per line of the page."""
        if self.pairs:
            lines = [self._wide(place, own) for place, own in self._lines(rows)]
            return pd.DataFrame(lines) if lines else rows[[*self.by]].head(0)
        itself = (rows[self.column] == self.baseline) & (rows.n > 0)
        shown = rows.assign(difference=rows.difference.mask(itself, 0.0))
        columns = ["score", "cells", "n", "ours", "low", "high", "difference", "p", OLDER]
        return shown[[*self.by, *columns]]

    def state(self, rows: pd.DataFrame) -> list[str]:
        """Returns what is left out, how many runs are done, and the commands for the others."""
        runs = rows.drop_duplicates([*self.by])
        runs = runs[runs.recipe != PRINTED] if self.published else runs
        wanted, done = runs.cells.sum(), runs.n.sum() + runs[OLDER].sum()
        commands = " and ".join(f"`{read_experiment(name).command}`" for name in self.experiments)
        state = "all" if done == wanted else f"{done} of"
        return [*left_out(runs), f"{state} {wanted} runs done: {commands}"]

    def _lines(self, rows: pd.DataFrame) -> Iterator[tuple[Row, list[Row]]]:
        """Yields the lines of the page: where each stands, and its means."""
        hidden = (self.best, self.column if self.pairs else "")
        keys = [key for key in self.by if key not in hidden]
        lines: dict[tuple, list[Row]] = {}
        for row in rows.dropna(subset=keys).to_dict("records"):  # a frame for each takes 10 ms
            lines.setdefault(tuple(row[key] for key in keys), []).append(row)
        for place, own in lines.items():
            if not self.pairs or any(pd.notna(row["other"]) for row in own):
                yield dict(zip(keys, place, strict=True)), own

    def _line(self, place: Row, rows: Sequence[Row]) -> Row:
        """Returns {heading: text} of a line."""
        texts = _names([*place], place, self.titles)
        for row in rows:
            head = row[self.column] if self.pairs else self.scores[row["score"]]
            texts[head] = self._mean(row)
        for row in rows:
            score, head = self.scores[row["score"]], f"{row.get(self.column)} - {row['other']}"
            if self.baseline:
                head = f"{score} - {NAMES[self.column](self.baseline)}"
            if self.baseline or not pd.isna(row["other"]):
                p = "p" if len(self.scores) == 1 else f"p, {score}"
                texts |= {head: self._difference(row), p: number_text(row["p"], "{:.2g}")}
        if self.published:
            rates, epochs = _chosen(rows)
            often = ", ".join(f"{rate:g} ({count})" for rate, count in Counter(rates).items())
            texts["chosen"] = f"{often}; {counted(epochs, 'epoch')}" if rates else "not kept"
        return texts

    def _mean(self, row: Row) -> str:
        if row.get("recipe") == PRINTED:
            return f"{row['ours']:g}"
        half = number_text((row["high"] - row["low"]) / 2, f" ± {{:.{self.digits}f}}", unknown="")
        return number_text(row["ours"], f"{{:.{self.digits}f}}{half} ({row['n']})")

    def _difference(self, row: Row) -> str:
        """Returns a difference, whether it is significant, and how many seeds both sides have."""
        half = (row["difference_high"] - row["difference_low"]) / 2
        spread = number_text(half, f" ± {{:.{self.digits}f}}", unknown="")
        how = "Welch" if row["pairs"] < ENOUGH_SEEDS and spread else f"{row['pairs']:.0f}"
        mark = "*" * is_significant(row["p"])
        return number_text(row["difference"], f"{{:+z.{self.digits}f}}{spread}{mark} ({how})")

    def _wide(self, place: Row, rows: Sequence[Row]) -> Row:
        """Returns a line as numbers: the mean of each compared value, the difference, the rest."""
        line = dict(place)
        for row in rows:
            name = row[self.column]
            line[name] = row["ours"]
            if name != PRINTED:
                line |= {f"{name}_low": row["low"], f"{name}_high": row["high"]}
                line[f"{name}_seeds"] = row["n"]
        (tested,) = [row for row in rows if not pd.isna(row["other"])]
        rates, epochs = _chosen(rows)
        line |= {key: tested[key] for key in TESTED}
        line["learning_rates"] = " ".join(f"{rate:g}" for rate in rates)
        line["epochs"] = " ".join(map(str, epochs))
        return line | {OLDER: sum(row[OLDER] for row in rows)}


@dataclass(frozen=True)
class Page:
    """A file of papers/site/tables.

    Attributes:
        stem: name of the files.
        title: above the page.
        tables: what it has; without a figure it has one.
        figure: the attributes of a `PaperFigure`, at the end of whose page the tables are, and
            `columns`, into how many its panels go.
    """

    stem: str
    title: str
    tables: Sequence[Summary | Listing]
    figure: Mapping[str, Any]

    def write(self, records: Records) -> pd.DataFrame:
        """Writes the page into results/tables; returns the rows of its table."""
        (table,) = self.tables
        rows = table.rows(records)
        write_page(self.stem, table.csv(rows), self.title, [*table.parts(rows), *table.state(rows)])
        return rows

    def paper_figure(self) -> PaperFigure:
        """Returns the figure with its page."""
        own = {key: value for key, value in self.figure.items() if key != "columns"}
        own |= {key: Axis(**self.figure[key]) for key in ("x", "y") if key in self.figure}
        draw = partial(draw_panels, columns=self.figure["columns"])
        return PaperFigure(title=self.title, draw=draw, notes=self._notes, **own)

    def _notes(self, points: pd.DataFrame, figure: PaperFigure) -> list[str]:
        records = {record["config_hash"]: record for own in points.records for record in own}
        parts = [part for table in self.tables for part in table.parts(table.rows(records))]
        return [part if isinstance(part, str) else markdown_table(part) for part in parts]


@cache
def read_pages() -> dict[str, Page]:
    """Returns {stem: page} of papers/site/tables."""
    pages = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        node: Any = OmegaConf.to_container(OmegaConf.load(path))
        tables = [(Listing if "source" in each else Summary)(**each) for each in node["tables"]]
        pages[path.stem] = Page(path.stem, node["title"], tables, node.get("figure", {}))
    return pages


def _names(keys: Sequence[str], row: Row, titles: Mapping[str, str] | None = None) -> Row:
    """Returns {column: text} of the columns that name a line."""
    return {key: (titles or {}).get(row[key]) or NAMES.get(key, str)(row[key]) for key in keys}


def _frames(lines: Iterator[Row]) -> Iterator[pd.DataFrame]:
    """Yields a frame per text of the first column, which becomes the heading of the second."""
    frame = pd.DataFrame(lines)
    for text, own in frame.groupby(frame.columns[0], sort=False) if len(frame) else ():
        shown = own.iloc[:, 1:].dropna(axis="columns", how="all").fillna("-")
        yield shown.rename(columns={shown.columns[0]: str(text)})


def _chosen(rows: Sequence[Row]) -> tuple[list[float], list[int]]:
    """Returns the learning rates and epochs that the runs of a line chose, sorted, where kept."""
    found = [one for row in rows for record in row["records"] for one in record.get("tuned") or ()]
    return sorted(one.lr for one in found), sorted(one.epochs for one in found)
