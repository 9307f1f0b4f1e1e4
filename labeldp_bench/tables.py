"""A paper's table, ours beside the printed one: a pure function of records. Imports no torch.

Which cells a table has is said by its experiment YAML, what the paper prints by its CSV under
results/published; a new paper is a folder of YAML and a CSV.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from labeldp_bench.collect import read_committed
from labeldp_bench.config import CHECKOUT, Cell, compose_cell
from labeldp_bench.plotting import name_of
from labeldp_bench.published import read_published
from labeldp_bench.sweeper import expand

EXPERIMENTS = CHECKOUT / "configs" / "experiment"
TABLES = CHECKOUT / "results" / "tables"
KEY = ["dataset", "method", "eps"]
# What the repetitions of a paper are, where it says so: BlockRR averages ten runs.
PUBLISHED_RUNS = {"blockrr": 10}


@dataclass(frozen=True)
class PaperTable:
    """One table: its experiment's cells and what the paper prints.

    Attributes:
        paper: short name, e.g. `vector_approximation`.
        table: as the paper numbers it, e.g. `1a`.
    """

    paper: str
    table: str

    @property
    def experiment(self) -> str:
        """What `experiment=` takes."""
        return f"{self.paper}/table{self.table}"

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return f"python -m labeldp_bench experiment={self.experiment}"

    def cells(self) -> list[Cell]:
        """Returns the cells of the experiment."""
        config = OmegaConf.load(EXPERIMENTS / f"{self.experiment}.yaml")
        return [
            compose_cell(overrides)
            for overrides in expand(OmegaConf.to_container(config.cells), {})
        ]

    def rows(self, records: dict[str, dict[str, Any]]) -> pd.DataFrame:
        """Returns one row per (data set, method, eps).

        Columns: dataset, method, eps, cells, ours, std, n (seeds that are done), published,
        published_std, usable, note, difference, marked. Accuracies in percent; `ours` is missing
        until a cell is done. `marked` says that the difference exceeds twice its standard error;
        never where one seed alone is done.

        Args:
            records: {config_hash: record}; a cell is filled by exactly its own identity.
        """
        published = read_published(self.paper)
        published = published[(published.table == self.table) & published["class"].isna()]
        metric = published.metric.iloc[0] if len(published) else "accuracy"
        ours = self._ours(records, metric)
        printed = published[[*KEY, "value", "std", "usable", "note"]].rename(
            columns={"value": "published", "std": "published_std"}
        )
        rows = ours.merge(printed, how="outer", on=KEY, sort=False)
        rows["cells"] = rows.cells.fillna(0).astype(int)
        rows["n"] = rows.n.fillna(0).astype(int)
        rows["difference"] = rows.ours - rows.published
        runs = PUBLISHED_RUNS.get(self.paper, 1)
        rows["marked"] = [_is_marked(row, runs) for row in rows.to_dict("records")]
        return rows

    def _ours(self, records: dict[str, dict[str, Any]], metric: str) -> pd.DataFrame:
        cells = [
            {
                "dataset": cell.dataset_name,
                "method": method_of(cell),
                "eps": float(cell.identity.get("mechanism.eps", math.inf)),
                "value": _value(records.get(cell.config_hash), metric),
                "n_test": (records.get(cell.config_hash) or {}).get("n_test"),
            }
            for cell in self.cells()
        ]
        frame = pd.DataFrame(cells).astype({"value": float, "n_test": float})
        grouped = frame.groupby(KEY, sort=False)
        return grouped.agg(
            cells=("value", "size"), ours=("value", "mean"), std=("value", "std"),
            n=("value", "count"), n_test=("n_test", "first"),
        ).reset_index()  # fmt: skip


def paper_tables() -> list[PaperTable]:
    """Returns every table that has an experiment."""
    paths = sorted(EXPERIMENTS.glob("*/table*.yaml"))
    return [PaperTable(path.parent.name, path.stem.removeprefix("table")) for path in paths]


def method_of(cell: Cell) -> str:
    """Returns the mechanism, with loss and retraining where they are not its own."""
    mechanism = cell.identity["mechanism"]
    extras = []
    if cell.identity.get("learner.loss") != default_loss(mechanism):
        extras.append(cell.identity["learner.loss"])
    if "learner.retrain" in cell.identity:
        extras.append(cell.identity["learner.retrain"])
    return "+".join([mechanism, *extras])


def default_loss(mechanism: str) -> str:
    """Returns the loss that a mechanism's YAML chooses."""
    path = CHECKOUT / "configs" / "mechanism" / f"{mechanism}.yaml"
    config = OmegaConf.load(path)
    if "learner" in config:
        return str(config.learner.loss)
    # A recipe on top of another, such as lp_2st_star, keeps that one's loss.
    return default_loss(next(str(base) for base in config.defaults if isinstance(base, str)))


def write_tables(out: Path = TABLES) -> tuple[int, int]:
    """Writes every table as CSV, Markdown and LaTeX; returns how many cells there are and miss."""
    records = read_committed()
    out.mkdir(parents=True, exist_ok=True)
    total = missing = 0
    for table in paper_tables():
        rows = table.rows(records)
        stem = out / f"{table.paper}_table{table.table}"
        rows.to_csv(f"{stem}.csv", index=False, float_format="%.4g", lineterminator="\n")
        stem.with_suffix(".md").write_text(markdown(table, rows))
        stem.with_suffix(".tex").write_text(latex(rows))
        total += int(rows.cells.sum())
        missing += int((rows.cells - rows.n).sum())
    return total, missing


def markdown(table: PaperTable, rows: pd.DataFrame) -> str:
    """Returns the table for people: three lines per method, a column per eps."""
    done, cells = int(rows.n.sum()), int(rows.cells.sum())
    parts = [
        f"# {table.paper}, table {table.table}",
        "",
        "Test accuracy in percent: ours as mean ± standard deviation (seeds), the printed value, "
        "and the difference. `*`: more than twice its standard error. `†`: printed, but known to "
        "be wrong.",
        "",
    ]
    for dataset, group in rows.groupby("dataset", sort=False):
        columns = sorted(group.eps.unique())
        lines = []
        for method, line in _methods(group):
            at = {row["eps"]: row for row in line.to_dict("records")}
            for kind, write in (("ours", _ours), ("paper", _printed), ("difference", _difference)):
                cells_ = [write(at[eps]) if eps in at else "" for eps in columns]
                if kind == "ours" or any(text.strip("-") for text in cells_):
                    lines.append([_label(method) if kind == "ours" else "", kind, *cells_])
        headings = [str(dataset), "", *(f"eps={eps:g}" for eps in columns)]
        parts += [
            pd.DataFrame(lines, columns=headings).to_markdown(index=False, disable_numparse=True),
            "",
        ]
    notes = rows[rows.note.fillna("").astype(str) != ""]
    parts += [
        f"- {_label(row['method'])}, eps={row['eps']:g}: {row['note']}."
        for row in notes.to_dict("records")
    ]
    parts += ["", f"{done} of {cells} cells done; the others: `{table.command}`", ""]
    return "\n".join(parts)


def latex(rows: pd.DataFrame) -> str:
    """Returns a booktabs table: ours, and the printed value in parentheses."""
    columns = sorted(rows.eps.unique())
    head = " & ".join(["Method", *(f"$\\varepsilon={_infinity(eps)}$" for eps in columns)])
    lines = [
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        f"{head} \\\\",
        "\\midrule",
    ]
    for method, line in _methods(rows):
        at = {row["eps"]: row for row in line.to_dict("records")}
        cells = [_label(method).replace("_", "\\_"), *(_pair(at.get(eps)) for eps in columns)]
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _methods(rows: pd.DataFrame) -> Any:
    """Returns (method, its rows): printed methods first, then ours alone."""
    order = rows.published.isna().groupby(rows.method, sort=False).min().sort_values(kind="stable")
    return [(method, rows[rows.method == method]) for method in order.index]


def _label(method: str) -> str:
    mechanism, *extras = str(method).split("+")
    return ", ".join([name_of(mechanism), *extras])


def _value(record: dict[str, Any] | None, metric: str) -> float:
    if record is None:
        return math.nan
    return 100 * record["per_class_mean" if metric == "per_class_mean" else "accuracy"]


def _is_marked(row: dict[str, Any], published_runs: int) -> bool:
    if row["n"] < 2 or math.isnan(row["difference"]):
        return False
    share = row["published"] / 100
    printed = row["std"] if math.isnan(row["published_std"]) else row["published_std"]
    variance = row["std"] ** 2 / row["n"] + printed**2 / published_runs
    variance += 1e4 * share * (1 - share) / row["n_test"]
    return abs(row["difference"]) > 2 * math.sqrt(variance)


def _ours(row: dict[str, Any]) -> str:
    if not row["n"]:
        return "-"
    spread = f" ± {row['std']:.1f}" if row["n"] > 1 else ""
    return f"{row['ours']:.1f}{spread} ({row['n']})"


def _printed(row: dict[str, Any]) -> str:
    if math.isnan(row["published"]):
        return ""
    return f"{row['published']:g}" + ("" if row["usable"] else " †")


def _difference(row: dict[str, Any]) -> str:
    if math.isnan(row["difference"]):
        return ""
    return f"{row['difference']:+.1f}" + ("*" if row["marked"] else "")


def _pair(row: dict[str, Any] | None) -> str:
    if row is None:
        return "--"
    ours = f"{row['ours']:.1f}" if row["n"] else "--"
    printed = "" if math.isnan(row["published"]) else f" ({row['published']:g})"
    return ours + printed


def _infinity(eps: float) -> str:
    return "\\infty" if math.isinf(eps) else f"{eps:g}"
