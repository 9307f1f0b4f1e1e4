"""Prints how far BlockRR is from the optimum of its own programme 4.1; writes docs/blockrr_gap.md.

    python scripts/blockrr_gap.py [out=docs/blockrr_gap.md]

Per data set and eps of its paper, with its parameters (Tables 8 and 9) and the true class
frequencies as prior. Where the paper leaves l open, no label is rare, and l plays no role.
"""

import sys
from pathlib import Path

import torch
from tabulate import tabulate

from labeldp_bench.files import write_text
from labeldp_bench.mechanisms import BlockRR, RandomizedResponse
from labeldp_bench.mechanisms.block_rr_optimum import programme_gap, weight_matrix
from labeldp_bench.script import command, output_file, read_arguments

PAGE = Path(__file__).resolve().parents[1] / "docs" / "blockrr_gap.md"
COUNTS = {
    "cifar10_1": [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500],
    "cifar10_2": [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400],
}
PARAMETERS = {  # eps: (sigma, l)
    "cifar10_1": {
        0.6: (1.40, 6), 0.8: (1.20, 5), 1.0: (1.20, 5), 2.0: (0.80, 2), 3.0: (0.78, 0),
        4.0: (0.50, 0), 6.0: (0.50, 0), 8.0: (0.50, 0),
    },
    "cifar10_2": {
        0.6: (1.20, 2), 0.8: (1.20, 6), 1.0: (1.20, 5), 2.0: (0.80, 6), 3.0: (0.80, 0),
        4.0: (0.50, 0), 6.0: (0.20, 0), 8.0: (0.20, 0),
    },
}  # fmt: skip
HEADERS = ["data set", "eps", "sigma", "l", "rare", "RR", "BlockRR", "optimum", "gap",
           "never reported by the optimum"]  # fmt: skip
TEXT = """# BlockRR and its own programme

Written by `scripts/blockrr_gap.py`.

Liu and Ding (2026) derive BlockRR from a linear programme (their 4.1): maximise the sum of
w_ij P(j | i) with w_ij = p_j exp(-1[i != j] / sigma), over eps-label-DP channels that give each of
the l favoured labels probability 1/K under every rare label. Their section 4 solves a relaxation
and takes its vertex; the programme itself, solved exactly (HiGHS), has a larger optimum. Parameters
are those of their Tables 8 and 9, the prior is the true class frequencies, `gap` is relative to the
optimum, and RR is randomised response, which need not keep the 1/K.

{table}

Read the last column before wishing for the optimum: it gains by never reporting most rare labels,
because the objective weighs a column by its frequency. That is the class collapse that BlockRR was
made to avoid. So the gap says that the programme does not describe what BlockRR is good at, not
that BlockRR should be replaced by the programme's solution.
"""


def rows() -> list[list[object]]:
    """Returns one row per data set and eps."""
    table: list[list[object]] = []
    for name, parameters in PARAMETERS.items():
        counts = torch.tensor(COUNTS[name], dtype=torch.float64)
        prior = counts / counts.sum()
        for eps, (sigma, favoured) in parameters.items():
            mechanism = BlockRR(eps=eps, sigma=sigma, favoured=favoured)
            gap = programme_gap(mechanism, prior)
            rare = (~mechanism.partition(prior)[0]).nonzero().flatten().tolist()
            unused = (gap.matrix.amax(0) < 1e-9).nonzero().flatten().tolist()
            plain = RandomizedResponse(eps=eps).transition_matrix(len(prior))
            table.append([
                name, f"{eps:g}", f"{sigma:g}", favoured if rare else "any", spell(rare),
                f"{float((weight_matrix(prior, sigma) * plain).sum()):.3f}",
                f"{gap.block_rr:.3f}", f"{gap.optimum:.3f}",
                f"{100 * abs(1 - gap.block_rr / gap.optimum):.1f} %", spell(unused),
            ])  # fmt: skip
    return table


def spell(labels: list[int]) -> str:
    """Returns '6, 8', or a dash."""
    return ", ".join(map(str, labels)) or "-"


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the table and writes the page."""
    page = output_file("out", read_arguments(arguments, {"out": str(PAGE)})["out"])
    table = tabulate(rows(), HEADERS, tablefmt="github", disable_numparse=True)
    print(table)
    write_text(page, TEXT.format(table=table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
