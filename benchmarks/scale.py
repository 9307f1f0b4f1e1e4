"""Time and memory of one label's release, by the number of classes K, and what larger jobs need.

    python -m benchmarks.scale [classes=100,1000] [labels=100000] [seconds=4] [out=FOLDER]

For each mechanism and K as many labels are released at once, in their small form, as fit into
256 MB, at most `labels`; one thread, the best of three within `seconds`. What is done once,
whatever the number of labels, is measured by the release of one, and taken off. Beside the time and
size of a release it measures what a fit takes of it: the likelihood of a batch of 16 labels under
all classes, which is all that exists of it at one time. Prints a Markdown table and writes
scale_cpu.csv and scale.png: cost against K for 10^6 labels, and against N for K = 10^4,
extrapolated in N as each label costs the same.
"""

import math
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib
import torch

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp import mechanisms
from labeldp.mechanisms import (
    ClassMechanism,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
)
from labeldp.mechanisms.bits import BitFlips
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
    some,
)
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
BYTES_OF_OUTPUTS = "K bytes: bits as they are"
STYLES = ("C0o-", "C1s--", "C2D-", "C3^-", "C4v--", "C5<-", "C6>-")
"""Of mechanisms, in their order; where two lie on each other, both are seen."""
NODE, CLUSTER = 64, 1024
"""Cores of the two machines that times are extrapolated to: labels are released independently."""
MACHINES = 64
"""Of the cluster whose memory is drawn beside that of one machine."""


def needed_bits(mechanism: ClassMechanism, num_classes: int) -> tuple[str, float]:
    """Returns how the smallest known form of a release grows with K, and its bits per label.

    Args:
        mechanism: one of those measured.
        num_classes: K.
    """
    address = math.log2(num_classes)
    if isinstance(mechanism, RandomizedResponse):
        return "O(1)", math.ceil(address)
    if isinstance(mechanism, HadamardResponse):
        return "O(1)", num_classes.bit_length()
    if isinstance(mechanism, LocalHashing):  # a 64-bit seed of the public hash, and the bucket
        return "O(1)", 64 + math.ceil(math.log2(mechanism.num_buckets))
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
    form = mechanism.encoding(num_classes)
    entry = 1 if needed_bits(mechanism, num_classes)[0] == "O(1)" else num_classes
    size = int(min(most, ROOM / (9 * entry)))
    if size < 10:
        return None
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (size,), generator=generator)
    times = {1: math.inf, size: math.inf}
    began = time.perf_counter()
    for _ in range(3):
        for few in times:
            start = time.perf_counter()
            messages = form.draw(labels[:few], generator)
            times[few] = min(times[few], time.perf_counter() - start)
        if time.perf_counter() - began > seconds:
            break
    each = max(times[size] - times[1], 0.0) / (size - 1)
    batch, learnt = messages[:BATCH], math.inf
    for _ in range(3):
        start = time.perf_counter()
        mechanism.centred_log_likelihood(form.outputs(batch), num_classes)
        learnt = min(learnt, (time.perf_counter() - start) / len(batch))
    growth, bits = needed_bits(mechanism, num_classes)
    return {
        "mechanism": name,
        "num_classes": num_classes,
        "eps": mechanism.eps,
        "labels": size,
        "seconds_once": round(times[1], 6),
        "microseconds_per_label": round(1e6 * each, 4),
        "form": form.name,
        "bytes_per_label": messages.element_size() * messages[0].numel(),
        "smallest_form": growth,
        "bytes_of_smallest_form": round(bits / 8, 2),
        "microseconds_of_evidence": round(1e6 * learnt, 2),
        "bytes_of_evidence": 4 * num_classes,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws time and size against K, and size against N at the K nearest to 10^4."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    several = sorted({row["num_classes"] for row in rows})
    middle = min(several, key=lambda each: abs(math.log(each / 1e4)))
    numbers = [1e4, 1e5, 1e6, 1e7, 1e8]
    for style, name in zip(STYLES, MECHANISMS, strict=True):
        own = [row for row in rows if row["mechanism"] == name]
        several_own = [row["num_classes"] for row in own]
        mark = style.rstrip("-")
        axes[0].plot(several_own, [row["microseconds_per_label"] for row in own], style,
                     markersize=4)  # fmt: skip
        axes[0].plot(several_own, [row["microseconds_of_evidence"] for row in own], mark + ":",
                     markersize=3, linewidth=1)  # fmt: skip
        gigabytes = {row["num_classes"]: row["bytes_per_label"] / 1e9 for row in own}
        axes[1].plot(list(gigabytes), [1e6 * each for each in gigabytes.values()], style,
                     markersize=4)  # fmt: skip
        if middle in gigabytes:
            label = f"{name}: {next(row['form'] for row in own if row['num_classes'] == middle)}"
            axes[2].plot(numbers, [n * gigabytes[middle] for n in numbers], style, label=label,
                         markersize=4)  # fmt: skip
    axes[1].plot(several, [1e-3 * each for each in several], "0.6", linestyle="--")
    axes[2].plot(numbers, [1e-9 * middle * n for n in numbers], "0.6", linestyle="--",
                 label=BYTES_OF_OUTPUTS)  # fmt: skip
    free = free_memory() / 1e9
    lines = {"free memory of this machine": free, f"of {MACHINES} such machines": MACHINES * free}
    for axis in axes[1:]:
        for text, height in lines.items():
            axis.axhline(height, color="0.4", linewidth=1)
            axis.annotate(text, (0.02, height), fontsize=8, ha="left",
                          xycoords=("axes fraction", "data"), va="bottom",
                          color="0.3")  # fmt: skip
    axes[0].set(
        xlabel="classes K",
        ylabel="microseconds",
        title="time of one label, one thread\n(dotted: its likelihood)",
    )
    axes[1].set(xlabel="classes K", ylabel="GB", title="release of $10^6$ labels")
    axes[2].set(xlabel="labels N", ylabel="GB", title=f"release at K = {middle:,}")
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def extrapolated(rows: list[dict[str, Any]], largest: int) -> list[str]:
    """Returns lines on 10^8 labels at the largest K: hours on one node, and on a cluster."""
    lines = []
    for row in rows:
        if row["num_classes"] == largest:
            hours = 1e8 * row["microseconds_per_label"] / 3.6e9
            epoch = 1e8 * row["microseconds_of_evidence"] / 3.6e9
            size = 1e8 * row["bytes_per_label"] / 1e12
            small = 1e8 * row["bytes_of_smallest_form"] / 1e12
            lines.append(
                f"{row['mechanism']}: {hours:.3g} core hours, {hours / NODE:.2g} h on {NODE} "
                f"cores, {hours / CLUSTER:.2g} h on {CLUSTER}; {size:.3g} TB, at best "
                f"{small:.2g} TB; likelihoods of an epoch {epoch:.3g} core hours"
            )
    return lines


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints, draws and writes; returns the exit status."""
    own = read_arguments(arguments, {
        "classes": "100,1000,10000,100000,1000000", "labels": "100000", "seconds": "4",
        "out": str(BENCHMARKS),
    })  # fmt: skip
    texts = some("classes", own["classes"])
    several = [integer("classes", text, low=2, high=10**6) for text in texts]
    most = integer("labels", own["labels"], low=10)
    seconds = integer("seconds", own["seconds"], low=1)
    out = output_folder("out", own["out"])
    torch.set_num_threads(1)
    keep_memory()  # as runs do: else the system clears a batch's pages anew each time
    print_head(
        (
            "mechanism",
            "K",
            "labels",
            "s once",
            "us a label",
            "form",
            "bytes a label",
            "smallest",
            "bytes",
            "us a likelihood",
        )
    )
    rows = []
    for name in MECHANISMS:
        for num_classes in several:
            row = measure(name, num_classes, most, seconds)
            if row is None:
                print_row([name, num_classes, "-", "too large to measure", *[""] * 6])
                continue
            rows.append(row)
            keys = ("labels", "seconds_once", "microseconds_per_label", "form", "bytes_per_label",
                    "smallest_form", "bytes_of_smallest_form",
                    "microseconds_of_evidence")  # fmt: skip
            print_row([name, num_classes, *(row[key] for key in keys)])
    print(f"\nextrapolated to 10^8 labels at K = {max(several):,}")
    print("\n".join(extrapolated(rows, max(several))))
    write_benchmark("scale", rows, torch.device("cpu"), out)
    draw(rows, out / "scale.png")
    print(out / "scale.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
