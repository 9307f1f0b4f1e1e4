"""Every table of the papers: each experiment whose YAML has a `table:` node."""

import re

from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import read_with_classes
from papers.ple.table1 import ResponseTable
from papers.tables import Table, accuracy_table, write_page
from papers.theoretical_limits.table1 import ExponentTable

KINDS: dict[str, type[Table]] = {
    "exponents": ExponentTable,
    "response": ResponseTable,
}
"""{what the YAML names as `kind`: its class}; others are tables of accuracies."""


def load_table(name: str) -> Table:
    """Returns the table of the experiment called `name`, of the kind that its YAML names."""
    experiment = read_experiment(name)
    node = dict(experiment.table or {})
    kind = node.pop("kind", "accuracy")
    if kind == "accuracy":
        return accuracy_table(name)
    return KINDS[kind](experiment=experiment, **node)


def paper_tables() -> list[Table]:
    """Returns every table, as the papers number them."""
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
        write_page(table.stem, rows, table.title, table.parts(rows))
    return tables
