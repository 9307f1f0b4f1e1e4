"""The page of tuned and stated recipes, from `papers.site.tuned`."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from labeldp_bench.reports.draws import left_out
from labeldp_bench.reports.naming import counted, data_name_of, method_name
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import ENOUGH_SEEDS, PLUS_MINUS
from papers.site.tuned import (
    STATED,
    compared,
    order_of,
    place_of,
    places_of_paper,
    rows_of,
    tuned_experiment,
    untuned,
)
from papers.tables import TABLES, write_csv, write_page

STEM = "tuned_vs_stated"
CAPTION = f"""\
Test accuracy in percent, Tables 1a and 1b of vector_approximation. *printed*: the paper's value. \
*stated*: one recipe for all methods, `trainer=vector_approximation`. *tuned*: each run chooses \
its recipe by the likelihood of held-out releases, from one grid for all methods; no true label \
chooses. Both are means over seeds (their number). {PLUS_MINUS} *tuned - stated*: by seed, over \
the seeds that both have (their number), so it need not be the difference of the two means; by \
Welch's test, of the two means, where fewer than {ENOUGH_SEEDS} are shared. p: t test of that \
difference, with Holm's correction \
for the {{tests}} of this table; `*`: p below 5 %. *chosen*: learning rates (how often) and \
epochs; each run chooses once, and LP-2ST in each of its two stages. A method that names no loss \
has its paper's own. *ALIBI, soft label* learns from the soft label of the vector paper's equation \
29, made once; the paper does not say which of the two it printed."""
ORDER = "## The order between methods when tuned"
ORDER_CAPTION = f"""\
Every pair of methods in print, with both readings of ALIBI: the first minus the second, in \
points. *tuned*: by seed, over the seeds that both have (their number); by Welch's test where \
fewer than {ENOUGH_SEEDS} are shared. p: t test of that difference, with Holm's correction for \
the {{tests}} pairs below; `*`: p below 5 %. *printed* and \
*stated* are not tested here. {PLUS_MINUS}"""
Row = Mapping[Any, Any]


def parts_of(records: Records, rows: pd.DataFrame, order: pd.DataFrame) -> list[Part]:
    """Returns the page of `tuned.rows_of`, and of `tuned.order_of`, of some records."""
    parts = [CAPTION.format(tests=rows.p.count()), *_tables(rows, _line)]
    parts += [_grid(rows), *left_out(rows), _missing(records, rows)]
    if len(order):
        parts += [ORDER, ORDER_CAPTION.format(tests=order.p.count())]
    return [*parts, *_tables(order, _pair_line)]


def write_tuned() -> tuple[int, int]:
    """Writes the page and two CSV files; returns how many cells have tuned records, and of all."""
    records = read_committed()
    found = compared(records, read_published())
    rows, order = rows_of(found), order_of(found)
    write_page(STEM, rows, "Tuned and stated recipes", parts_of(records, rows, order))
    write_csv(TABLES / f"{STEM}_order.csv", order)
    return len(rows), len(places_of_paper())


def _tables(frame: pd.DataFrame, line: Callable[[str, Row], dict[str, str]]) -> list[Part]:
    """Returns a table per data set."""
    return [
        pd.DataFrame([line(data_name_of(str(name)), row) for row in group.to_dict("records")])
        for name, group in frame.groupby("dataset", sort=False)
    ]


def _line(name: str, row: Row) -> dict[str, str]:
    return {
        name: f"eps={row['eps']:g}",
        "method": method_name(row["method"]),
        "printed": number_text(row["printed"], "{:g}"),
        "stated": _mean(row, "stated"),
        "tuned": _mean(row, "tuned"),
        "tuned - stated": _tested(row),
        "p": number_text(row["p"], "{:.2g}"),
        "chosen": _chosen(row),
    }


def _pair_line(name: str, row: Row) -> dict[str, str]:
    return {
        name: f"eps={row['eps']:g}",
        "pair": f"{method_name(row['method'])} - {method_name(row['other'])}",
        "printed": _signed(row["printed"]),
        "stated": _signed(row["stated"], row["stated_high"]),
        "tuned": _tested(row),
        "p": number_text(row["p"], "{:.2g}"),
    }


def _grid(rows: pd.DataFrame) -> str:
    """Returns what held-out releases choose from, and how often they chose an end of it."""
    cell = tuned_experiment().cells()[0]
    from_rates = [float(rate) for rate in cell.setting("tuning.learning_rates")]
    rates = ", ".join(f"{rate:g}" for rate in from_rates)
    averages = " or ".join(
        "the last weights" if keep is None else f"weights averaged with {keep:g}"
        for keep in cell.setting("tuning.averages")
    )
    return (
        f"Chosen from: learning rates {rates}; {averages}; 1 to {cell.setting('tuning.epochs')} "
        f"epochs. {100 * cell.setting('tuning.held_out'):g} % of the releases choose; the last fit "
        f"has them all. {_ends(rows, from_rates, cell.setting('tuning.epochs'))}"
    )


def _ends(rows: pd.DataFrame, rates: Sequence[float], most_epochs: int) -> str:
    """Returns how many runs chose an end of the grid, where more might lie beyond it."""
    chosen = [float(rate) for text in rows.learning_rates for rate in text.split()]
    epochs = [int(number) for text in rows.epochs for number in text.split()]
    if not epochs:
        return "What was chosen is not kept."
    return (
        f"Of {counted([len(epochs)], 'kept choice')} {epochs.count(most_epochs)} have the most "
        f"epochs, {chosen.count(max(rates))} the largest rate and {chosen.count(min(rates))} the "
        "smallest: more might lie beyond these ends."
    )


def _missing(records: Records, rows: pd.DataFrame) -> str:
    """Returns how many cells are left out, and what fills them."""
    experiment, paper = tuned_experiment(), places_of_paper()
    cells = experiment.cells()
    done = sum(cell.config_hash in records for cell in cells)
    stated = sum(untuned(cell).config_hash in records for cell in cells)
    unasked = len(paper - {place_of(cell) for cell in cells})
    return (
        f"{len(paper) - len(rows)} of the {len(paper)} cells are left out: they have no tuned "
        f"record. {unasked} of them are not asked for by the experiment. {done} of its "
        f"{len(cells)} runs are done: `{experiment.command}`. Of the stated recipe {stated} are: "
        f"`{read_experiment(STATED).command}`"
    )


def _chosen(row: Row) -> str:
    """Returns the chosen learning rates, how often each, and the range of epochs."""
    if not row["epochs"]:
        return "not kept"
    rates = Counter(row["learning_rates"].split())
    often = ", ".join(f"{rate} ({count})" for rate, count in rates.items())
    return f"{often}; {counted(map(int, row['epochs'].split()), 'epoch')}"


def _mean(row: Row, key: str) -> str:
    if math.isnan(row[key]):
        return "-"
    return f"{row[key]:.1f}{_half(row[key], row[f'{key}_high'])} ({row[f'{key}_seeds']})"


def _tested(row: Row) -> str:
    """Returns a difference, whether it is significant, and how many seeds both sides have."""
    text = _signed(row["difference"], row["difference_high"])
    if text == "-":
        return text
    unpaired = row["pairs"] < ENOUGH_SEEDS and not math.isnan(row["difference_high"])
    return f"{text}{'*' * bool(row['significant'])} ({'Welch' if unpaired else row['pairs']})"


def _signed(value: float, high: float = math.nan) -> str:
    return number_text(value, "{:+z.1f}" + _half(value, high))


def _half(value: float, high: float) -> str:
    return number_text(high - value, " ± {:.1f}", unknown="")
