"""Time and memory of one label's release, by the number of classes K, and what larger jobs need.

    python -m benchmarks.scale [classes=100,1000] [labels=100000] [seconds=4] [out=FOLDER]

For each mechanism and K as many labels are released at once, in their small form, as fit into
256 MB, at most `labels`; one thread, the best of three within `seconds`. What is done once,
whatever the number of labels, is measured by the release of one, and taken off. Beside the time and
size of a release it measures what a fit takes of it: the likelihood of a batch of 16 labels under
all classes, which is all that exists of it at one time. Writes scale_cpu.csv and scale.png: cost
against K for 10^6 labels, and against N for K = 10^4, extrapolated in N as each label costs the
same.
"""

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import torch

from benchmarks.harness import Row, benchmark, seconds_of
from labeldp import mechanisms
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.bits import BitFlips
from labeldp_bench.cli.script import integer, some
from labeldp_bench.runs.job import free_memory
from labeldp_bench.support.process import keep_memory

matplotlib.use("Agg")
from matplotlib import pyplot as plt

EPS = 1.0
MECHANISMS: dict[str, ClassMechanism] = {
    "rr": mechanisms.RandomizedResponse(eps=EPS),
    "hadamard": mechanisms.HadamardResponse(eps=EPS),
    "local_hashing": mechanisms.LocalHashing(eps=EPS),
    "subset_selection": mechanisms.SubsetSelection(eps=EPS),
    "rappor": mechanisms.Rappor(eps=EPS),
    "oue, eps=5": mechanisms.OptimizedUnaryEncoding(eps=5.0),
    "alibi": mechanisms.AdditiveLaplace(eps=EPS),
}
ROOM = 256e6
"""Bytes that the outputs of a measured release may take, counting 9 for each entry."""
BATCH = 16
STYLES = ("C0o-", "C1s--", "C2D-", "C3^-", "C4v--", "C5<-", "C6>-")
"""Of mechanisms, in their order; where two lie on each other, both are seen."""
MACHINES = 64
"""Of the cluster whose memory is drawn beside that of one machine."""


def needed_bits(mechanism: ClassMechanism, num_classes: int) -> tuple[str, float]:
    """Returns how the smallest known form of a release grows with K, and its bits per label.

    Args:
        mechanism: one of those measured.
        num_classes: K.
    """
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        return "O(1)", math.ceil(math.log2(num_classes))
    if isinstance(mechanism, mechanisms.HadamardResponse):
        return "O(1)", num_classes.bit_length()
    if isinstance(mechanism, mechanisms.LocalHashing):  # a seed of the public hash, and the bucket
        return "O(1)", 64 + math.ceil(math.log2(mechanism.num_buckets))
    if isinstance(mechanism, mechanisms.SubsetSelection):
        return "O(K)", num_classes * entropy(mechanism.chosen_size(num_classes) / num_classes)
    if isinstance(mechanism, BitFlips):
        return "O(K)", num_classes * entropy(mechanism.p_flip)
    return "O(K)", 32.0 * num_classes


def entropy(share: float) -> float:
    """Returns the entropy of a bit that is 1 with this probability, in bits.

    >>> entropy(0.5)
    1.0
    """
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def measured(name: str, num_classes: int, most: int, seconds: float) -> Row | None:
    """Returns one row, or None where not even ten labels fit."""
    mechanism = MECHANISMS[name]
    growth, bits = needed_bits(mechanism, num_classes)
    size = int(min(most, ROOM / (9 * (1 if growth == "O(1)" else num_classes))))
    if size < 10:
        return None
    form = mechanism.encoding(num_classes)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (size,), generator=generator)
    once, whole, began = math.inf, math.inf, time.perf_counter()
    for _ in range(3):
        once = min(once, seconds_of(lambda: form.draw(labels[:1], generator), 1))
        whole = min(whole, seconds_of(lambda: form.draw(labels, generator), 1))
        if time.perf_counter() - began > seconds:
            break
    messages = form.draw(labels[:BATCH], generator)
    learnt = seconds_of(
        lambda: mechanism.centred_log_likelihood(form.outputs(messages), num_classes)
    )
    return {
        "mechanism": name,
        "num_classes": num_classes,
        "eps": mechanism.eps,
        "labels": size,
        "seconds_once": round(once, 6),
        "microseconds_per_label": round(1e6 * max(whole - once, 0.0) / (size - 1), 4),
        "form": form.name,
        "bytes_per_label": messages.element_size() * messages[0].numel(),
        "smallest_form": growth,
        "bytes_of_smallest_form": round(bits / 8, 2),
        "microseconds_of_evidence": round(1e6 * learnt / len(messages), 2),
        "bytes_of_evidence": 4 * num_classes,
    }


def draw(rows: list[Row], path: Path) -> None:
    """Draws time and size against K, and size against N at the K nearest to 10^4."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    several = sorted({row["num_classes"] for row in rows})
    middle = min(several, key=lambda each: abs(math.log(each / 1e4)))
    numbers = [1e4, 1e5, 1e6, 1e7, 1e8]
    for style, name in zip(STYLES, MECHANISMS, strict=True):
        own = [row for row in rows if row["mechanism"] == name]
        classes = [row["num_classes"] for row in own]
        drawn: dict[str, Any] = {"markersize": 4}
        axes[0].plot(classes, [row["microseconds_per_label"] for row in own], style, **drawn)
        likelihoods = [row["microseconds_of_evidence"] for row in own]
        axes[0].plot(classes, likelihoods, style.rstrip("-") + ":", markersize=3, linewidth=1)
        axes[1].plot(classes, [1e-3 * row["bytes_per_label"] for row in own], style, **drawn)
        for row in own:
            if row["num_classes"] == middle:
                sizes = [1e-9 * n * row["bytes_per_label"] for n in numbers]
                axes[2].plot(numbers, sizes, style, label=f"{name}: {row['form']}", **drawn)
    axes[1].plot(several, [1e-3 * each for each in several], "0.6", linestyle="--")
    outputs = [1e-9 * middle * n for n in numbers]
    axes[2].plot(numbers, outputs, "0.6", linestyle="--", label="K bytes: bits as they are")
    free = free_memory() / 1e9
    lines = {"free memory of this machine": free, f"of {MACHINES} such machines": MACHINES * free}
    for axis in axes[1:]:
        for text, height in lines.items():
            axis.axhline(height, color="0.4", linewidth=1)
            place = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "bottom"}
            axis.annotate(text, (0.02, height), fontsize=8, color="0.3", **place)
    title = "time of one label, one thread\n(dotted: its likelihood)"
    axes[0].set(xlabel="classes K", ylabel="microseconds", title=title)
    axes[1].set(xlabel="classes K", ylabel="GB", title="release of $10^6$ labels")
    axes[2].set(xlabel="labels N", ylabel="GB", title=f"release at K = {middle:,}")
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


@benchmark("scale", __doc__, classes="100,1000,10000,100000,1000000", labels="100000", seconds="4")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each mechanism and number of classes; draws them in the end."""
    several = [
        integer("classes", text, low=2, high=10**6) for text in some("classes", options["classes"])
    ]
    most = integer("labels", options["labels"], low=10)
    seconds = integer("seconds", options["seconds"], low=1)
    torch.set_num_threads(1)
    keep_memory()  # as runs do: else the system clears a batch's pages again each time
    rows = []
    for name in MECHANISMS:
        for num_classes in several:
            row = measured(name, num_classes, most, seconds)
            if row is not None:
                rows.append(row)
                yield row
    draw(rows, Path(options["out"]).expanduser() / "scale.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
