"""Answers that people hide: accuracy and AUC of every mechanism and loss at every eps."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.published import method_of
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import counted
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import ENOUGH_SEEDS, OLDER, PLUS_MINUS, average, left_out
from papers.comparisons import LEVEL, holm, is_significant
from papers.naming import method_name
from papers.tables import Table, records_of

SCORES = {"accuracy": "accuracy", "auc": "AUC"}
"""{field of records: how it is written for people}."""
REFERENCE = "rr"
"""With its own loss, the plain one: what every other method is tested against."""
TITLES = {
    "tv16": "voted for Trump, 41.7 % (tv16)",
    "gss_abortion": "abortion legal for any reason, 41.4 % (gss_abortion)",
    "chile": "vote of four kinds (chile)",
    "credit_data": "loan went bad, 28.2 % (credit_data)",
    "loanapp": "mortgage refused, 12.3 % (loanapp)",
}
CAPTION = """\
Accuracy and AUC on the test rows in percent, mean over seeds, each with its own split and noise; \
linear scores, the penalty chosen by held-out releases. AUC of four classes: the mean of \
each against the rest. Without a named loss a method has its mechanism's own: plain for RR, bits \
(bce) for RAPPOR and subset selection, the marginal likelihood for ALIBI and the optimal \
mechanism. With two classes subset selection and the optimal mechanism are RR. {plus_minus} `*`: \
differs from RR with the plain loss at the same eps, paired t test over seeds, p below {level:g} \
after Holm's correction for the {tests} differences of this table."""


@dataclass(frozen=True)
class ScoreTable(Table):
    """Accuracy and AUC of methods on tables, tested against plain RR seed by seed."""

    @property
    def title(self) -> str:
        """The title above it."""
        return "Secret ballot: real answers that people hide"

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns a row per data set, method, eps and score."""
        points: dict[tuple[str, str, float], list[Cell]] = defaultdict(list)
        for cell in self.experiment.cells():
            eps = float(cell.identity.get("mechanism.eps", math.inf))
            points[cell.dataset_name, method_of(cell), eps].append(cell)
        found = {place: records_of(cells, records) for place, cells in points.items()}
        rows = []
        for (dataset, method, eps), own in found.items():
            for score in SCORES:
                mean = average(own, score)
                ours = mean.estimate.scaled(100)
                other = average(found.get((dataset, REFERENCE, eps), []), score).estimate
                gap = ours.minus(other.scaled(100))
                is_tested = method != REFERENCE and len(mean.kept) >= ENOUGH_SEEDS
                rows.append(
                    {"dataset": dataset, "method": method, "eps": eps, "score": score}
                    | {"cells": len(points[dataset, method, eps]), "n": len(mean.kept)}
                    | {"ours": ours.value, "low": ours.low, "high": ours.high}
                    | {"difference": gap.value, "p": gap.p if is_tested else math.nan}
                    | {OLDER: mean.older}
                )
        table = pd.DataFrame(rows)
        return table.assign(p=holm(table.p.tolist()))

    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the caption and a table per data set."""
        wanted, done = (int(rows[key].sum()) // len(SCORES) for key in ("cells", "n"))
        command = f"`{self.experiment.command}`"
        state = "all" if done == wanted else f"{done} of"
        caption = CAPTION.format(
            plus_minus=PLUS_MINUS,
            level=LEVEL,
            tests=rows.p.count(),
        )
        more = left_out(rows[rows.score == "auc"])
        return [caption, *self._frames(rows), *more, f"{state} {wanted} runs done: {command}"]

    def _frames(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yields a frame of texts per data set: a line per method, columns of score and eps."""
        for dataset, panel in rows.groupby("dataset", sort=False):
            lines = []
            for method, line in panel.groupby("method", sort=False):
                at = {(row["score"], row["eps"]): row for row in line.to_dict("records")}
                bare = {score: at[score, math.inf] for score in SCORES if (score, math.inf) in at}
                places = [(s, eps) for s in SCORES for eps in _budgets(panel)]
                # No privacy has no eps: it is the same at each.
                texts = [_text(bare.get(place[0]) or at[place]) for place in places]
                lines.append([method_name(str(method)), *texts])
            heads = [f"{SCORES[s]}, eps={eps:g}" for s in SCORES for eps in _budgets(panel)]
            title = TITLES.get(str(dataset), str(dataset))
            seeds = counted(panel.n[panel.n > 0], "seed") if panel.n.any() else "no run yet"
            yield pd.DataFrame(lines, columns=[f"{title}, {seeds}", *heads])


def _budgets(panel: pd.DataFrame) -> list[float]:
    return sorted(eps for eps in panel.eps.unique() if math.isfinite(eps))


def _text(row: dict) -> str:
    half = (row["high"] - row["low"]) / 2 if row["n"] >= ENOUGH_SEEDS else math.nan
    spread = number_text(half, " ± {:.1f}", unknown="")
    return number_text(row["ours"], f"{{:.1f}}{spread}") + " *" * is_significant(row["p"])
