"""Does the published RAPPOR spend eps on each bit, 2 eps in all? What each reading predicts.

On MNIST and Fashion-MNIST our RAPPOR, by the paper's recipe, is the measure: at the stated eps and
at twice. On CIFAR-10, where our networks are smaller, it is the published LP-1ST, randomised
response, read off where one of its labels tells as many bits as RAPPOR's does.
"""

import math

import numpy as np
import pandas as pd

from labeldp.information import information
from labeldp.mechanisms import RandomizedResponse, Rappor
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from papers.tables import accuracy_table

CLASSES = 10


def rows_of(records: Records) -> pd.DataFrame:
    """Returns dataset, eps, published, and at_eps and at_twice: what each reading predicts."""
    usable = read_published("vector_approximation").query("usable and metric == 'accuracy'")
    values = usable.set_index(["dataset", "method", "eps"]).value.sort_index()
    tables = [accuracy_table(f"vector_approximation/table{name}") for name in ("1a", "1b")]
    known = pd.concat([table.rows(records) for table in tables])
    ours = known[known.method == "rappor"].set_index(["dataset", "eps"]).ours.to_dict()
    curve = values["cifar10", "lp_1st"]
    bits = [_bits(RandomizedResponse(eps)) for eps in curve.index]
    rows = []
    for dataset in ("mnist", "fashion_mnist", "cifar10"):
        for eps, value in values[dataset, "rappor"].items():
            row = {"dataset": dataset, "eps": eps, "published": value}
            for key, real in (("at_eps", eps), ("at_twice", 2 * eps)):
                row[key] = ours.get((dataset, real), math.nan)
                if dataset == "cifar10":
                    at = _bits(Rappor(real))
                    row[key] = float(np.interp(at, bits, curve, left=math.nan, right=math.nan))
            rows.append(row)
    return pd.DataFrame(rows)


def _bits(mechanism: Rappor | RandomizedResponse) -> float:
    return information(mechanism, CLASSES).bits
