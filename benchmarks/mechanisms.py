"""Labels per second of each release, beside a plain Python loop and public code.

    python -m benchmarks.mechanisms [labels=50000] [out=FOLDER]

`labels` are released at once; one thread, the best of three; priors per example where a mechanism
takes one. The loops draw one label at a time from the same law, without tensors. multi-freq-ldpy
and OpenDP are measured where they are installed; both release one label a call, as one person's
device does, and OpenDP draws by exact arithmetic. Prints a Markdown table and writes
results/benchmarks/mechanisms_cpu.csv.
"""

import importlib
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp import mechanisms
from labeldp.mechanisms import Mechanism
from labeldp.mechanisms.bits import BitFlips
from labeldp.mechanisms.subsets import p_outside
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
)

CLASSES = (10, 100)
EPS = 1.0
LOOPED = 2_000
MECHANISMS: tuple[Mechanism, ...] = (
    mechanisms.RandomizedResponse(eps=EPS),
    mechanisms.Rappor(eps=EPS),
    mechanisms.UnaryEncoding(eps=EPS),
    mechanisms.OptimizedUnaryEncoding(eps=EPS),
    mechanisms.SubsetSelection(eps=EPS),
    mechanisms.HadamardResponse(eps=EPS),
    mechanisms.LocalHashing(eps=EPS),
    mechanisms.AdditiveLaplace(eps=EPS),
    mechanisms.RandomizedResponseWithPrior(eps=EPS),
    mechanisms.TopKSubset(eps=EPS),
    mechanisms.BlockRR(eps=EPS, favoured=2),
    mechanisms.OptimalMechanism(eps=EPS),
)
TAKES_PRIOR_PER_EXAMPLE = (mechanisms.RandomizedResponseWithPrior, mechanisms.TopKSubset)
# Their client of one label: module, function, further arguments.
MULTI_FREQ = {
    "RandomizedResponse": ("GRR", "GRR_Client", ()),
    "Rappor": ("UE", "UE_Client", (False,)),
    "OptimizedUnaryEncoding": ("UE", "UE_Client", (True,)),
    "SubsetSelection": ("SS", "SS_Client", ()),
    "LocalHashing": ("LH", "LH_Client", (True,)),
}


def plain_loop(mechanism: Mechanism, num_classes: int) -> Callable[[int], object] | None:
    """Returns a function that releases one label in plain Python, or None where none is written."""
    draw = random.random
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        p_flip = mechanism.p_flip(num_classes)

        def flip_label(label: int) -> int:
            if draw() >= (num_classes - 1) * p_flip:
                return label
            other = random.randrange(num_classes - 1)
            return other + (other >= label)

        return flip_label
    if isinstance(mechanism, BitFlips):
        keep, flip = 1 - mechanism.p_drop, mechanism.p_flip
        return lambda label: [draw() < (keep if i == label else flip) for i in range(num_classes)]
    if isinstance(mechanism, mechanisms.SubsetSelection):
        size = mechanism.chosen_size(num_classes)
        missing = p_outside(mechanism.eps, num_classes, size)

        def pick_set(label: int) -> set[int]:
            others = [i for i in range(num_classes) if i != label]
            if draw() < missing:
                return set(random.sample(others, size))
            return {label, *random.sample(others, size - 1)}

        return pick_set
    if isinstance(mechanism, mechanisms.AdditiveLaplace):
        rate = 1 / mechanism.scale
        exponential = random.expovariate
        return lambda label: [
            (i == label) + exponential(rate) - exponential(rate) for i in range(num_classes)
        ]
    if isinstance(mechanism, mechanisms.HadamardResponse):
        length, keep = 2 ** num_classes.bit_length(), mechanism.p_keep

        def pick_message(label: int) -> list[bool]:
            wanted, row = draw() < keep, label + 1
            message = random.randrange(length)
            if ((row & message).bit_count() % 2 == 0) != wanted:
                message ^= row & -row
            return [(i & message).bit_count() % 2 == 0 for i in range(1, num_classes + 1)]

        return pick_message
    if isinstance(mechanism, mechanisms.BlockRR):
        rows = mechanism.transition_matrix(num_classes).tolist()
        return lambda label: random.choices(range(num_classes), rows[label])
    if isinstance(mechanism, mechanisms.RandomizedResponseWithPrior):
        priors = torch.rand(64, num_classes).tolist()
        tail = math.exp(-mechanism.eps)

        def pick_top(label: int) -> int:
            prior = random.choice(priors)
            order = sorted(range(num_classes), key=prior.__getitem__, reverse=True)
            mass, best, size = 0.0, -1.0, 0
            for k, other in enumerate(order, 1):
                mass += prior[other]
                if mass / (1 + (k - 1) * tail) > best:
                    best, size = mass / (1 + (k - 1) * tail), k
            top = order[:size]
            if label in top and draw() < 1 / (1 + (size - 1) * tail):
                return label
            return random.choice([other for other in top if other != label] or top)

        return pick_top
    return None


def rate(work: Callable[[], object], size: int) -> float:
    """Returns labels per second, the best of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return size / min(seconds)


def multi_freq_rate(name: str, num_classes: int, labels: Sequence[int]) -> int | None:
    """Returns the rate of multi-freq-ldpy's client, or None where it is not there."""
    if name not in MULTI_FREQ:
        return None
    module, function, further = MULTI_FREQ[name]
    try:
        found = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{module}")
        client = getattr(found, function)
    except (ImportError, AttributeError):
        return None
    try:
        client(labels[0], num_classes, EPS, *further)  # compiles
    except TypeError as error:  # its hashing client, beside xxhash 4
        print(f"multi-freq-ldpy's {function} fails: {error}", file=sys.stderr)
        return None
    return round(rate(lambda: [client(y, num_classes, EPS, *further) for y in labels], len(labels)))


def opendp_client(mechanism: Mechanism, num_classes: int) -> Callable[[int], object] | None:
    """Returns OpenDP's release of one label by the same law, or None where it has none."""
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    dp.enable_features("contrib")
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        keep = 1 - (num_classes - 1) * mechanism.p_flip(num_classes)
        released: Callable[[int], object] = dp.m.make_randomized_response(
            list(range(num_classes)), keep
        )
        return released
    if isinstance(mechanism, mechanisms.Rappor):
        flips = dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=2 * mechanism.p_flip
        )
        width = math.ceil(num_classes / 8)
        return lambda label: flips((1 << label).to_bytes(width, "big"))
    return None


def opendp_rate(mechanism: Mechanism, num_classes: int, labels: Sequence[int]) -> int | None:
    """Returns the rate of OpenDP, or None where it is not there or has not that law."""
    client = opendp_client(mechanism, num_classes)
    return round(rate(lambda: [client(y) for y in labels], len(labels))) if client else None


def measure(mechanism: Mechanism, num_classes: int, size: int) -> dict[str, Any] | None:
    """Returns one row of the table, or None where the mechanism refuses so many classes."""
    name = type(mechanism).__name__
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (size,), generator=generator)
    prior = None
    if isinstance(mechanism, TAKES_PRIOR_PER_EXAMPLE):
        prior = torch.rand((size, num_classes), generator=generator, dtype=torch.float64)
        prior = prior / prior.sum(1, keepdim=True)
    try:
        ours = rate(lambda: mechanism.release(labels, num_classes, generator, prior), size)
    except InputError:  # OptimalMechanism above 10 classes
        return None
    few = labels[:LOOPED].tolist()
    loop = plain_loop(mechanism, num_classes)
    return {
        "mechanism": name,
        "num_classes": num_classes,
        "eps": EPS,
        "labels": size,
        "labels_per_second": round(ours),
        "plain_loop": round(rate(lambda: [loop(y) for y in few], len(few))) if loop else None,
        "multi_freq_ldpy": multi_freq_rate(name, num_classes, few),
        "opendp": opendp_rate(mechanism, num_classes, few),
    }


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {"labels": "50000", "out": str(BENCHMARKS)})
    size = integer("labels", own["labels"], low=1)
    out = output_folder("out", own["out"])
    torch.set_num_threads(1)
    others = ("plain_loop", "multi_freq_ldpy", "opendp")
    heads = [head for name in others for head in (name.replace("_", " "), "ratio")]
    print_head(("mechanism", "K", "labels/s", *heads))
    rows = []
    for mechanism in MECHANISMS:
        for num_classes in CLASSES:
            row = measure(mechanism, num_classes, size)
            if row is None:
                continue
            rows.append(row)
            ours = row["labels_per_second"]
            cells = [row["mechanism"], str(num_classes), f"{ours:,}"]
            for other in (row[name] for name in others):
                cells += [f"{other:,}", f"{ours / other:.1f}x"] if other else ["-", "-"]
            print_row(cells)
    write_benchmark("mechanisms", rows, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
