"""Pinned releases of every mechanism: draws that change for the same seed need a new version."""

import hashlib
import math
from dataclasses import replace

import hydra
import pytest
import torch

from labeldp.mechanisms import (
    ClassSums,
    LabelEnhancement,
    LaplaceHistogram,
)
from labeldp.mechanisms.pate import PateFM
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell, mechanism_names

NUM_LABELS, NUM_CLASSES, NUM_GROUPS = 60, 6, 4
GROUPS = torch.arange(NUM_LABELS) % NUM_GROUPS
PART = torch.arange(7, 29)
ROWS = torch.nn.functional.normalize(torch.linspace(-1, 2, 3 * NUM_LABELS).reshape(-1, 3))
PINNED = {
    "alibi": (4, "1506cb343852"),
    "blockrr": (2, "88e992b25c02"),
    "clipped_cube_means": (3, "96a2b764c257"),
    "clipped_laplace": (3, "b7d72e955f35"),
    "cube_means": (3, "adb19a60b8e6"),
    "exponential_cubes": (2, "5d2bec1da128"),
    "full_clipped_cube_means": (3, "1b5e51231629"),
    "full_cube_means": (3, "3438eb2ea54b"),
    "full_exponential_cubes": (2, "67d00dd1ded8"),
    "hadamard": (4, "c1da49c675f2"),
    "histogram": (3, "7d7ff876dca3"),
    "laplace": (3, "598c7ea78ec0"),
    "local_full": (3, "677b5f60d11c"),
    "local_hashing": (4, "b20c3f619ed7"),
    "lp_1st": (4, "587bdec8b2f6"),
    "lp_1st_star": (4, "587bdec8b2f6"),
    "lp_2st": (2, "0adcd78d5536"),
    "lp_2st_star": (2, "0adcd78d5536"),
    "lp_mst": (2, "0adcd78d5536"),
    "noisy_clusters": (3, "90557ba2e9dc"),
    "none": (2, "027ba27e83bc"),
    "optimal": (2, "adb79cfc9ad2"),
    "oue": (2, "68c7da573ea3"),
    "ple": (2, "e553bdf6f6b7"),
    "rappor": (2, "f3235c6aa1cf"),
    "rp_with_prior": (2, "77b5b7b92725"),
    "rr": (4, "587bdec8b2f6"),
    "rr_on_bins": (2, "2f124d71689c"),
    "rrwithprior": (2, "0adcd78d5536"),
    "subset_selection": (2, "94b1c7c99c02"),
    "unary": (2, "3c82eac770be"),
    "unbiased_randomizer": (2, "1c10115c8657"),
}


def digest(outputs):
    """The first digits of a hash of tensors, reals to a millionth.

    The last bits of a logarithm or of a linear programme's solution depend on the CPU.
    """
    content = hashlib.sha256()
    for output in outputs:
        whole = output.double().mul(1e6).round().long()
        content.update(f"{output.dtype}{tuple(output.shape)}{whole.tolist()}".encode())
    return content.hexdigest()[:12]


def stores():
    """Open stores with one seed, over classes and over real labels, by the task's name."""
    labels = torch.arange(NUM_LABELS) % NUM_CLASSES
    values = torch.linspace(-1, 1, NUM_LABELS, dtype=torch.float64)
    return {
        "classification": LabelStore(labels, NUM_CLASSES).open(math.inf, 0, "version"),
        "regression": LabelStore(values, 0, bound=1.0).open(math.inf, 0, "version"),
    }


def priors():
    skewed = torch.arange(1.0, NUM_CLASSES + 1, dtype=torch.float64) ** 2
    rows = torch.stack([skewed.roll(row) for row in range(len(PART))])
    return skewed / skewed.sum(), rows / rows.sum(1, keepdim=True)


def first_label(mechanism):
    """A teacher that votes for the first label that it sees."""
    return lambda indices, labels: torch.full((mechanism.queries,), int(labels[0]))


def releases(mechanism):
    """All that stores release by a mechanism, kind by kind; none of what it refuses."""
    if isinstance(mechanism, LabelEnhancement):  # draws for a client, outside of any store
        labels = torch.arange(NUM_LABELS) % NUM_CLASSES
        return [mechanism.random_labels(labels, NUM_CLASSES, seeding.generator(0, "version"))]
    asked = [
        lambda store: store.release(mechanism).outputs,
        lambda store: store.release(mechanism, PART).outputs,
        lambda store: store.release(mechanism.over(GROUPS, NUM_GROUPS)),
    ]
    if isinstance(mechanism, ClassSums):
        asked.append(lambda store: store.release(replace(mechanism, rows=ROWS)))
    if isinstance(mechanism, PateFM):
        vote = first_label(mechanism)
        few = replace(mechanism, teachers=NUM_GROUPS, parts=GROUPS, vote=vote)
        asked.append(lambda store: store.release(few))
    for prior in priors():
        asked.append(lambda store, prior=prior: store.release(mechanism, PART, prior).outputs)
    found = []
    for task in mechanism.tasks:
        for ask in asked:
            try:
                found.append(ask(stores()[task]))  # each from a fresh store
            except InputError:
                continue
    return found


@pytest.mark.parametrize("name", mechanism_names())
def test_draws_are_those_of_their_version(name):
    # A record would claim releases that today's code draws otherwise.
    config = compose_cell([f"mechanism={name}", "eps=1"]).config["mechanism"]
    mechanism = hydra.utils.instantiate(config, _convert_="all")
    outputs = releases(mechanism)
    check(name, outputs, mechanism.draws)


def test_draws_of_histograms_are_those_of_their_version():
    # The same for what a curator counts.
    histogram = LaplaceHistogram(1.0)
    check("histogram", [stores()["classification"].release(histogram, PART)], histogram.draws)


def check(name, outputs, version):
    assert outputs
    found = digest(outputs)
    if name not in PINNED:
        pytest.skip(f"{name} is new; pin ({version}, {found!r}) once records of it are committed")
    assert PINNED[name] == (version, found), (
        f"{name} does not draw what PINNED says: raise `draws` of its class (noise.DRAWS), and "
        f"`distribution` if probabilities changed, and pin the digest: {version}, {found}"
    )
