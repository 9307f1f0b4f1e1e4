"""Tables 1a and 1b again: the stated recipe beside the tuned one, and who is ahead when tuned.

The tuned cells are those of `experiment=mechanisms/tuned`. Each has a twin of the stated recipe,
the same cell without its tuning, in `experiment=mechanisms/stated`.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from labeldp_bench.records.collect import Chosen
from labeldp_bench.records.record import Records
from labeldp_bench.reports.draws import OLDER, average, records_of
from labeldp_bench.reports.statistics import SeedsEstimate, holm, is_significant
from papers.tables import accuracy_table, method_of

TUNED = "mechanisms/tuned"
STATED = "mechanisms/stated"
"""The twins alone: what fills the stated column."""
PAPER_TABLES = ("vector_approximation/table1a", "vector_approximation/table1b")
OWN_LOSS = ("rr", "rappor", "alibi", "lp_2st")
SOFT_LABEL = "alibi+soft_label"
"""ALIBI by one soft label, equation 29 of the vector paper, which may be what it printed."""
IN_PRINT = ("rr", "rappor", "alibi", SOFT_LABEL, "lp_2st")
METHODS = (*IN_PRINT, "subset_selection+marginal", "rappor+marginal", "rr+marginal")
COLUMNS = (
    "dataset", "eps", "method", "printed", "stated", "stated_low", "stated_high", "stated_seeds",
    "tuned", "tuned_low", "tuned_high", "tuned_seeds", "difference", "difference_low",
    "difference_high", "pairs", "p", "significant", "learning_rates", "epochs", OLDER,
)  # fmt: skip
ORDER_COLUMNS = (
    "dataset", "eps", "method", "other", "printed", "stated", "stated_low", "stated_high",
    "difference", "difference_low", "difference_high", "pairs", "p", "significant",
)  # fmt: skip
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
        older: runs that are left out, of an older version of the samplers.
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


def compared(records: Records, published: pd.DataFrame) -> dict[Place, Compared]:
    """Returns each place of the tuned experiment that has a tuned record, as a page orders them."""
    places: dict[Place, list[Cell]] = defaultdict(list)
    for cell in tuned_experiment().cells():
        places[place_of(cell)].append(cell)
    found = {}
    for place in sorted(places, key=_rank):
        tuned = average(records_of(places[place], records), "accuracy")
        stated = average(records_of(map(untuned, places[place]), records), "accuracy")
        if tuned.kept:
            found[place] = Compared(
                _printed(published, place),
                stated.estimate.scaled(100),
                tuned.estimate.scaled(100),
                [each for record in tuned.kept for each in record.get("tuned") or ()],
                stated.older + tuned.older,
            )
    return found


def rows_of(found: Mapping[Place, Compared]) -> pd.DataFrame:
    """Returns one row per data set, eps and method, with `COLUMNS`.

    stated, tuned and difference (tuned - stated) have a mean and the ends of its 95 % t interval,
    in percent. pairs counts the seeds that both have. p is corrected after Holm for all rows.
    learning_rates and epochs are those of the tuned runs, ordered; empty where they are not kept.
    """
    tests = _tested([(each.tuned, each.stated) for each in found.values()])
    rows = [
        (*place, each.printed, *_with_ends(each.stated), len(each.stated.by_seed),
         *_with_ends(each.tuned), len(each.tuned.by_seed), *test,
         " ".join(f"{rate:g}" for rate in sorted(choice.lr for choice in each.chosen)),
         " ".join(str(epochs) for epochs in sorted(choice.epochs for choice in each.chosen)),
         each.older)
        for (place, each), test in zip(found.items(), tests, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def order_of(found: Mapping[Place, Compared]) -> pd.DataFrame:
    """Returns one row per data set, eps and pair of methods in print.

    Columns: `ORDER_COLUMNS`. All are method - other: as printed, as stated, and `difference` when
    tuned. p is that of the latter, corrected after Holm for all pairs. The two readings of ALIBI
    are one method in print, and so no pair.
    """
    pairs = []
    for dataset, eps in dict.fromkeys((dataset, eps) for dataset, eps, _ in found):
        here = [name for name in IN_PRINT if (dataset, eps, name) in found]
        for names in itertools.combinations(here, 2):
            if len(set(map(row_in_print, names))) == 1:
                continue
            one, two = (found[dataset, eps, name] for name in names)
            pairs.append(((dataset, eps, *names), one, two))
    tests = _tested([(one.tuned, two.tuned) for _, one, two in pairs])
    rows = [
        (*key, one.printed - two.printed, *_with_ends(one.stated.minus(two.stated)), *test)
        for (key, one, two), test in zip(pairs, tests, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(ORDER_COLUMNS))


@cache
def row_in_print(method: str) -> str:
    """Returns which row of Tables 1a and 1b a method may be: its own, if no other is named."""
    return accuracy_table(PAPER_TABLES[0]).readings.get(method, method)


def _tested(pairs: Sequence[tuple[SeedsEstimate, SeedsEstimate]]) -> list[tuple[float, ...]]:
    """Returns of each pair the columns from `difference` to `significant`; one family of Holm's."""
    gaps = [one.minus(two) for one, two in pairs]
    corrected = holm([gap.p for gap in gaps])
    return [
        (*_with_ends(gap), len(one.by_seed.keys() & two.by_seed.keys()), p, is_significant(p))
        for (one, two), gap, p in zip(pairs, gaps, corrected, strict=True)
    ]


def _with_ends(mean: SeedsEstimate) -> tuple[float, float, float]:
    return mean.value, mean.low, mean.high


def _rank(place: Place) -> tuple[bool, str, float, int]:
    dataset, eps, method = place
    return dataset != "mnist", dataset, eps, METHODS.index(method)


def _printed(published: pd.DataFrame, place: Place) -> float:
    """Returns what Table 1a or 1b prints for a method, of whichever reading."""
    dataset, eps, method = place
    method = row_in_print(method)
    here = (published.paper + "/table" + published.table).isin(PAPER_TABLES) & published.usable
    here &= (published.dataset == dataset) & (published.eps == eps) & (published.method == method)
    values = published[here].value
    return float(values.iloc[0]) if len(values) else math.nan
