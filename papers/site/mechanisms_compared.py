"""How much each mechanism tells of a label: the tables and the picture of docs/mechanisms.md.

Under a uniform prior, per (K, eps): mutual information, retention, signal-to-noise ratio, by closed
forms, enumeration or quadrature: nothing is drawn. About ten seconds.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import binom

from labeldp import mechanisms
from labeldp.mechanisms import AdditiveLaplace, ClassMechanism, SubsetSelection
from labeldp.mechanisms.bits import BitFlips
from labeldp.mechanisms.laplace import argmax_retention
from labeldp.mechanisms.subsets import p_outside, subset_information
from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.support.checkout import CHECKOUT

CLASSES = (2, 10, 100)
DRAWN = tuple(num_classes for num_classes in CLASSES if num_classes > 2)
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
    "signal": "Signal-to-noise ratio (p - q)^2 / (q (1 - q)) per report of one label's frequency",
}

MESSAGE = "Subset selection tells the most of a label at every eps; RR equals it at large eps alone"
CAPTION = (
    "One release under a uniform prior; exact, nothing is drawn. Above: mutual information with "
    "the label, as a share of the most informative mechanism's. Below: how often the likeliest "
    "label is the true one. Where two lines lie on each other, both names stand at their end."
)


def measure(mechanism: ClassMechanism, num_classes: int) -> dict[str, float]:
    """Returns information (bits), retention (fraction) and signal-to-noise ratio.

    p is the probability of the label's own bit, q that of a wrong label's; for reals the ratio is
    1 / variance of the noise.
    """
    if isinstance(mechanism, BitFlips):
        return _of_bit_flips(mechanism, num_classes)
    if isinstance(mechanism, SubsetSelection):
        return _of_subsets(mechanism, num_classes)
    if isinstance(mechanism, AdditiveLaplace):
        return _of_laplace(mechanism, num_classes)
    return of_enumeration(mechanism, num_classes)


def _of_bit_flips(mechanism: BitFlips, num_classes: int) -> dict[str, float]:
    """Sums over the own bit and the number of other ones: the posterior depends on no more."""
    others = torch.arange(num_classes, dtype=torch.float64)
    weight = torch.from_numpy(binom.pmf(others.numpy(), num_classes - 1, mechanism.p_flip))
    information, retention = torch.tensor(0.0), torch.tensor(0.0)
    for own, share in ((1.0, 1 - mechanism.p_drop), (0.0, mechanism.p_drop)):
        ones = others + own
        # log of the average likelihood against that of an all-zero report, e^eps per one
        average = torch.log1p(ones / num_classes * math.expm1(mechanism.eps))
        information = information + share * (weight * (own * mechanism.eps - average)).sum()
        hit = torch.where(ones > 0, own / ones.clamp_min(1), 1 / num_classes)
        retention = retention + share * (weight * hit).sum()
    return {
        "information": float(information) / math.log(2),
        "retention": float(retention),
        "signal": signal_to_noise(1 - mechanism.p_drop, mechanism.p_flip),
    }


def _of_subsets(mechanism: SubsetSelection, num_classes: int) -> dict[str, float]:
    size = mechanism.chosen_size(num_classes)
    p = 1 - p_outside(mechanism.eps, num_classes, size)
    return {
        "information": subset_information(num_classes, size, mechanism.eps) / math.log(2),
        "retention": p / size,
        # Of d members, d - 1 or d fall on the K - 1 wrong labels.
        "signal": signal_to_noise(p, (size - p) / (num_classes - 1)),
    }


def _of_laplace(mechanism: AdditiveLaplace, num_classes: int) -> dict[str, float]:
    return {
        "information": laplace_information(mechanism.scale, num_classes) / math.log(2),
        "retention": argmax_retention(mechanism.scale, num_classes),
        "signal": 1 / (2 * mechanism.scale**2),  # the noise has variance 2 b^2
    }


def laplace_information(scale: float, num_classes: int) -> float:
    """Returns the mutual information of a uniform label and its noisy one-hot vector, in nats.

    With T_j = clip(2 o_j - 1, -1, 1) / b, the log likelihood ratio of label j, it is
    ln K + E T_own - E ln S with S = sum_j exp(T_j). The T_j are independent, so that
    E ln S = integral over t > 0 of (e^-t - E e^(-t S)) / t (Frullani) needs no draws: E e^(-t S) is
    a product of integrals over one entry. With t = e^u the trapezoidal rule is exact to 1e-9.

    Args:
        scale: b of the noise, > 0; 2 / eps is ALIBI's.
        num_classes: K >= 2.

    >>> round(laplace_information(scale=2 / 3, num_classes=10) / math.log(2), 4)
    0.8977
    """
    # A wrong entry is noise: below 0, between, above 1. The own one mirrors it around 1/2.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    inside = (nodes + 1) / 2
    ratios = np.concatenate([[-1.0], nodes, [1.0]]) / scale
    tail = math.exp(-1 / scale) / 2
    density = weights / 2 * np.exp(-inside / scale) / (2 * scale)
    wrong = np.concatenate([[0.5], density, [tail]])
    own = wrong[::-1]
    width = 0.03  # outside of these steps lies less than 1e-15
    t = np.exp(np.arange(-40 - 1 / scale, 8 + 1 / scale, width))[:, None]
    decay = np.exp(-t * np.exp(ratios))
    laplace_of_sum = (decay @ own) * (decay @ wrong) ** (num_classes - 1)
    log_sum = width * float((np.exp(-t[:, 0]) - laplace_of_sum).sum())
    return math.log(num_classes) + float(ratios @ own) - log_sum


def of_enumeration(mechanism: ClassMechanism, num_classes: int) -> dict[str, float]:
    """Returns the three measures of a mechanism with few outputs."""
    outputs = mechanism.output_space(num_classes)
    log_likelihood = mechanism.log_likelihood(outputs, num_classes)
    probability = log_likelihood.exp()
    average = probability.mean(1, keepdim=True)
    best = probability >= probability.amax(1, keepdim=True) * (1 - 1e-9)
    hit = (probability * best / best.sum(1, keepdim=True)).sum() / num_classes
    bits = torch.nn.functional.one_hot(outputs, num_classes) if outputs.dim() == 1 else outputs
    ones = probability.T @ bits.to(torch.float64)
    p = float(ones.diagonal().mean())
    q = float((ones.sum() - ones.diagonal().sum()) / (num_classes * (num_classes - 1)))
    information = torch.special.xlogy(probability, probability / average).sum() / num_classes
    return {
        "information": float(information) / math.log(2),
        "retention": float(hit),
        "signal": signal_to_noise(p, q),
    }


def signal_to_noise(p: float, q: float) -> float:
    """Returns how far apart the own and a wrong label's bit are, in variances of the latter."""
    return (p - q) ** 2 / (q * (1 - q))


def table() -> pd.DataFrame:
    """Returns one row per (K, mechanism, eps) that the mechanism allows."""
    rows = []
    for num_classes in CLASSES:
        for name, kind in NAMES.items():
            for eps in BUDGETS:
                try:
                    values = measure(kind(eps=eps), num_classes)
                except InputError:  # `optimal` above 10 classes
                    continue
                rows.append({"K": num_classes, "mechanism": name, "eps": eps} | values)
    return pd.DataFrame(rows)


def tables(rows: pd.DataFrame) -> str:
    """Returns a table per measure and number of classes, Markdown; bold: the best of a column."""
    parts = []
    for key, title in MEASURES.items():
        parts.append(f"## {title}")
        for num_classes, group in rows.groupby("K"):
            wide = group.pivot(index="mechanism", columns="eps", values=key)
            wide = wide.reindex([name for name in NAMES if name in wide.index])
            is_best = wide >= 0.999 * wide.max()
            text = (100 * wide if key == "retention" else wide).map("{:.4g}".format)
            text = text.where(~is_best, "**" + text + "**")
            text.columns = [f"eps={eps:g}" for eps in wide.columns]
            parts.append(markdown_table(text, name=f"K={num_classes}"))
    return "\n\n".join(parts) + "\n"


def picture(rows: pd.DataFrame, path: Path) -> None:
    """Draws information against the most informative mechanism's, and retention."""
    figure, axes = plotting.new_figure(len(DRAWN), rows=2, height=4.2)
    for (above, below), num_classes in zip(axes.T, DRAWN, strict=True):
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


def write_page(docs: Path = CHECKOUT / "docs") -> list[Path]:
    """Writes the tables into docs/mechanisms.md, below its text, and the picture; returns both."""
    rows, page = table(), docs / "mechanisms.md"
    text = page.read_text().partition(f"## {MEASURES['information']}")[0]
    write_text(page, text + tables(rows))
    picture(rows, docs / "mechanisms.png")
    return [page, docs / "mechanisms.png"]
