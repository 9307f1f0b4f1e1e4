"""The page of the best-known table."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.reports.naming import (
    counted,
    data_name_of,
    features_name_of,
    model_name_of,
    name_of,
)
from labeldp_bench.reports.rendering import Part
from labeldp_bench.reports.statistics import ENOUGH_SEEDS, PLUS_MINUS, is_significant
from papers.site.best_known import KINDS, rows_of
from papers.tables import write_page

STEM = "best_known"
LOOKED = "†"
CAPTION = f"""\
Test accuracy in percent. *printed*: the best value in `results/published` at this eps, or at a \
smaller one, which then stands behind it: a smaller eps guarantees this one too. *central*: a \
trusted curator, delta > 0; what is local needs none, so it counts where it is better. *ours*, at \
this very eps: pure local privacy, a network trained on the releases alone. *ours, features*: \
pure local privacy, with features learnt before from unlabelled images, or from CIFAR-100 as a \
public set. *ours, central*: a trusted curator; pure, but for noisy moments, LabelDP-Pro and \
PATE-FM (delta = 1e-5). {PLUS_MINUS}

Each of ours is the one with the highest lower end of its interval, of all committed methods of \
its kind with {ENOUGH_SEEDS} seeds or more. The highest mean would prefer few, lucky seeds. So \
ours is chosen by test accuracy, as printed ones are. Where no method has as many seeds, it is \
the highest mean, the count says *only*, and there is no interval. {LOOKED}: some part of the \
method was chosen after a look at test scores or true labels; the last list says what, and how \
the others were chosen.

*ahead*: by a t test against the printed local value, which counts as one run. It spreads as those \
of our methods that are as accurate as print (if none is, of all), and so does ours: the few runs \
of the chosen method may agree by luck. p is the smallest of all methods that ours was chosen \
from, times their number; where ours is lower, the largest, as print must be ahead of all. It is \
then corrected after Holm for the {{tests}} tests of this table; 5 %. \
Where nothing is printed at this very eps, nothing is tested. *unclear*: neither is. *untested*: \
one seed alone is known. The central column is tested in the same way: a star where ours is ahead \
of the printed central value. The runs of a method on SimCLR's features share one pre-trained \
network, and not all methods the same: an interval covers the noise of the labels, not the \
pre-training."""


def parts_of(rows: pd.DataFrame) -> Iterator[Part]:
    """Yields the page: what the numbers are, a table per data set, and where they come from."""
    tests = rows[[f"{prefix}p" for prefix in KINDS]].count().sum()
    yield CAPTION.format(tests=tests)
    for dataset, group in rows.groupby("dataset", sort=False):
        name = data_name_of(str(dataset))
        yield pd.DataFrame([_line(name, row) for row in group.to_dict("records")])
    yield "## Where the printed values stand"
    yield "\n".join(filter(None, map(_source, rows.to_dict("records"))))
    yield "## How ours were chosen"
    yield "\n".join(_chosen(rows))


def _source(row: Mapping[str, Any]) -> str:
    """Returns the papers and tables of a row's printed values; empty without any."""
    stated = [
        f"{where}: {row[f'printed_{where}_by']}"
        for where in ("local", "central")
        if row[f"printed_{where}_by"] and row[f"printed_{where}_trust"] == where
    ]
    if not row["printed_central_by"]:  # the best of all, local ones too
        return ""
    return f"- {data_name_of(row['dataset'])}, eps={row['eps']:g}: " + "; ".join(stated)


def _chosen(rows: pd.DataFrame) -> Iterator[str]:
    """Yields a line for each way in which a method's parts were chosen, with the methods."""
    methods: dict[str, dict[str, None]] = defaultdict(dict)
    for row, prefix in itertools.product(rows.to_dict("records"), KINDS):
        if row[f"{prefix}chosen"]:
            methods[str(row[f"{prefix}chosen"])][", ".join(_said(row, prefix))] = None
    for how, names in sorted(methods.items()):
        yield f"- {how}: {'; '.join(names)}."


def _line(name: str, row: Mapping[str, Any]) -> dict[str, str]:
    """Returns {heading: text} of one eps."""
    return {
        name: f"{row['eps']:g}",
        "printed, local": _printed(row, "local"),
        "printed, central": _printed(row, "central"),
        **{kind.name: _method(row, prefix) for prefix, kind in KINDS.items()},
        "ahead": row["ahead"] or "-",
    }


def _printed(row: Mapping[str, Any], key: str) -> str:
    """Returns a printed value, with eps and trust where they are not those of its place."""
    value, eps, trust = (row[f"printed_{key}{end}"] for end in ("", "_eps", "_trust"))
    if math.isnan(value):
        return "-"
    apart = [trust] * (trust != key) + [f"eps={eps:g}"] * (eps != row["eps"])
    return f"{value:g}" + (f" ({', '.join(apart)})" if apart else "")


def _method(row: Mapping[str, float], prefix: str) -> str:
    """Returns a mean with its interval and what reached it."""
    value = row[KINDS[prefix].column]
    if math.isnan(value):
        return "-"
    half = (row[f"{prefix}high"] - row[f"{prefix}low"]) / 2
    star = prefix == "central_" and value > row["printed_central"]
    star = star and is_significant(row[f"{prefix}p"])
    seeds = int(row[f"{prefix}seeds"])
    spread = f" ± {half:.1f}" if seeds >= ENOUGH_SEEDS else ""
    known = str(seeds) if seeds >= ENOUGH_SEEDS else f"{counted([seeds], 'seed')} only"
    said = _said(row, prefix)
    epochs, budget = row[f"{prefix}epochs"], str(row[f"{prefix}budget"])
    said += [f"{epochs:g} epochs"] if epochs and not math.isnan(epochs) else []
    said += [f"budget {budget}"] if budget != PAPER else []
    examples = row[f"{prefix}examples"]
    is_part = examples < OFFICIAL[str(row["dataset"])].n_train
    said += [f"{examples:,.0f} examples"] if is_part else []
    how = ", ".join(said)
    marks = "*" * star + LOOKED * bool(row[f"{prefix}looked"])
    return f"{value:.1f}{spread}{marks} ({known}) {how}"


def _said(row: Mapping[str, object], prefix: str) -> list[str]:
    """Returns mechanism, setting, loss, model and pre-training of a row, as people write them."""
    said = [name_of(str(row[f"{prefix}mechanism"])), str(row[f"{prefix}setting"])]
    said += ["FixMatch" if row[f"{prefix}learner"] == "fixmatch" else ""]
    said += [
        str(row[f"{prefix}loss"]),
        model_name_of(str(row[f"{prefix}model"])),
        str(row[f"{prefix}widths"]),
        features_name_of(str(row[f"{prefix}pretrain"])),
    ]
    return [text for text in said if text not in ("", "none", "nan", "None")]


def write_best_known() -> pd.DataFrame:
    """Writes the table as CSV, Markdown and LaTeX; returns its rows."""
    rows = rows_of(read_committed(), read_published())
    write_page(STEM, rows, "Best known accuracy", list(parts_of(rows)), digits=6)
    return rows
