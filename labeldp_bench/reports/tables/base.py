"""What every kind of table is: rows from records, rendered as Markdown, LaTeX and CSV.

Which cells a table has is said by its experiment YAML, what the paper prints by its CSV under
results/published, and of which kind it is by the YAML's `table` node:

    table:
      _target_: labeldp_bench.reports.tables.response.ResponseTable

A new paper is a folder of YAML and a CSV; a new kind is one file with one class.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import hydra
import pandas as pd

from labeldp.support.files import write_text
from labeldp.support.progress import say
from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.records.collect import read_with_classes
from labeldp_bench.records.record import Records
from labeldp_bench.support.checkout import CHECKOUT

TABLES = CHECKOUT / "results" / "tables"
USUAL = "labeldp_bench.reports.tables.accuracy.AccuracyTable"


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """One table of a paper, and the experiment behind it."""

    experiment: Experiment

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

    @abstractmethod
    def rows(self, records: Records) -> pd.DataFrame:
        """Returns all that the table shows, one row per number: this is the CSV."""

    @abstractmethod
    def parts(self, rows: pd.DataFrame) -> list[str]:
        """Returns what stands below the title, Markdown."""

    def markdown(self, rows: pd.DataFrame) -> str:
        """Returns the table for people."""
        title = f"# {self.paper}, table {self.number}"
        return "\n\n".join([title, *filter(None, self.parts(rows))]) + "\n"

    @abstractmethod
    def latex(self, rows: pd.DataFrame) -> str:
        """Returns a booktabs table."""


def load_table(name: str) -> Table:
    """Returns the table of the experiment called `name`, of the kind that its YAML names."""
    experiment = read_experiment(name)
    # Partial, since Hydra would turn the experiment, a dataclass, into a config.
    node = {"_target_": USUAL, "_partial_": True} | (experiment.table or {})
    table = hydra.utils.instantiate(node, _convert_="all")(experiment=experiment)
    assert isinstance(table, Table)
    return table


def paper_tables() -> list[Table]:
    """Returns every table, as the papers number them: each experiment whose YAML has `table:`."""
    names = [name for name in experiment_names() if read_experiment(name).table is not None]

    def parts(name: str) -> list[int | str]:  # table 4 before table 10
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]

    return [load_table(name) for name in sorted(names, key=parts)]


def write_tables() -> list[Table]:
    """Writes every table as CSV, Markdown and LaTeX; returns them."""
    records = read_with_classes()
    tables = paper_tables()
    for table in tables:
        rows = table.rows(records)
        write_table(TABLES / table.stem, rows, table.markdown(rows), table.latex(rows))
    return tables


def write_table(stem: Path, rows: pd.DataFrame, markdown: str, latex: str, digits: int = 4) -> None:
    """Writes one table as CSV, with so many digits, Markdown and LaTeX, into `stem`.csv, ..."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_csv(stem.with_suffix(".csv"), rows, digits)
    write_text(stem.with_suffix(".md"), markdown)
    write_text(stem.with_suffix(".tex"), latex)


def write_csv(path: Path, rows: pd.DataFrame, digits: int = 4) -> None:
    """Writes rows with so many digits; the same on every system."""
    numbers = rows.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")
    write_text(path, numbers)


def show_table(name: str) -> None:
    """Prints the table of the experiment called `name`."""
    table = load_table(name)
    say(table.markdown(table.rows(read_with_classes())))
