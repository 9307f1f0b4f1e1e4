"""Time and memory of one label's release, by the number of classes K, and what larger jobs need.

    python -m benchmarks.scale [classes=100,1000] [labels=100000] [seconds=4] [out=FOLDER]

For each mechanism and K as many labels are released at once as fit into 256 MB, at most `labels`;
one thread, eps=1, the best of three within `seconds`. What is done once, whatever the number of
labels, is measured by the release of one, and taken off. The memory is that of the release, as it
leaves the mechanism, beside what the law needs: one number of 8 bytes, a bit for each class, or the
positions of the ones. Prints a Markdown table and writes scale_cpu.csv and scale.png: cost against
K for 10^6 labels, and against N for K = 10^4, extrapolated in N as each label costs the same.
"""

import math
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib
import torch

from benchmarks.table import BENCHMARKS, print_head, print_row, write_benchmark
from labeldp_bench import mechanisms
from labeldp_bench.cli.script import command, integer, listed, output_folder, read_arguments
from labeldp_bench.mechanisms import ClassMechanism, RandomizedResponse, SubsetSelection
from labeldp_bench.mechanisms.bit_flips import BitFlips
from labeldp_bench.runs.memory import free_memory

matplotlib.use("Agg")
from matplotlib import pyplot as plt

EPS = 1.0
MECHANISMS: dict[str, ClassMechanism] = {
    "rr": mechanisms.RandomizedResponse(eps=EPS),
    "local_hashing": mechanisms.LocalHashing(eps=EPS),
    "hadamard": mechanisms.HadamardResponse(eps=EPS),
    "subset_selection": mechanisms.SubsetSelection(eps=EPS),
    "oue": mechanisms.OptimizedUnaryEncoding(eps=EPS),
    "rappor": mechanisms.Rappor(eps=EPS),
    "alibi": mechanisms.AdditiveLaplace(eps=EPS),
}
ROOM = 256e6
"""Bytes that a measured release may take, counting 9 for each entry: what is drawn beside it."""
SIZES = (
    ("alibi", "bytes_per_label", "alibi: a real for each class", "C6>-"),
    ("rappor", "bytes_per_label", "bits: a byte for each class", "C5o-"),
    ("rappor", "bytes_of_smallest_form", "rappor, coded (not built)", "C5--"),
    ("local_hashing", "bytes_of_smallest_form", "hash seed and bucket (not built)", "C1--"),
    ("rr", "bytes_per_label", "rr: one number", "C0o-"),
)
"""What is drawn of sizes: mechanism, column, name, line."""
NODE, CLUSTER = 64, 1024
"""Cores of the two machines that times are extrapolated to: labels are released independently."""


def needed_bits(name: str, mechanism: ClassMechanism, num_classes: int) -> tuple[str, float]:
    """Returns how the smallest known form of a release grows with K, and its bits per label.

    Args:
        name: of the mechanism.
        mechanism: the same.
        num_classes: K.
    """
    address = math.log2(num_classes)
    if isinstance(mechanism, RandomizedResponse):
        return "O(1)", math.ceil(address)
    if name == "hadamard":
        return "O(1)", num_classes.bit_length()
    if name == "local_hashing":
        # A 64-bit seed of the public hash, and the bucket.
        return "O(1)", 64 + math.ceil(math.log2(round(math.exp(EPS)) + 1))
    if isinstance(mechanism, SubsetSelection):
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


def measure(name: str, num_classes: int, most: int, seconds: float) -> dict[str, Any] | None:
    """Returns one row, or None where not even ten labels fit or a release takes too long."""
    mechanism = MECHANISMS[name]
    entry = 0 if name == "rr" else num_classes
    table = 9 * 2 * num_classes**2 if name == "hadamard" else 0  # the L x K table of messages
    if table > ROOM:
        return None
    size = int(min(most, ROOM / (9 * max(entry, 1))))
    if size < 10:
        return None
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (size,), generator=generator)
    times = {1: math.inf, size: math.inf}
    began = time.perf_counter()
    for _ in range(3):
        for few in times:
            start = time.perf_counter()
            released = mechanism.release(labels[:few], num_classes, generator)
            times[few] = min(times[few], time.perf_counter() - start)
        if time.perf_counter() - began > seconds:
            break
    each = max(times[size] - times[1], 0.0) / (size - 1)
    growth, bits = needed_bits(name, mechanism, num_classes)
    return {
        "mechanism": name,
        "num_classes": num_classes,
        "eps": EPS,
        "labels": size,
        "seconds_once": round(times[1], 6),
        "microseconds_per_label": round(1e6 * each, 4),
        "bytes_per_label": released.element_size() * released[0].numel(),
        "smallest_form": growth,
        "bytes_of_smallest_form": round(bits / 8, 2),
        "bytes_of_evidence": 4 * num_classes,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws time and size against K, and size against N at the K nearest to 10^4."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    several = sorted({row["num_classes"] for row in rows})
    middle = min(several, key=lambda each: abs(math.log(each / 1e4)))
    numbers = [1e4, 1e5, 1e6, 1e7, 1e8]
    for place, name in enumerate(MECHANISMS):
        own = [row for row in rows if row["mechanism"] == name]
        axes[0].plot(
            [row["num_classes"] for row in own], [row["microseconds_per_label"] for row in own],
            marker="osD^v<>"[place], markersize=4, color=f"C{place}", label=name,
        )  # fmt: skip
    for name, column, label, style in SIZES:
        own = [row for row in rows if row["mechanism"] == name]
        gigabytes = {row["num_classes"]: row[column] / 1e9 for row in own}
        axes[1].plot(list(gigabytes), [1e6 * each for each in gigabytes.values()], style)
        if middle in gigabytes:
            axes[2].plot(numbers, [n * gigabytes[middle] for n in numbers], style, label=label)
    free = free_memory() / 1e9
    for axis in axes[1:]:
        axis.axhline(free, color="0.4", linewidth=1)
        axis.annotate("free memory of this machine", (0.98, free), fontsize=8, ha="right",
                      xycoords=("axes fraction", "data"), va="bottom", color="0.3")  # fmt: skip
    axes[0].set(xlabel="classes K", ylabel="microseconds", title="time of one label, one thread")
    axes[1].set(xlabel="classes K", ylabel="GB", title="release of $10^6$ labels")
    axes[2].set(xlabel="labels N", ylabel="GB", title=f"release at K = {middle:,}")
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylim(top=1e3 * axes[0].get_ylim()[1])  # room for the legend
    axes[0].legend(fontsize=8, ncols=2, loc="upper left")
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def extrapolated(rows: list[dict[str, Any]], largest: int) -> list[str]:
    """Returns lines on 10^8 labels at the largest K: hours on one node, and on a cluster."""
    lines = []
    for row in rows:
        if row["num_classes"] == largest:
            hours = 1e8 * row["microseconds_per_label"] / 3.6e9
            size = 1e8 * row["bytes_per_label"] / 1e12
            small = 1e8 * row["bytes_of_smallest_form"] / 1e12
            lines.append(
                f"{row['mechanism']}: {hours:.3g} core hours, {hours / NODE:.2g} h on {NODE} "
                f"cores, {hours / CLUSTER:.2g} h on {CLUSTER}; {size:.3g} TB, at best "
                f"{small:.2g} TB"
            )
    return lines


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints, draws and writes; returns the exit status."""
    own = read_arguments(arguments, {
        "classes": "100,1000,10000,100000", "labels": "100000", "seconds": "4",
        "out": str(BENCHMARKS),
    })  # fmt: skip
    several = [integer("classes", text, low=2, high=10**6) for text in listed(own["classes"])]
    most = integer("labels", own["labels"], low=10)
    seconds = integer("seconds", own["seconds"], low=1)
    out = output_folder("out", own["out"])
    torch.set_num_threads(1)
    print_head(
        ("mechanism", "K", "labels", "s once", "us a label", "bytes a label", "smallest", "bytes")
    )
    rows = []
    for name in MECHANISMS:
        for num_classes in several:
            row = measure(name, num_classes, most, seconds)
            if row is None:
                print_row([name, num_classes, "-", "too large to measure", "", "", "", ""])
                continue
            rows.append(row)
            keys = ("labels", "seconds_once", "microseconds_per_label", "bytes_per_label",
                    "smallest_form", "bytes_of_smallest_form")  # fmt: skip
            print_row([name, num_classes, *(row[key] for key in keys)])
    print(f"\nextrapolated to 10^8 labels at K = {max(several):,}")
    print("\n".join(extrapolated(rows, max(several))))
    write_benchmark("scale", rows, torch.device("cpu"), out)
    draw(rows, out / "scale.png")
    print(out / "scale.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
