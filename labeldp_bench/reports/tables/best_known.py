"""The best known accuracy of each data set and eps: printed by any paper, and ours.

Rows where ours is behind stand there like the others.
"""

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.draws import average
from labeldp_bench.reports.naming import data_name_of, name_of, setting_of
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.reports.statistics import (
    NOTHING,
    PLUS_MINUS,
    Estimate,
    against_printed,
    holm,
    is_significant,
)
from labeldp_bench.reports.tables.base import TABLES
from labeldp_bench.reports.tables.latex import latex_notes, latex_table, replaced, spanning
from labeldp_bench.support.files import write_text
from labeldp_bench.support.official_data import OFFICIAL

STEM = "best_known"
DATA_SETS = ("mnist", "fashion_mnist", "kmnist", "cifar10", "cifar100")
BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
WITH_FEATURES = (
    "probe",
    "eigenmaps",
    "clusters",
    "ridge",
    "laplace_learning",
    "poisson_learning",
)
"""Models that learn from all unlabelled images before they see a release."""
TEST_IMAGES = 10_000
"""Of each of the official sets; a record of fewer is no candidate."""
ENOUGH_SEEDS = 3
KINDS = {"": "ours", "features_": "ours, features", "central_": "ours, central"}
"""{prefix of a kind's columns: how it is called}."""
RIVALS = {"": "printed_local", "features_": "printed_local", "central_": "printed_central"}
SAID = ("mechanism", "learner", "loss", "model", "pretrain")
"""Of a run, in this order."""
NOT_PRIVATE = ("none", "ple")
CAPTION = f"""\
Test accuracy in percent. *printed*: the best value at exactly this eps in `results/published`, \
under local privacy, and under central privacy (a trusted curator, delta > 0). *ours*: pure local \
privacy, a network trained on the releases alone. *ours, features*: pure local privacy, with \
features learnt before from unlabelled images, or from CIFAR-100 as a public set. *ours, \
central*: a trusted curator; pure, but for noisy moments, LabelDP-Pro and PATE-FM (delta = 1e-5). \
{PLUS_MINUS}

Each of ours is the highest mean of all committed methods of its kind with {ENOUGH_SEEDS} seeds or \
more (with fewer, where none has as many), so it is chosen by test accuracy, as printed ones are. \
*ahead*: by a t test against the printed local value, which counts as one run that spreads as ours \
do; p is multiplied by the number of methods that ours was chosen from, then corrected after Holm \
for the {{tests}} tests of this table; 5 %. *unclear*: neither is. *untested*: one seed alone is \
known. The central column is tested in the same way: a star where ours is ahead of the printed \
central value. Runs on SimCLR's features share one pre-trained network: their interval covers the \
noise of the labels, not the pre-training."""


@dataclass(frozen=True)
class Best:
    """The best of ours of one kind at one data set and eps.

    Attributes:
        estimate: its accuracy in percent.
        record: one of its runs; None without any.
        methods: how many it was chosen from.
    """

    estimate: Estimate = NOTHING
    record: Record | None = None
    methods: int = 0


def rows_of(records: Records, published: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per data set and eps at which anything is known.

    Columns: dataset, eps; printed_local and printed_central with `_by` (paper, table, method,
    note); ours, mechanism, learner, loss, model, pretrain, setting (of LP-2ST), seeds, epochs,
    examples, budget, low, high, methods (that it was chosen from), p; the same with the prefixes
    `features_` and `central_`, whose values are `ours_features` and `ours_central`; ahead.
    Accuracies in percent; low and high are the ends of the 95 % interval.
    """
    found = best_of_ours(records)
    printed = published[
        (published.metric == "accuracy") & published.usable & ~published.method.isin(NOT_PRIVATE)
    ]
    rows = []
    for dataset, eps in itertools.product(DATA_SETS, BUDGETS):
        row: dict[str, object] = {"dataset": dataset, "eps": eps}
        here = printed[(printed.dataset == dataset) & (printed.eps == eps)]
        is_central = here.note.str.contains("central")
        for key, part in (("local", here[~is_central]), ("central", here[is_central])):
            row |= _printed(f"printed_{key}", part)
        for prefix in KINDS:
            best = found.get((dataset, eps, prefix), Best())
            row |= _ours(prefix, best, float(str(row[RIVALS[prefix]])))
        if len(here) or any(row[f"{prefix}methods"] for prefix in KINDS):
            rows.append(row)
    frame = pd.DataFrame(rows)
    corrected = holm([p for prefix in KINDS for p in frame[f"{prefix}p"]])
    for number, prefix in enumerate(KINDS):
        frame[f"{prefix}p"] = corrected[number * len(frame) : (number + 1) * len(frame)]
    frame["ahead"] = [_ahead(row) for row in frame.to_dict("records")]
    return frame


def best_of_ours(records: Records) -> Mapping[tuple[str, float, str], Best]:
    """Returns {(data set, eps, prefix of the kind): the best of ours}."""
    methods: dict[tuple[str, float, str], dict[str, list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in records.values():
        dataset, eps = str(record["dataset"]), float(record["eps"])
        is_whole = dataset in OFFICIAL and record.get("n_test") == TEST_IMAGES
        # Of several networks by one recipe the best is luck: all rows stand on the first.
        is_whole = is_whole and "pretrain.seed" not in record["identity"]
        if is_whole and eps in BUDGETS and record["trust"] in ("local", "central"):
            alike = {key: value for key, value in record["identity"].items() if key != "seed"}
            place = (dataset, eps, _kind(record))
            methods[place][json.dumps(alike, sort_keys=True)].append(record)
    found = {}
    for place, runs in methods.items():
        averages = [average(same, "accuracy") for same in runs.values()]
        most = max(len(each.kept) for each in averages)
        known = [each for each in averages if len(each.kept) >= min(most, ENOUGH_SEEDS)]
        best = max(known, key=lambda each: each.estimate.value)
        found[place] = Best(best.estimate.scaled(100), best.kept[0], len(known))
    return found


def _kind(record: Record) -> str:
    if record["trust"] == "central":
        return "central_"
    learnt = record.get("pretrain") not in (None, "none") or record["model"] in WITH_FEATURES
    return "features_" if learnt else ""


def _printed(key: str, part: pd.DataFrame) -> dict[str, object]:
    if part.empty:
        return {key: math.nan, f"{key}_by": ""}
    one = part.loc[part.value.idxmax()]
    note = f"; {one.note}" if one.note else ""
    return {key: one.value, f"{key}_by": f"{one.paper}, table {one.table}, {one.method}{note}"}


def _ours(prefix: str, best: Best, printed: float) -> dict[str, object]:
    """Returns the columns of one kind; p is not yet corrected for the table."""
    record = best.record or {}
    gap = NOTHING
    if best.record and not math.isnan(printed):
        gap = against_printed(best.estimate, printed, float(best.record["n_test"]))
    # A method that was chosen as the best of several is ahead by chance more often than one.
    tries = best.methods if gap.value > 0 else 1
    return {
        f"ours_{prefix}".rstrip("_"): best.estimate.value,
        **{f"{prefix}{key}": record.get(key) for key in SAID},
        f"{prefix}setting": setting_of(record.get("identity", {})),
        f"{prefix}seeds": len(best.estimate.by_seed),
        f"{prefix}epochs": record.get("epochs"),
        f"{prefix}examples": record.get("n_train"),
        f"{prefix}budget": record.get("budget") or (PAPER if record else None),
        f"{prefix}low": best.estimate.value - best.estimate.half_width,
        f"{prefix}high": best.estimate.value + best.estimate.half_width,
        f"{prefix}methods": best.methods,
        f"{prefix}p": min(1.0, tries * gap.p) if not math.isnan(gap.p) else math.nan,
    }


def _ahead(row: Mapping[str, float]) -> str:
    """Returns who is ahead under local privacy; empty where there is nothing to compare."""
    local = {"ours": "", "ours_features": "features_"}
    known = {key: prefix for key, prefix in local.items() if not math.isnan(row[key])}
    if not known or math.isnan(row["printed_local"]):
        return ""
    sure = [key for key, prefix in known.items() if is_significant(row[f"{prefix}p"])]
    above = [key for key in sure if row[key] > row["printed_local"]]
    if above:
        return KINDS[known[above[0]]]
    tested = [key for key, prefix in known.items() if not math.isnan(row[f"{prefix}p"])]
    if tested and tested == sure and max(row[key] for key in known) < row["printed_local"]:
        return "printed"
    if tested:
        return "unclear"
    higher = "ours" if max(row[key] for key in known) > row["printed_local"] else "printed"
    return f"untested, {higher} is higher"


def markdown(rows: pd.DataFrame) -> str:
    """Returns the table for people."""
    tests = sum(int(rows[f"{prefix}p"].notna().sum()) for prefix in KINDS)
    parts = ["# Best known accuracy", CAPTION.format(tests=tests)]
    for dataset, texts in _texts(rows):
        parts.append(markdown_table([{data_name_of(dataset): t.pop("eps")} | t for t in texts]))
    sources = [
        f"- {data_name_of(row.dataset)}, eps={row.eps:g}: " + "; ".join(
            f"{where}: {by}" for where, by in
            (("local", row.printed_local_by), ("central", row.printed_central_by)) if by
        )
        for row in rows.itertuples()
        if row.printed_local_by or row.printed_central_by
    ]  # fmt: skip
    return "\n\n".join([*parts, "## Where the printed values stand", "\n".join(sources)]) + "\n"


def latex(rows: pd.DataFrame) -> str:
    """Returns a booktabs table with its notes."""
    blocks: list[list[list[str]]] = []
    heads: list[str] = []
    for dataset, texts in _texts(rows):
        heads = list(texts[0])
        written = [[replaced(text, LATEX) for text in row.values()] for row in texts]
        blocks += [[spanning(data_name_of(dataset), len(heads))], written]
    tests = sum(int(rows[f"{prefix}p"].notna().sum()) for prefix in KINDS)
    notes = latex_notes(CAPTION.format(tests=tests).split("\n\n"))
    return latex_table("lrrrrrl", [replaced(head, LATEX) for head in heads], blocks) + notes


LATEX = {"_": "\\_", "±": "$\\pm$", "eps": "$\\varepsilon$"}


def _texts(rows: pd.DataFrame) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yields (data set, {heading: text} of each eps)."""
    for dataset, group in rows.groupby("dataset", sort=False):
        yield (
            str(dataset),
            [
                {
                    "eps": f"{row['eps']:g}",
                    "printed, local": _number(row["printed_local"]),
                    "printed, central": _number(row["printed_central"]),
                    **{name: _method(row, prefix) for prefix, name in KINDS.items()},
                    "ahead": row["ahead"] or "-",
                }
                for row in group.to_dict("records")
            ],
        )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:g}"


def _method(row: Mapping[str, float], prefix: str) -> str:
    """Returns a mean with its interval and what reached it."""
    value, half = (
        row[f"ours_{prefix}".rstrip("_")],
        (row[f"{prefix}high"] - row[f"{prefix}low"]) / 2,
    )
    if math.isnan(value):
        return "-"
    star = prefix == "central_" and value > row["printed_central"]
    star = star and is_significant(row[f"{prefix}p"])
    spread = "" if math.isnan(half) else f" ± {half:.1f}"
    said = [name_of(str(row[f"{prefix}mechanism"])), str(row[f"{prefix}setting"])]
    said += ["FixMatch" if row[f"{prefix}learner"] == "fixmatch" else ""]
    said += [str(row[f"{prefix}loss"] or "")]
    said += [str(row[f"{prefix}model"]), str(row[f"{prefix}pretrain"] or "none")]
    epochs, budget = row[f"{prefix}epochs"], str(row[f"{prefix}budget"])
    said += [f"{epochs:g} epochs"] if epochs and not math.isnan(epochs) else []
    said += [f"budget {budget}"] if budget != PAPER else []
    examples = row[f"{prefix}examples"]
    is_part = examples < OFFICIAL[str(row["dataset"])].n_train
    said += [f"{examples:,.0f} examples"] if is_part else []
    how = ", ".join(text for text in said if text not in ("", "none", "nan", "None"))
    return f"{value:.1f}{spread}{'*' * star} ({row[f'{prefix}seeds']}) {how}"


def write_best_known(out: Path = TABLES) -> pd.DataFrame:
    """Writes the table as CSV, Markdown and LaTeX; returns its rows."""
    rows = rows_of(read_committed(), read_published())
    out.mkdir(parents=True, exist_ok=True)
    numbers = rows.to_csv(index=False, float_format="%.4g", lineterminator="\n")
    write_text(out / f"{STEM}.csv", numbers)
    write_text(out / f"{STEM}.md", markdown(rows))
    write_text(out / f"{STEM}.tex", latex(rows))
    return rows
