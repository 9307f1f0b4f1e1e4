"""The README's table of what is known says what results/tables/best_known.csv says."""

import math

import pandas as pd
import pytest

from labeldp_bench.reports.naming import data_name_of, features_name_of, name_of
from labeldp_bench.reports.statistics import is_significant
from tests.conftest import CHECKOUT

README = (CHECKOUT / "README.md").read_text()
KNOWN = pd.read_csv(CHECKOUT / "results" / "tables" / "best_known.csv").to_dict("records")
CELLS = {(data_name_of(row["dataset"]), row["eps"]): row for row in KNOWN}


def rows_of_readme():
    """(local or central, its cells) of each row with numbers."""
    local, central = README.split("\n**Local**")[1].split("\n## ")[0].split("\n**Central**")
    for trust, part in (("local", local), ("central", central)):
        for line in part.splitlines():
            if line.startswith("| ") and not line.startswith(("| data", "| ---")):
                yield trust, [cell.strip() for cell in line.strip("|").split("|")]


def said(row, trust, kind):
    """What the README has to say of ours, of print, and of who is ahead."""
    ours = row[f"ours_{kind}".rstrip("_")]
    printed = row[f"printed_{trust}"]
    if math.isnan(ours):
        return ["not run", f"{printed:.1f}", ""]
    half = ours - row[f"{kind}low"]
    width = "" if math.isnan(half) else f" ± {half:.1f}"
    ahead = "one seed"
    if not math.isnan(row[f"{kind}p"]):
        ahead = "ours" if ours > printed else "print"
        ahead = ahead if is_significant(row[f"{kind}p"]) else "unclear"
    width += "†" * bool(row[f"{kind}looked"])
    return [f"{ours:.1f}{width} ({row[f'{kind}seeds']:.0f})", f"{printed:.1f}", ahead]


@pytest.mark.parametrize(("trust", "cells"), list(rows_of_readme()))
def test_a_row_of_the_readme_is_the_committed_one(trust, cells):
    # New records would move the table and leave the README behind.
    place, mechanism, learner, features, *shown = cells
    data, eps = place.split(", eps=")
    row = CELLS[data, float(eps)]
    kind = "central_" if trust == "central" else "" if features in ("none", "") else "features_"
    if learner == "not run":
        shown = [learner, *shown[1:]]
    elif trust == "local":
        assert mechanism == name_of(row[f"{kind}mechanism"])
    if learner != "not run" and kind:
        assert features == features_name_of(row[f"{kind}pretrain"])
    assert shown == said(row, trust, kind)


def test_the_readme_stays_short():
    # Three readers, two minutes each.
    assert len(README.splitlines()) <= 120
