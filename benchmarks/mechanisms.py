"""Labels per CPU second of each release, next to NumPy, a plain Python loop and public code.

    python -m benchmarks.mechanisms [labels=50000] [out=FOLDER]

`labels` are released at once; one thread, the best of five; priors per example where a mechanism
takes one; noise from a seed, and secret noise. `messages` are releases in the form that is stored.
What NumPy draws is written as one would write it by hand, in about five lines; it is compared with
the messages. The loops draw one label at a time from the same distribution, without tensors.
multi-freq-ldpy and OpenDP are measured where they are installed; both release one label a call, as
one person's device does, and OpenDP draws by exact arithmetic.
Writes mechanisms_cpu.csv.
"""

import importlib
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.harness import Row, benchmark, rate, ratio
from labeldp import mechanisms
from labeldp.mechanisms import ClassMechanism, Mechanism
from labeldp.mechanisms.bits import BitFlips, hashed
from labeldp.mechanisms.noise import Noise, SecretGenerator
from labeldp.mechanisms.subsets import p_outside
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import integer

CLASSES = (10, 100)
EPS = 1.0
LOOPED = 2_000
MECHANISMS: tuple[ClassMechanism, ...] = (
    mechanisms.RandomizedResponse(eps=EPS),
    mechanisms.Rappor(eps=EPS),
    mechanisms.UnaryEncoding(eps=EPS),
    mechanisms.OptimizedUnaryEncoding(eps=EPS),
    mechanisms.SubsetSelection(eps=EPS),
    mechanisms.HadamardResponse(eps=EPS),
    mechanisms.LocalHashing(eps=EPS),
    mechanisms.AdditiveLaplace(eps=EPS),
    mechanisms.RandomizedResponseWithPrior(eps=EPS),
    mechanisms.BlockRR(eps=EPS, favoured=2),
    mechanisms.OptimalMechanism(eps=EPS),
    mechanisms.OrdinalResponse(eps=EPS),
)
# Their client of one label: module, function, further arguments.
MULTI_FREQ = {
    "RandomizedResponse": ("GRR", "GRR_Client", ()),
    "Rappor": ("UE", "UE_Client", (False,)),
    "OptimizedUnaryEncoding": ("UE", "UE_Client", (True,)),
    "SubsetSelection": ("SS", "SS_Client", ()),
    "LocalHashing": ("LH", "LH_Client", (True,)),
}
MESSAGES = (
    "messages_per_second",
    "secret_messages_per_second",
    "numpy",
    "over_numpy",
    "secret_over_numpy",
)
Client = Callable[[int], object]
"""Releases one label."""


def plain_loop(mechanism: Mechanism, num_classes: int) -> Client | None:
    """Returns a function that releases one label in plain Python, or None where none is written."""
    draw, every = random.random, range(num_classes)
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        total_flip = (num_classes - 1) * mechanism.p_flip(num_classes)

        def flip(label: int) -> int:
            if draw() >= total_flip:
                return label
            other = random.randrange(num_classes - 1)
            return other + (other >= label)

        return flip
    if isinstance(mechanism, BitFlips):
        p_keep, p_flip = 1 - mechanism.p_drop, mechanism.p_flip
        return lambda label: [draw() < (p_keep if i == label else p_flip) for i in every]
    if isinstance(mechanism, mechanisms.AdditiveLaplace):
        rate, exponential = 1 / mechanism.scale, random.expovariate
        return lambda y: [(i == y) + exponential(rate) - exponential(rate) for i in every]
    if isinstance(mechanism, mechanisms.SubsetSelection):
        size = mechanism.chosen_size(num_classes)
        missing = p_outside(mechanism.eps, num_classes, size)

        def pick_set(label: int) -> set[int]:
            others = [i for i in every if i != label]
            if draw() < missing:
                return set(random.sample(others, size))
            return {label, *random.sample(others, size - 1)}

        return pick_set
    return None


def by_numpy(
    mechanism: Mechanism, labels: NDArray, num_classes: int, rng: np.random.Generator
) -> object:
    """Returns messages of the mechanism, by a few lines of NumPy; None where none are written."""
    count, likelihood_ratio = len(labels), math.exp(mechanism.eps)
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        keeps = rng.random(count) < likelihood_ratio / (likelihood_ratio + num_classes - 1)
        shift = rng.integers(1, num_classes, count)
        return np.where(keeps, labels, (labels + shift) % num_classes)
    if isinstance(mechanism, mechanisms.AdditiveLaplace):
        noisy = rng.laplace(0, mechanism.scale, (count, num_classes))
        noisy[np.arange(count), labels] += 1
        return noisy.astype(np.float32)
    if isinstance(mechanism, mechanisms.HadamardResponse):
        message, row = rng.integers(0, 2 ** num_classes.bit_length(), count), labels + 1
        belongs = np.bitwise_count(message & row) % 2 == 0
        keeps = rng.random(count) < likelihood_ratio / (likelihood_ratio + 1)
        return np.where(belongs == keeps, message, message ^ (row & -row))
    if isinstance(mechanism, mechanisms.LocalHashing):
        seeds = rng.integers(0, 2**64, count, dtype=np.uint64)
        bucket = hashed(seeds, labels, mechanism.num_buckets).astype(np.int64)
        keeps = rng.random(count) >= mechanism.p_drop
        shift = rng.integers(1, mechanism.num_buckets, count)
        return seeds, np.where(keeps, bucket, (bucket + shift) % mechanism.num_buckets)
    return None


def multi_freq_client(mechanism: Mechanism, num_classes: int) -> Client | None:
    """Returns multi-freq-ldpy's release of one label, or None where it is not there."""
    name = type(mechanism).__name__
    if name not in MULTI_FREQ:
        return None
    module, function, further = MULTI_FREQ[name]
    try:
        found = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{module}")
        client = getattr(found, function)
        client(0, num_classes, EPS, *further)  # compiles
    except (ImportError, AttributeError):
        return None
    except TypeError as error:  # its hashing client, beside xxhash 4
        print(f"multi-freq-ldpy's {function} fails: {error}", file=sys.stderr)
        return None
    return lambda label: client(label, num_classes, EPS, *further)


def opendp_client(mechanism: Mechanism, num_classes: int) -> Client | None:
    """Returns OpenDP's release of one label, or None where it has not that distribution."""
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    dp.enable_features("contrib")
    if isinstance(mechanism, mechanisms.RandomizedResponse):
        keep = 1 - (num_classes - 1) * mechanism.p_flip(num_classes)
        client: Client = dp.m.make_randomized_response(list(range(num_classes)), keep)
        return client
    if isinstance(mechanism, mechanisms.Rappor):
        flips = dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=2 * mechanism.p_flip
        )
        width = math.ceil(num_classes / 8)
        return lambda label: flips((1 << label).to_bytes(width, "big"))
    return None


OTHERS = {
    "plain_loop": plain_loop,
    "multi_freq_ldpy": multi_freq_client,
    "opendp": opendp_client,
}


def rate_of(client: Client | None, labels: Sequence[int]) -> int | None:
    """Returns the labels per second of a client."""
    return round(rate(lambda: [client(y) for y in labels], len(labels))) if client else None


def measured(mechanism: ClassMechanism, num_classes: int, size: int) -> Row:
    """Returns one row of the table.

    Raises:
        InputError: the mechanism refuses so many classes.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (size,), generator=generator)
    prior = None
    if isinstance(mechanism, mechanisms.RandomizedResponseWithPrior):
        prior = torch.rand((size, num_classes), generator=generator, dtype=torch.float64)
        prior = prior / prior.sum(1, keepdim=True)

    def release(noise: Noise) -> None:
        mechanism.release(labels, num_classes, noise, prior)

    ours = rate(partial(release, generator), size)
    secret = rate(partial(release, SecretGenerator()), size)
    messages: dict[str, int | float | None] = dict.fromkeys(MESSAGES)
    rng = np.random.default_rng(0)
    if by_numpy(mechanism, labels.numpy(), num_classes, rng) is not None:
        form = mechanism.encoding(num_classes)
        drawn = rate(lambda: form.draw(labels, generator), size)
        hidden = rate(lambda: form.draw(labels, SecretGenerator()), size)
        plain = rate(lambda: by_numpy(mechanism, labels.numpy(), num_classes, rng), size)
        found = round(drawn), round(hidden), round(plain)
        messages = dict(
            zip(MESSAGES, (*found, ratio(drawn, plain), ratio(hidden, plain)), strict=True)
        )
    few = labels[:LOOPED].tolist()
    others = {name: rate_of(find(mechanism, num_classes), few) for name, find in OTHERS.items()}
    ratios = {f"over_{name}": ratio(ours, other) for name, other in others.items()}
    return {
        "mechanism": type(mechanism).__name__,
        "num_classes": num_classes,
        "eps": EPS,
        "labels": size,
        "labels_per_second": round(ours),
        "secret_labels_per_second": round(secret),
        **messages,
        **others,
        **ratios,
    }


@benchmark("mechanisms", __doc__, labels="50000")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each mechanism and number of classes."""
    size = integer("labels", options["labels"], low=1)
    torch.set_num_threads(1)
    for mechanism in MECHANISMS:
        for num_classes in CLASSES:
            try:
                yield measured(mechanism, num_classes, size)
            except InputError:  # OptimalMechanism above 10 classes
                continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
