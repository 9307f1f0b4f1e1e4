"""How much each mechanism tells of a label: a table, and the picture of docs/mechanisms.md.

Under a uniform prior, per (K, eps): mutual information and retention, by closed forms, enumeration
or quadrature: nothing is drawn. About ten seconds.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from labeldp import mechanisms
from labeldp.information import information
from labeldp.support.validate import InputError
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.rendering import Part
from labeldp_bench.support.checkout import CHECKOUT
from papers.tables import write_page

CLASSES = (10, 100)
BUDGETS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
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
MEASURES = {
    "information": "Mutual information of label and release, in bits (log2 K is all of it)",
    "retention": "Retention, %: how often the likeliest label is the true one, ties at random",
}

NOTE = "One release under a uniform prior; exact, nothing is drawn."
MESSAGE = "Subset selection tells the most of a label at every eps; RR equals it only at large eps"
CAPTION = (
    "One release under a uniform prior; exact, nothing is drawn. Above: mutual information with "
    "the label, as a share of the most informative mechanism's. Below: how often the likeliest "
    "label is the true one. Where two lines coincide, both names are at their end."
)


def table() -> pd.DataFrame:
    """Returns one row per (K, mechanism, eps) that the mechanism allows."""
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
    return pd.DataFrame(rows)


def parts_of(rows: pd.DataFrame) -> list[Part]:
    """Returns a table per measure and number of classes."""
    parts: list[Part] = [NOTE]
    for key, title in MEASURES.items():
        parts.append(f"## {title}")
        for num_classes, group in rows.groupby("K"):
            wide = group.pivot(index="mechanism", columns="eps", values=key)
            wide = wide.reindex([name for name in NAMES if name in wide.index])
            text = (100 * wide if key == "retention" else wide).map("{:.4g}".format)
            text.columns = [f"eps={eps:g}" for eps in wide.columns]
            parts.append(text.rename_axis(f"K={num_classes}").reset_index())
    return parts


def picture(rows: pd.DataFrame, path: Path) -> None:
    """Draws information against the most informative mechanism's, and retention."""
    figure, axes = plotting.new_figure(len(CLASSES), rows=2, height=4.2)
    for (above, below), num_classes in zip(axes.T, CLASSES, strict=True):
        group = rows[num_classes == rows.K]
        best = group.groupby("eps").information.max()
        ends: tuple[list[Any], list[Any]] = ([], [])
        for name, line in group.groupby("mechanism", sort=False):
            colour, label = plotting.colour_of(str(name)), name_of(str(name))
            style = {"color": colour}
            if name == "optimal":  # lies on subset selection, which is to be seen below it
                style |= {"linestyle": ":", "markerfacecolor": "white"}
            line = line.set_index("eps")
            share = line.information / best[line.index]
            for axis, values, end in zip(
                (above, below), (share, 100 * line.retention), ends, strict=True
            ):
                axis.plot(line.index, values, marker="o", **style)
                end.append((float(values.iloc[-1]), label, colour))
        above.set_title(f"K = {num_classes}")
        below.set_xlabel("privacy budget eps")
        for axis, end in zip((above, below), ends, strict=True):
            plotting.log_scale(axis, "x")
            plotting.ticks_at(axis, BUDGETS)
            plotting.label_lines(axis, end)
    axes[0, 0].set_ylabel("information, share of the best")
    axes[1, 0].set_ylabel("retention, %")
    plotting.title_and_caption(figure, MESSAGE, CAPTION)
    plotting.save(figure, path)


def write(docs: Path = CHECKOUT / "docs") -> Path:
    """Writes the table into results/tables, and the picture; returns the picture's path."""
    rows = table()
    write_page("mechanisms", rows, "How much each mechanism tells of a label", parts_of(rows))
    picture(rows, docs / "mechanisms.png")
    return docs / "mechanisms.png"
