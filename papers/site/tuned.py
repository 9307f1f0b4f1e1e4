"""Tables 1a and 1b again: each method with the stated recipe and with a tuned one.

The tuned cells are those of `experiment=mechanisms/tuned`. Each has a twin of the stated recipe,
the same cell without its tuning, in `experiment=mechanisms/stated`.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.records.collect import Chosen, read_committed
from labeldp_bench.records.published import method_of, read_published
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import counted, data_name_of
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import (
    ENOUGH_SEEDS,
    OLDER,
    PLUS_MINUS,
    SeedsEstimate,
    average,
    left_out,
)
from papers.comparisons import holm, is_significant
from papers.naming import method_name
from papers.tables import TABLES, Row, records_of, write_csv, write_page

STEM = "tuned_vs_stated"
TUNED = "mechanisms/tuned"
STATED = "mechanisms/stated"
"""The same cells without tuning: they fill the stated column."""
PAPER_TABLES = ("vector_approximation/table1a", "vector_approximation/table1b")
SOFT_LABEL = "alibi+soft_label"
"""ALIBI with one soft label, equation 29 of the vector paper, which may be what it published."""
PUBLISHED = ("rr", "rappor", "alibi", SOFT_LABEL, "lp_2st")
METHODS = (*PUBLISHED, "subset_selection+marginal", "rappor+marginal", "rr+marginal")
CAPTION = f"""\
Test accuracy in percent, Tables 1a and 1b of vector_approximation. *published*: the paper's \
value. *stated*: one recipe for all methods, `trainer=vector_approximation`. *tuned*: each run \
chooses its recipe by the likelihood of held-out releases, from one grid for all methods; no true \
label chooses. Both are means over seeds (their number). {PLUS_MINUS} *tuned - stated*: by seed, \
over the seeds that both have (their number), so it need not be the difference of the two means; \
by Welch's test, of the two means, where fewer than {ENOUGH_SEEDS} are shared. p: t test of that \
difference, with Holm's correction for the {{tests}} of this table; `*`: p below 5 %. *chosen*: \
learning rates (how often) and epochs; each run chooses once, and LP-2ST in each of its two \
stages. Without a named loss a method has its paper's own. *ALIBI, soft label* learns from the \
soft label of the vector paper's equation 29, made once; the paper does not say which of the two \
it published. {{left}} of the {{cells}} cells have no tuned record and are left out: \
`{{command}}`. The differences between every two methods, stated and tuned, with their tests: \
`{STEM}_order.csv`."""
Place = tuple[str, float, str]
"""Data set, eps, method."""


@dataclass(frozen=True)
class Compared:
    """One method at one data set and eps.

    Attributes:
        printed: the paper's value; NaN where it has none.
        stated: accuracy in percent with the one recipe for all.
        tuned: accuracy in percent with the chosen recipes.
        chosen: what was chosen in the runs behind `tuned`, where it is kept.
        older: runs that are left out, of an older distribution.
    """

    printed: float
    stated: SeedsEstimate
    tuned: SeedsEstimate
    chosen: Sequence[Chosen]
    older: int


def tuned_experiment() -> Experiment:
    """Returns the experiment with the tuned cells."""
    return read_experiment(TUNED)


def untuned(cell: Cell) -> Cell:
    """Returns the same cell with its recipe as stated."""
    return replace(cell, config=cell.config | {"tuning": None})


def place_of(cell: Cell) -> Place:
    """Returns where a cell stands."""
    return cell.dataset_name, float(cell.identity.get("mechanism.eps", math.inf)), method_of(cell)


def places_of_paper() -> set[Place]:
    """Returns the cells of Tables 1a and 1b that are compared, without their seeds."""
    cells = itertools.chain.from_iterable(read_experiment(name).cells() for name in PAPER_TABLES)
    return {place for place in map(place_of, cells) if place[2] in METHODS}


@cache
def published_row(method: str) -> str:
    """Returns which row of Tables 1a and 1b a method may be: its own, if no other is named."""
    readings = (read_experiment(PAPER_TABLES[0]).table or {})["readings"]
    return str(readings.get(method, method))


def compared(records: Records, published: pd.DataFrame) -> dict[Place, Compared]:
    """Returns each place of the tuned experiment that has a tuned record, as a page orders them."""
    printed = published[(published.paper + "/table" + published.table).isin(PAPER_TABLES)]
    values = printed[printed.usable].set_index(["dataset", "eps", "method"]).value.to_dict()
    places: dict[Place, list[Cell]] = defaultdict(list)
    for cell in tuned_experiment().cells():
        places[place_of(cell)].append(cell)
    found = {}
    for place in sorted(places, key=_rank):
        tuned = average(records_of(places[place], records), "accuracy")
        stated = average(records_of(map(untuned, places[place]), records), "accuracy")
        if tuned.kept:
            dataset, eps, method = place
            found[place] = Compared(
                values.get((dataset, eps, published_row(method)), math.nan),
                stated.estimate.scaled(100),
                tuned.estimate.scaled(100),
                [each for record in tuned.kept for each in record.get("tuned") or ()],
                stated.older + tuned.older,
            )
    return found


def _rank(place: Place) -> tuple[bool, str, float, int]:
    dataset, eps, method = place
    return dataset != "mnist", dataset, eps, METHODS.index(method)


def rows_of(found: Mapping[Place, Compared]) -> pd.DataFrame:
    """Returns one row per data set, eps and method.

    stated, tuned and difference (tuned - stated) have a mean and the ends of its 95 % t interval,
    in percent. pairs counts the seeds that both have. p is corrected after Holm for all rows.
    learning_rates and epochs are those of the tuned runs, ordered; empty where they are not kept.
    """
    tests = _tested([(each.tuned, each.stated) for each in found.values()])
    rows = [
        dict(zip(("dataset", "eps", "method"), place, strict=True))
        | {"printed": each.printed}
        | _with_ends("stated", each.stated)
        | {"stated_seeds": len(each.stated.by_seed)}
        | _with_ends("tuned", each.tuned)
        | {"tuned_seeds": len(each.tuned.by_seed)}
        | test
        | {
            "learning_rates": " ".join(f"{lr:g}" for lr in sorted(one.lr for one in each.chosen)),
            "epochs": " ".join(map(str, sorted(one.epochs for one in each.chosen))),
            OLDER: each.older,
        }
        for (place, each), test in zip(found.items(), tests, strict=True)
    ]
    # Without any record there is a page too.
    return pd.DataFrame(rows, columns=None if rows else ["dataset", "p", OLDER])


def order_of(found: Mapping[Place, Compared]) -> pd.DataFrame:
    """Returns one row per data set, eps and pair of methods in print.

    All columns are method - other: as printed, as stated, and `difference` when tuned. p is that
    of the latter, corrected after Holm for all pairs. The two readings of ALIBI are one method in
    print, and so no pair.
    """
    pairs = [
        ({"dataset": dataset, "eps": eps, "method": name, "other": other}, one, two)
        for (dataset, eps, name), one in found.items()
        for (*where, other), two in found.items()
        if where == [dataset, eps] and {name, other} <= {*PUBLISHED}
        if PUBLISHED.index(name) < PUBLISHED.index(other)
        if published_row(name) != published_row(other)
    ]
    tests = _tested([(one.tuned, two.tuned) for _, one, two in pairs])
    rows = [
        names
        | {"printed": one.printed - two.printed}
        | _with_ends("stated", one.stated.minus(two.stated))
        | test
        for (names, one, two), test in zip(pairs, tests, strict=True)
    ]
    return pd.DataFrame(rows)


def _tested(pairs: Sequence[tuple[SeedsEstimate, SeedsEstimate]]) -> list[Row]:
    """Returns of each pair the columns from `difference` to `significant`; one family of Holm's."""
    gaps = [one.minus(two) for one, two in pairs]
    corrected = holm([gap.p for gap in gaps])
    return [
        _with_ends("difference", gap)
        | {"pairs": len(one.by_seed.keys() & two.by_seed.keys())}
        | {"p": p, "significant": is_significant(p)}
        for (one, two), gap, p in zip(pairs, gaps, corrected, strict=True)
    ]


def _with_ends(name: str, mean: SeedsEstimate) -> Row:
    return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}


def parts_of(rows: pd.DataFrame) -> list[Part]:
    """Returns the page of `rows_of` some records."""
    cells = len(places_of_paper())
    caption = CAPTION.format(
        tests=rows.p.count(),
        left=cells - len(rows),
        cells=cells,
        command=tuned_experiment().command,
    )
    tables = [
        pd.DataFrame([_line(data_name_of(str(name)), row) for row in group.to_dict("records")])
        for name, group in rows.groupby("dataset", sort=False)
    ]
    return [caption, *tables, *left_out(rows)]


def write_tuned() -> tuple[int, int]:
    """Writes the page and two CSV files; returns how many cells have tuned records, and of all."""
    found = compared(read_committed(), read_published())
    rows = rows_of(found)
    write_page(STEM, rows, "Tuned and stated recipes", parts_of(rows))
    write_csv(TABLES / f"{STEM}_order.csv", order_of(found))
    return len(rows), len(places_of_paper())


def _line(name: str, row: Row) -> dict[str, str]:
    rates = Counter(row["learning_rates"].split())
    often = ", ".join(f"{rate} ({count})" for rate, count in rates.items())
    epochs = counted(map(int, row["epochs"].split()), "epoch") if rates else ""
    return {
        name: f"eps={row['eps']:g}",
        "method": method_name(row["method"]),
        "published": number_text(row["printed"], "{:g}"),
        "stated": _mean(row, "stated"),
        "tuned": _mean(row, "tuned"),
        "tuned - stated": _difference(row),
        "p": number_text(row["p"], "{:.2g}"),
        "chosen": f"{often}; {epochs}" if rates else "not kept",
    }


def _mean(row: Row, key: str) -> str:
    return number_text(row[key], "{:.1f}" + f"{_half(row, key)} ({row[f'{key}_seeds']})")


def _difference(row: Row) -> str:
    """Returns a difference, whether it is significant, and how many seeds both sides have."""
    unpaired = row["pairs"] < ENOUGH_SEEDS and not math.isnan(row["difference_high"])
    marks = f"{'*' * bool(row['significant'])} ({'Welch' if unpaired else row['pairs']})"
    return number_text(row["difference"], "{:+z.1f}" + _half(row, "difference") + marks)


def _half(row: Row, key: str) -> str:
    return number_text(row[f"{key}_high"] - row[key], " ± {:.1f}", unknown="")
