"""Shares and logistic regressions on randomised answers, beside those of R's packages.

    python -m benchmarks.designs [out=FOLDER]

Reads design_counts.csv (how many people gave each answer) and designs_r.csv (what RRTCS, RRreg,
GLMMRR and rr say of them), both by benchmarks/designs.R, from the folder it writes to. Writes
designs.csv. Six shares of RRTCS and that of RRreg are also printed in the packages' vignettes.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import labeldp as ldp
from labeldp import designs
from labeldp.designs import Design
from labeldp_bench.cli.script import command, output_folder, read_arguments

SIXTHS = designs.forced_response({"no": 1 / 6, "yes": 1 / 6})
ASKED = {"copied": 1 / 12, "fought": 0.1, "bullied": 2 / 3, "bullying": 0.1, "drug": 1 / 3,
         "sex": 1 / 12}  # fmt: skip
"""A survey of 710 students: share of yes to the other question, which half of them were asked."""
DESIGNS: dict[str, Design] = {
    **{name: designs.unrelated_question(0.5, share) for name, share in ASKED.items()},
    "alcohol": designs.warner(0.7),
    "forced": designs.forced_response({"no": 0.2, "yes": 0.2}),
    "cocaine": designs.warner(1 / 6),
    "nigeria": SIXTHS,
    "plagiarism": designs.warner(0.25),  # crosswise: yes is "both or neither"
    "voting": designs.forced_response({"no": 0.25 / 3, "yes": 0.5 / 3}),
}


def standard_errors(
    features: NDArray, release: ldp.Release, weights: NDArray, found: NDArray
) -> NDArray:
    """Returns those of intercept and coefficients, from the observed information at the fit.

    Args:
        features: (N, d).
        release: of two classes.
        weights: people that each row stands for, (N,).
        found: intercept and coefficients, (d + 1,).
    """
    inputs = np.column_stack([np.ones(len(features)), features])
    prior = 1 / (1 + np.exp(-inputs @ found))
    joint = np.exp(release.log_likelihood()) * np.stack([1 - prior, prior], 1)
    posterior = joint[:, 1] / joint.sum(1)
    curvature = weights * (prior * (1 - prior) - posterior * (1 - posterior))
    return np.sqrt(np.diag(np.linalg.inv(inputs.T * curvature @ inputs)))


def compared(counts: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each number of R's packages, with ours."""
    rows = []
    for data, said in theirs.groupby("data", sort=False):
        design, own = DESIGNS[str(data)], counts[counts.data == data]
        people = own[["no", "yes"]].to_numpy().ravel()
        answers = ["no", "yes"] * len(own)
        ours: dict[str, list[float]]
        if (said.quantity == "yes").all():
            release = ldp.Release.from_answers(np.repeat(answers, people), design)
            share = ldp.class_shares(release)["yes"]
            ours = {"yes": [share.value, np.nan, share.low, share.high]}
        else:
            cells = [dict(part.split("=") for part in cell.split(" ")) for cell in own.cell]
            features = pd.DataFrame(cells).astype(float)
            inputs, release = np.repeat(features, 2, 0), ldp.Release.from_answers(answers, design)
            model = ldp.LabelDPClassifier(penalty=0).fit(inputs, release, people).model_
            found = np.diff(np.column_stack([model.intercept, model.coefficients]), axis=0)[0]
            errors = standard_errors(inputs, release, people, found)
            reach = 1.96 * errors
            each = np.stack([found, errors, found - reach, found + reach], 1).tolist()
            ours = dict(zip(["intercept", *features], each, strict=True))
        rows += [
            [data, design.name, design.eps, people.sum(), *their, *ours[their[1]]]
            for their in said[["package", "quantity", "estimate", "error"]].to_numpy().tolist()
        ]
    names = ["data", "design", "eps", "people", "package", "quantity", "theirs", "their_error",
             "ours", "our_error", "low", "high"]  # fmt: skip
    return pd.DataFrame(rows, columns=names)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the comparison."""
    out: Path = output_folder(
        "out", read_arguments(arguments, {"out": "results/benchmarks"})["out"]
    )
    read = [pd.read_csv(out / name) for name in ("design_counts.csv", "designs_r.csv")]
    table = compared(*read)
    print(table.round(4).to_string(index=False))
    table.to_csv(out / "designs.csv", index=False, float_format="%.6g")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
