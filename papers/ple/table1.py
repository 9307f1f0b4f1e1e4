"""PLE's Table 1: how often a response names the true label. Arithmetic, no runs."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from labeldp.mechanisms import (
    AdditiveLaplace,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from labeldp.mechanisms.laplace import argmax_retention
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from labeldp_bench.reports.rendering import Part
from papers.tables import Table

NAMES = {
    "rr": "RR",
    "rrwithprior": "RRWithPrior, no prior",
    "alibi": "ALIBI, scale 2/eps",
    "alibi_as_printed": "ALIBI, scale 1/(√2 eps): real eps 2√2 eps",
}
CLASSES_OF_PAPER = 10
CAPTION = (
    "Response accuracy in percent: how often the argmax of a response is the true label. "
    "Arithmetic, no runs: *ours* is closed form (RR) or quadrature (ALIBI). *paper*: the "
    "printed value, one draw of the labels. `†`: printed, but known to be wrong."
)
FINDINGS = """\
- The printed ALIBI row is that of scale 1/(√2 eps), to within {worst:.2f} points: `sigma`, a \
standard deviation, was given 1/eps. It spends 2.83 times its eps.
- At equal eps ALIBI's argmax keeps fewer labels than RR: {alibi:.2f} against {rr:.2f} at \
eps={eps:g}. What it tells of a label is another question: docs/mechanisms.md.
- The printed RRWithPrior row is RR: there is no prior in it."""


@dataclass(frozen=True)
class ResponseTable(Table):
    """Response accuracy: the probability that the argmax of a release is the true label.

    Attributes:
        eps: the budgets, as the paper has them.
        num_classes: numbers of classes; the paper prints 10.
    """

    eps: Sequence[float] = ()
    num_classes: Sequence[int] = ()

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (num_classes, method, eps), probabilities in percent.

        Columns: these; real_eps, what the release costs; ours; published, usable and note (10
        classes); difference. The rows of `alibi_as_printed` are our reading of the paper's ALIBI
        row; those of `alibi` spend eps.
        """
        rows = []
        for classes, method, eps in itertools.product(self.num_classes, NAMES, self.eps):
            real = 2 * math.sqrt(2) * eps if method == "alibi_as_printed" else eps
            rows.append(
                (classes, method, eps, real, 100 * response_accuracy(method, real, classes))
            )
        keys = ["num_classes", "method", "eps"]
        frame = pd.DataFrame(rows, columns=[*keys, "real_eps", "ours"])
        printed = read_published(self.paper).rename(columns={"value": "published"})
        printed = printed[printed.table == self.number].assign(num_classes=CLASSES_OF_PAPER)
        same = {"method": "alibi_as_printed", "usable": True, "note": ""}
        printed = pd.concat([printed, printed[printed.method == "alibi"].assign(**same)])
        printed = printed[[*keys, "published", "usable", "note"]]
        frame = frame.merge(printed, how="left", on=keys)
        frame["difference"] = frame.ours - frame.published
        return frame

    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the page: ours, the paper's and the difference; what they say."""
        tables: list[Part] = []
        for classes, group in rows.groupby("num_classes"):
            lines = []
            for method, line in group.groupby("method", sort=False):
                lines.append([NAMES[str(method)], "ours", *(f"{x:.2f}" for x in line.ours)])
                if line.published.notna().all():
                    values = zip(line.published, line.usable, strict=True)
                    paper = (f"{x:.2f}" + ("" if usable else " †") for x, usable in values)
                    lines.append(["", "paper", *paper])
                    differences = (f"{x:+z.2f}" for x in line.difference)
                    lines.append(["", "difference", *differences])
                if method == "alibi_as_printed":
                    lines.append(["", "real eps", *(f"{x:.2f}" for x in line.real_eps)])
            heads = [f"K={classes}", "", *(f"eps={x:g}" for x in self.eps)]
            tables.append(pd.DataFrame(lines, columns=heads))
        return [CAPTION, *tables, self._findings(rows)]

    def _findings(self, rows: pd.DataFrame) -> str:
        """Returns what the table says, with its numbers."""
        found = rows[rows.num_classes == CLASSES_OF_PAPER].set_index(["method", "eps"])
        first = self.eps[0]
        return FINDINGS.format(
            worst=found.difference.loc["alibi_as_printed"].abs().max(), eps=first,
            rr=found.ours.loc["rr", first], alibi=found.ours.loc["alibi", first],
        )  # fmt: skip


def response_accuracy(method: str, eps: float, num_classes: int) -> float:
    """Returns P(argmax of the release = true label) of a method that spends `eps`."""
    if method == "rr":
        return float(RandomizedResponse(eps).transition_matrix(num_classes)[0, 0])
    if method == "rrwithprior":
        uniform = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
        matrix = RandomizedResponseWithPrior(eps).transition_matrix(num_classes, uniform)
        return float(matrix.diagonal().mean())
    return argmax_retention(AdditiveLaplace(eps).scale, num_classes)
