"""PLE's Table 1: how often a response names the true label. Arithmetic, no runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from labeldp_bench.mechanisms import (
    AdditiveLaplace,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from labeldp_bench.mechanisms.additive_laplace import argmax_retention
from labeldp_bench.records.published import DATASETS, read_published
from labeldp_bench.reports.tables.base import Records, Table

NAMES = {
    "rr": "RR",
    "rrwithprior": "RRWithPrior, no prior",
    "alibi": "ALIBI, scale 2/eps",
    "alibi_as_printed": "ALIBI, scale 1/(√2 eps): real eps 2√2 eps",
}
CLASSES_OF_PAPER = DATASETS["cifar10"]


@dataclass(frozen=True, kw_only=True)
class ResponseTable(Table):
    """Response accuracy: the probability that the argmax of a release is the true label.

    Attributes:
        eps: the budgets, as the paper has them.
        num_classes: numbers of classes; the paper prints 10.
    """

    eps: Sequence[float]
    num_classes: Sequence[int]

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (num_classes, method, eps), probabilities in percent.

        Columns: these; real_eps, what the release costs; ours; published, usable and note (10
        classes); difference. The rows of `alibi_as_printed` are our reading of the paper's ALIBI
        row; those of `alibi` spend eps.
        """
        rows = []
        for classes in self.num_classes:
            for method in NAMES:
                for eps in self.eps:
                    real = 2 * math.sqrt(2) * eps if method == "alibi_as_printed" else eps
                    ours = 100 * response_accuracy(method, real, classes)
                    rows.append((classes, method, eps, real, ours))
        frame = pd.DataFrame(rows, columns=["num_classes", "method", "eps", "real_eps", "ours"])
        printed = read_published(self.paper)
        printed = printed[printed.table == self.number].rename(columns={"value": "published"})
        printed = printed[["method", "eps", "published", "usable", "note"]].assign(
            num_classes=CLASSES_OF_PAPER
        )
        same = printed[printed.method == "alibi"].assign(
            method="alibi_as_printed", usable=True, note=""
        )
        frame = frame.merge(
            pd.concat([printed, same]), how="left", on=["num_classes", "method", "eps"]
        )
        frame["difference"] = frame.ours - frame.published
        return frame

    def markdown(self, rows: pd.DataFrame) -> str:
        """Returns the table for people."""
        parts = [
            f"# {self.paper}, table {self.number}",
            "",
            "Response accuracy in percent: how often the argmax of a response is the true label. "
            "Arithmetic, no runs: *ours* is closed form (RR) or quadrature (ALIBI). *paper*: the "
            "printed value, one draw of the labels. `†`: printed, but known to be wrong.",
            "",
        ]
        for classes, group in rows.groupby("num_classes"):
            lines = []
            for method, line in group.groupby("method", sort=False):
                lines.append([NAMES[str(method)], "ours", *(f"{x:.2f}" for x in line.ours)])
                if line.published.notna().all():
                    daggers = ["" if usable else " †" for usable in line.usable]
                    values = zip(line.published, daggers, strict=True)
                    lines.append(["", "paper", *(f"{x:.2f}{mark}" for x, mark in values)])
                    differences = (f"{round(x, 2) + 0.0:+.2f}" for x in line.difference)
                    lines.append(["", "difference", *differences])
                if method == "alibi_as_printed":
                    lines.append(["", "real eps", *(f"{x:.2f}" for x in line.real_eps)])
            heads = [f"K={classes}", "", *(f"eps={x:g}" for x in self.eps)]
            frame = pd.DataFrame(lines, columns=heads)
            parts += [frame.to_markdown(index=False, disable_numparse=True), ""]
        found = rows[rows.num_classes == CLASSES_OF_PAPER].pivot(
            index="method", columns="eps", values=["ours", "difference"]
        )
        worst = found.difference.loc["alibi_as_printed"].abs().max()
        first = self.eps[0]
        rr, alibi = (found.ours.loc[method, first] for method in ("rr", "alibi"))
        parts += [
            f"- The printed ALIBI row is that of scale 1/(√2 eps), to within {worst:.2f} points: "
            "`sigma`, a standard deviation, was given 1/eps. It spends 2.83 times its eps.",
            f"- At equal eps ALIBI's argmax keeps fewer labels than RR: {alibi:.2f} against "
            f"{rr:.2f} at eps={first:g}. What it tells of a label is another question: "
            "docs/mechanisms.md.",
            "- The printed RRWithPrior row is RR: there is no prior in it.",
            "",
        ]
        return "\n".join(parts)

    def latex(self, rows: pd.DataFrame) -> str:
        """Returns a booktabs table: ours, and the printed value in parentheses."""
        out = [f"\\begin{{tabular}}{{l{'r' * len(self.eps)}}}", "\\toprule"]
        out.append(" & ".join(["", *(f"$\\varepsilon={x:g}$" for x in self.eps)]) + " \\\\")
        for classes, group in rows.groupby("num_classes"):
            out += ["\\midrule", f"\\multicolumn{{{len(self.eps) + 1}}}{{l}}{{$K={classes}$}} \\\\"]
            for method, line in group.groupby("method", sort=False):
                name = NAMES[str(method)].replace("√2 eps", "$\\sqrt{2}\\varepsilon$")
                name = name.replace("2$\\sqrt", "$2\\sqrt").replace("/eps", "/$\\varepsilon$")
                name = name.replace("real eps", "real $\\varepsilon$")
                pairs = zip(line.ours, line.published, strict=True)
                texts = [f"{x:.2f}" + ("" if math.isnan(y) else f" ({y:.2f})") for x, y in pairs]
                out.append(" & ".join([name, *texts]) + " \\\\")
        return "\n".join([*out, "\\bottomrule", "\\end{tabular}", ""])


def response_accuracy(method: str, eps: float, num_classes: int) -> float:
    """Returns P(argmax of the release = true label) of a method that spends `eps`."""
    if method == "rr":
        return float(RandomizedResponse(eps).transition_matrix(num_classes)[0, 0])
    if method == "rrwithprior":
        uniform = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
        matrix = RandomizedResponseWithPrior(eps).transition_matrix(num_classes, uniform)
        return float(matrix.diagonal().mean())
    return argmax_retention(AdditiveLaplace(eps).scale, num_classes)
