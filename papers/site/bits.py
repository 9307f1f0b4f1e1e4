"""Accuracy against the bits that a release tells of its label: one picture for the whole field.

Mechanism and eps set how far right a mark lies; a line joins results of one learner. So marks above
each other had the same information, and the gap between them is learning.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from labeldp.information import information
from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism
from labeldp_bench.experiments.identity import all_but_seed
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of
from papers.site.best_known import NOISY, TEST_IMAGES, WITH_FEATURES
from papers.site.mechanisms import DIGITS

STEM = "accuracy_against_bits"
CLASSES = {"mnist": 10, "fashion_mnist": 10, "cifar10": 10, "cifar100": 100}
"""{data set of a panel: K}."""
PUBLISHED, IMAGENET = "published", "imagenet"
FAMILIES = {
    PUBLISHED: ("published", plotting.BLACK, "s"),
    "pixels": ("ours, network on pixels", plotting.RED, "o"),
    "features": ("ours, graphs and features without labels", plotting.BLUE, "o"),
    IMAGENET: ("ours, on a public ImageNet encoder", plotting.GREEN, "o"),
    NOISY: ("published, noisy labels, not private", plotting.PINK, "^"),
}
"""{family of learners: text, colour, marker}."""
QUOTED = "quoted from Ghazi"
"""Begins the note of a value that stands in its own paper's file too."""


class Named(NamedTuple):
    """The direct label of a line.

    Attributes:
        text: what it says.
        bits: it points at the cell of the line that is nearest to this place on x.
        at: where it stands, bits and percent.
    """

    text: str
    bits: float
    at: tuple[float, float]


NAMED = {
    ("mnist", "eigenmaps, simclr, bce"): Named("eigenmaps, SimCLR", 0.0018, (0.0001, 88)),
    ("mnist", "cnn, marginal"): Named("CNN, likelihood loss", 0.0145, (0.2, 76)),
    ("mnist", "vector_approximation, rappor"): Named("RAPPOR, Zhao 2025", 0.0142, (0.2, 64)),
    ("mnist", "vector_approximation, rr"): Named("RR, Zhao 2025", 0.021, (0.2, 52)),
    ("mnist", "labeldp_pro, rr"): Named("RR, Ghazi 2024", 0.02, (0.06, 14)),
    ("fashion_mnist", "graph_gaussian_process, none, bce"): Named(
        "Gaussian process", 0.0018, (0.00015, 72)
    ),
    ("fashion_mnist", "cnn, marginal"): Named("CNN, likelihood loss", 0.015, (0.2, 64)),
    ("fashion_mnist", "airbench, marginal"): Named("airbench", 0.7, (0.08, 96)),
    ("fashion_mnist", "dpmlbench, alibi"): Named("ALIBI, DPMLBench", 0.006, (0.2, 52)),
    ("fashion_mnist", "labeldp_pro, rr"): Named("RR, Ghazi 2024", 0.021, (0.06, 40)),
    ("cifar10", "noisy_labels, ssr_plus"): Named("SSR+, Feng 2022", 0.06, (0.0012, 97)),
    ("cifar10", "probe, imagenet, marginal"): Named("linear on ImageNet", 0.045, (0.0015, 88)),
    ("cifar10", "graph_gaussian_process, patches_simclr, bce"): Named(
        "Gaussian process", 0.007, (0.0003, 52)
    ),
    ("cifar10", "airbench, marginal"): Named("airbench", 0.176, (0.03, 72)),
    ("cifar10", "vector_approximation, rappor"): Named("RAPPOR, Zhao 2025", 0.587, (0.036, 89.5)),
    ("cifar10", "ghazi2021, lp_1st"): Named("LP-1ST, Ghazi 2021", 0.588, (0.25, 36)),
    ("cifar10", "labeldp_pro, rr"): Named("RR, Ghazi 2024", 0.02, (0.06, 4)),
    ("cifar100", "noisy_labels, ssr_plus"): Named("SSR+, Feng 2022", 0.2, (0.05, 76)),
    ("cifar100", "vector_approximation, rappor"): Named("RAPPOR, Zhao 2025", 0.66, (0.4, 88)),
    ("cifar100", "vector_approximation, alibi"): Named("ALIBI, Malek 2021", 1.03, (0.2, 42)),
    ("cifar100", "das2025, rr_retrain_consensus"): Named("RR retrained, Das 2025", 0.48, (0.11, 9)),
    ("cifar100", "ghazi2021, lp_1st"): Named("LP-1ST, Ghazi 2021", 1.43, (1.7, 39)),
    ("cifar100", "resnet18_w16, marginal"): Named("narrow ResNet, few epochs", 1.6, (1.1, 31)),
    ("cifar100", "probe, imagenet, marginal"): Named("linear on ImageNet", 0.18, (0.045, 60)),
}
"""{(data set, line): its label}; the other lines are thin."""
TITLE = "At equal bits per label, accuracy depends on the learner far more than on the mechanism"
CAPTION = (
    "Mechanism and eps set how far right a mark lies; a line joins results of one learner with one "
    "loss, and never falls (isotonic fit). x: mutual information of a label and its release under "
    "a uniform prior; no privacy is log2 K (dotted). Randomised response has 0.02, 0.11, 0.59 and "
    "2.29 bits at eps = 0.5, 1, 2 and 4 for 10 classes. Marks: published values and means of ours "
    "over seeds (dots). Noisy labels: the noise is that of randomised response, settings and epoch "
    "were chosen by true labels. Horizontal: the best accuracy without privacy, published or ours. "
    "Not shown: central methods, heuristics, and two-stage methods, whose prior no record keeps."
)


def points(records: Records, published: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per published value and per run of ours whose release has known bits.

    Columns: dataset; family (a key of `FAMILIES`); line (who learned); cell (equal for the seeds of
    one cell); mechanism; eps; bits; accuracy in percent.
    """
    ours = [_of_record(r) for r in records.values() if _is_shown(r)]
    printed = published[
        (published.metric == "accuracy")
        & (published.usable | (published.paper == NOISY))
        & published.dataset.isin([*CLASSES])
        & ~published.note.str.contains("central")
        & ~published.note.str.startswith(QUOTED)
    ]
    rows = [*filter(None, map(_of_printed, printed.to_dict("records"))), *ours]
    # A processor's last digit must not part the cells of one place.
    return pd.DataFrame(rows).round({"bits": DIGITS})


def _of_printed(row: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the point of a published value; None where its mechanism needs a prior."""
    method, eps = str(row["method"]), float(row["eps"])
    # `lp_1st_star` and `rr_unbiased` are other ways to learn from the same release.
    is_noisy = row["paper"] == NOISY
    names = (method, method.removesuffix("_star"), method.partition("_")[0], "rr" * is_noisy)
    name = next((name for name in names if name in CLASS_MECHANISMS), None)
    if name is None:
        return None
    # One paper has a network of its own in one table, and frozen features in another.
    table = f" {row['table']}" if "features" in row["note"] else ""
    return {
        "dataset": row["dataset"],
        "family": NOISY if is_noisy else PUBLISHED,
        "line": f"{row['paper']}{table}, {method}",
        "cell": f"{row['paper']} {row['table']} {method} {eps}",
        "mechanism": name,
        "eps": eps,
        "bits": information(class_mechanism(name, eps, {}), CLASSES[row["dataset"]]).bits,
        "accuracy": row["value"],
    }


def _is_shown(record: Record) -> bool:
    return (
        record["dataset"] in CLASSES
        and record.get("information_bits") is not None
        and record["n_test"] == TEST_IMAGES
    )


def _of_record(record: Record) -> dict[str, Any]:
    model, pretrain = record["model"], record.get("pretrain") or "none"
    is_network = model not in {*WITH_FEATURES} and pretrain == "none"
    # RAPPOR's bits learned by bce are far below the same bits learned by likelihood.
    extras = [None if is_network else pretrain, record["loss"]]
    if record["learner"] != "single_stage":
        extras.append(record["learner"])
    return {
        "dataset": record["dataset"],
        "family": "pixels" if is_network else IMAGENET if pretrain == IMAGENET else "features",
        "line": ", ".join(filter(None, [model, *extras])),
        "cell": f"{all_but_seed(record['identity'])} {record.get('distribution')}",
        "mechanism": record["mechanism"],
        "eps": record["eps"],
        "bits": record["information_bits"],
        "accuracy": 100 * record["accuracy"],
    }


def fit(cells: pd.DataFrame) -> pd.Series:
    """Returns {bits: accuracy} of one learner: the rising function next to its cells.

    Args:
        cells: rows with bits and accuracy.
    """
    means = cells.groupby("bits").accuracy.agg(["mean", "size"])
    rising = isotonic_regression(means["mean"].to_numpy(), weights=means["size"].to_numpy())
    return pd.Series(rising.x, index=means.index)


def draw(rows: pd.DataFrame) -> Figure:
    """Returns the picture of the rows of `points`, a panel per data set."""
    figure, grid = plotting.new_figure(2, 2, height=4.3)
    figure.set_figwidth(11.5)
    for axes, dataset in zip(grid.flat, CLASSES, strict=True):
        _draw_data_set(axes, rows[rows.dataset == dataset], dataset)
    for axes in grid[:, 0]:
        axes.set_ylabel("test accuracy, %")
    for axes in grid[-1]:
        axes.set_xlabel("information of one release, bits per label")
    handles = [
        axes.plot([], [], marker, color=colour, mfc="white", ls="-", label=text)[0]
        for text, colour, marker in FAMILIES.values()
    ]
    style: Any = {"loc": "lower right", "frameon": False, "fontsize": 9, "borderaxespad": 1.5}
    grid[0, 1].legend(handles=handles, **style)
    plotting.title_and_caption(figure, TITLE, CAPTION)
    return figure


def _draw_data_set(axes: Axes, rows: pd.DataFrame, dataset: str) -> None:
    ceiling = math.log2(CLASSES[dataset])
    plotting.log_scale(axes, "x")
    for (family, line), runs in rows.groupby(["family", "line"], sort=False):
        _, colour, marker = FAMILIES[str(family)]
        means = runs.groupby("cell").agg({"bits": "first", "accuracy": "mean"})
        curve, named = fit(means), NAMED.get((dataset, str(line)))
        strength = 1.0 if named else 0.3
        style: Any = {"color": colour, "alpha": strength}
        axes.plot(runs.bits, runs.accuracy, ".", color=colour, alpha=0.2, markersize=2.5)
        mark: Any = {"mfc": "white", "markersize": 4, "mew": 0.9, "zorder": 4}  # no name hides one
        axes.plot(means.bits, means.accuracy, marker, **mark, **style)
        axes.plot(curve.index, curve, lw=1.9 if named else 0.7, **style)
        if named:
            nearest = curve.index[np.abs(np.log(curve.index / named.bits)).argmin()]
            arrow = {"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 0, "shrinkB": 3}
            end = (nearest, curve[nearest])
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
            text: Any = {"color": colour, "fontsize": 9, "bbox": box, "arrowprops": arrow}
            axes.annotate(named.text, end, named.at, **text)
    best = rows[rows.bits > 0.9999 * ceiling].accuracy.max()
    levels: Any = {"color": plotting.GREY, "linestyle": ":", "linewidth": 1.4, "zorder": 0}
    axes.axvline(ceiling, **levels)
    axes.axhline(best, **levels)
    axes.set_title(f"{data_name_of(dataset)} (at most {ceiling:.2f} bits)")
    axes.set_ylim(0, 103)
    low = 0.5 * rows.bits.min()
    decades, parts = (0.0001, 0.001, 0.01, 0.1, 1), (0.05, 0.1, 0.2, 0.5, 1, 2, 5)
    plotting.ticks_at(axes, decades if low < 0.01 else parts)
    axes.set_xlim(low, 1.25 * ceiling)


def write_picture(records: Records, published: pd.DataFrame, out: Path) -> Path:
    """Writes the picture into a folder; returns its path."""
    path = out / f"{STEM}.png"
    plotting.save(draw(points(records, published)), path)
    return path
