"""How much each mechanism tells of a label: rows of a page, and the picture of docs/mechanisms.md.

Under a uniform prior, per (K, eps): mutual information and retention, by closed forms, enumeration
or quadrature: nothing is drawn. About ten seconds.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp import mechanisms
from labeldp.information import information
from labeldp.support.validate import InputError
from labeldp_bench.records.record import Records
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.support.checkout import CHECKOUT

CLASSES = (10, 100)
BUDGETS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
DIGITS = 9
"""Decimals of bits and shares that are the same on every processor."""
NAMES: dict[str, Any] = {
    "rr": mechanisms.RandomizedResponse,
    "rappor": mechanisms.Rappor,
    "unary": mechanisms.UnaryEncoding,
    "oue": mechanisms.OptimizedUnaryEncoding,
    "subset_selection": mechanisms.SubsetSelection,
    "hadamard": mechanisms.HadamardResponse,
    "local_hashing": mechanisms.LocalHashing,
    "alibi": mechanisms.AdditiveLaplace,
    "optimal": mechanisms.OptimalMechanism,
}
MESSAGE = "Subset selection tells the most of a label at every eps; RR equals it only at large eps"
CAPTION = (
    "One release under a uniform prior; exact, nothing is drawn. Above: mutual information with "
    "the label, as a share of the most informative mechanism's. Below: how often the likeliest "
    "label is the true one. Where two lines coincide, both names are at their end."
)


def rows_of(records: Records | None = None) -> pd.DataFrame:
    """Returns one row per (K, mechanism, eps) that the mechanism allows; no record is needed."""
    rows = []
    for num_classes in CLASSES:
        for name, kind in NAMES.items():
            for eps in BUDGETS:
                try:
                    found = information(kind(eps=eps), num_classes)
                except InputError:  # `optimal` above 10 classes
                    continue
                place = {"K": num_classes, "mechanism": name, "eps": eps}
                rows.append(place | {"information": found.bits, "retention": found.kept})
    # A processor's last digit must not say which of two equal lines is named first.
    return pd.DataFrame(rows).round(DIGITS)


def write_picture(docs: Path = CHECKOUT / "docs") -> Path:
    """Writes the picture; returns its path."""
    rows = rows_of()
    best = rows.groupby(["K", "eps"]).information.transform("max")
    lines = rows.assign(line=rows.mechanism, name=rows.mechanism.map(name_of), x=rows.eps)
    lines = lines.assign(error=0.0, bayes=math.nan)
    figure, axes = plotting.new_figure(len(CLASSES), rows=2, height=4.2)
    for part, y in zip(axes, (rows.information / best, 100 * rows.retention), strict=True):
        for panel, num_classes in zip(part, CLASSES, strict=True):
            labels = plotting.draw_lines(panel, lines.assign(y=y)[num_classes == rows.K])
            plotting.log_scale(panel, "x")
            plotting.ticks_at(panel, BUDGETS)
            plotting.label_lines(panel, labels)
    for panel, num_classes in zip(axes[0], CLASSES, strict=True):
        panel.set_title(f"K = {num_classes}")
    for panel in axes[1]:
        panel.set_xlabel("privacy budget eps")
    axes[0, 0].set_ylabel("information, share of the best")
    axes[1, 0].set_ylabel("retention, %")
    plotting.title_and_caption(figure, MESSAGE, CAPTION)
    plotting.save(figure, docs / "mechanisms.png")
    return docs / "mechanisms.png"
