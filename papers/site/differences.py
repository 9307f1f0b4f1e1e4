"""Means of the methods of a paper's table, and tests of differences between them."""

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import pandas as pd

from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import Record
from labeldp_bench.reports.statistics import SeedsEstimate, average
from papers.comparisons import difference_text, holm
from papers.tables import accuracy_table


@cache
def runs_by_settings() -> Mapping[str, dict[str, Record]]:
    """Returns {settings without the seed: {name of a run: its record}}."""
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for name, record in read_committed().items():
        found[all_but_seed(record["identity"])][name] = record
    return found


@cache
def means_of(
    experiment: str, every_seed: bool = False, budget: str = PAPER
) -> dict[tuple[str, float], SeedsEstimate]:
    """Returns {(method, eps): accuracy in percent} of a paper's table.

    With `every_seed` runs of other experiments count too that differ in the seed alone.
    """
    loaded = accuracy_table(experiment)
    runs: dict[tuple[str, float], dict[str, Record]] = defaultdict(dict)
    for cell in loaded.experiment.cells(budget):
        eps = float(cell.identity.get("mechanism.eps", math.inf))
        alike = runs_by_settings()[all_but_seed(cell.identity)]
        runs[loaded.method_of(cell), eps] |= {
            name: run for name, run in alike.items() if every_seed or name == cell.config_hash
        }
    found = {place: list(same.values()) for place, same in runs.items() if same}
    return {place: average(same, "accuracy").estimate.scaled(100) for place, same in found.items()}


def budgets_of(means: Mapping[tuple[str, float], SeedsEstimate]) -> list[float]:
    """Returns the finite eps of `means_of`, sorted."""
    return sorted({eps for _, eps in means if math.isfinite(eps)})


def tested(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Returns the frame with columns of differences as texts, tested as one family of Holm's."""
    corrected = iter(holm([gap.p for column in columns for gap in frame[column]]))
    texts = {
        column: [difference_text(gap, next(corrected)) for gap in frame[column]]
        for column in columns
    }  # fmt: skip
    return frame.assign(**texts)
