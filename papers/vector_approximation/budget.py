"""Does the published RAPPOR spend eps on each bit, 2 eps in all? What each reading predicts.

On MNIST and Fashion-MNIST our RAPPOR, by the paper's recipe, is the measure: at the stated eps and
at twice. On CIFAR-10, where our networks are smaller, it is the published LP-1ST, randomised
response, read off where one of its labels tells as many bits as RAPPOR's does.
"""

import math
from collections import defaultdict

import numpy as np
import pandas as pd

from labeldp.information import information
from labeldp.mechanisms import RandomizedResponse, Rappor
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.published import method_of, read_published
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import data_name_of
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import average
from papers.tables import records_of, write_page

STEM = "rappor_budget"
MEASURED = ("vector_approximation/table1a", "vector_approximation/table1b")
CLASSES = 10
CAPTION = """\
Published test accuracy of RAPPOR (vector_approximation, Tables 1a, 1b and 2) in percent, beside \
what is to be expected if its eps is the budget of a label (*eps*) or of each of the two bits that \
a label changes (*2 eps*). MNIST and Fashion-MNIST: our runs of RAPPOR by the paper's recipe. \
CIFAR-10: the published LP-1ST at the same bits per label, by linear interpolation between its \
four values; -: not run, or more bits than the last of them. In brackets: the published value \
minus it."""


def rows_of(records: Records, published: pd.DataFrame) -> pd.DataFrame:
    """Returns dataset, eps, published, and at_eps and at_twice: what each reading predicts."""
    usable = published[(published.paper == "vector_approximation") & published.usable]
    usable = usable[usable.metric == "accuracy"]
    values = usable.set_index(["dataset", "method", "eps"]).value.sort_index()
    ours = _ours(records)
    curve = values["cifar10", "lp_1st"]
    bits = [_bits(RandomizedResponse(eps)) for eps in curve.index]
    rows = []
    for dataset in ("mnist", "fashion_mnist", "cifar10"):
        for eps, value in values[dataset, "rappor"].items():
            expected = [
                float(np.interp(_bits(Rappor(each)), bits, curve, left=math.nan, right=math.nan))
                if dataset == "cifar10"
                else ours.get((dataset, each), math.nan)
                for each in (eps, 2 * eps)
            ]
            row = {"dataset": dataset, "eps": eps, "published": value}
            rows.append(row | dict(zip(("at_eps", "at_twice"), expected, strict=True)))
    return pd.DataFrame(rows)


def _bits(mechanism: Rappor | RandomizedResponse) -> float:
    return information(mechanism, CLASSES).bits


def _ours(records: Records) -> dict[tuple[str, float], float]:
    """Returns the mean accuracy in percent of our RAPPOR at each data set and eps."""
    cells: dict[tuple[str, float], list[Cell]] = defaultdict(list)
    for name in MEASURED:
        for cell in read_experiment(name).cells():
            if method_of(cell) == "rappor":
                cells[cell.dataset_name, cell.eps].append(cell)
    return {
        place: 100 * average(records_of(own, records), "accuracy").estimate.value
        for place, own in cells.items()
    }


def parts_of(rows: pd.DataFrame) -> list[Part]:
    """Returns the caption and the table."""
    lines = []
    for row in rows.to_dict("records"):
        line = {"data": data_name_of(row["dataset"]), "eps": f"{row['eps']:g}"}
        line["published"] = f"{row['published']:g}"
        for key, name in (("at_eps", "expected at eps"), ("at_twice", "expected at 2 eps")):
            gap = row["published"] - row[key]
            line[name] = number_text(row[key], "{:.1f}") + number_text(gap, " ({:+.1f})", "")
        lines.append(line)
    return [CAPTION, pd.DataFrame(lines)]


def write_budget(records: Records) -> None:
    """Writes the table as CSV, Markdown and LaTeX."""
    rows = rows_of(records, read_published())
    write_page(STEM, rows, "RAPPOR: eps for a label, or for each bit?", parts_of(rows))
