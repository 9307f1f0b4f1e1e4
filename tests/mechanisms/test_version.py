"""Pinned releases of every mechanism: draws that change for the same seed need a new version."""

import hashlib
import math

import hydra
import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell, mechanism_names
from labeldp_bench.mechanisms import LabelEnhancement
from labeldp_bench.mechanisms.version import DRAWS
from labeldp_bench.privacy.vault import LabelVault
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import InputError

NUM_LABELS, NUM_CLASSES, NUM_GROUPS = 60, 6, 4
GROUPS = torch.arange(NUM_LABELS) % NUM_GROUPS
PART = torch.arange(7, 29)
PINNED = {
    2: {
        "alibi": "07b6ec9cb3a9",
        "blockrr": "88e992b25c02",
        "clipped_cube_means": "cd1c01119a15",
        "clipped_laplace": "33fc2e552d99",
        "cube_means": "423b7a7fde31",
        "exponential_cubes": "5d2bec1da128",
        "full_clipped_cube_means": "51984234e6d5",
        "full_cube_means": "4fc225416eaf",
        "full_exponential_cubes": "67d00dd1ded8",
        "hadamard": "a15fbc399a77",
        "histogram": "b31cea89863c",
        "laplace": "ac41eb79b799",
        "local_full": "8de9a1224f74",
        "local_hashing": "b20c3f619ed7",
        "lp_1st": "dbdcc58e6772",
        "lp_1st_star": "dbdcc58e6772",
        "lp_2st": "0adcd78d5536",
        "lp_2st_star": "0adcd78d5536",
        "lp_mst": "0adcd78d5536",
        "noisy_clusters": "4535db5eb6b1",
        "none": "027ba27e83bc",
        "optimal": "adb79cfc9ad2",
        "oue": "68c7da573ea3",
        "ple": "e553bdf6f6b7",
        "rappor": "f3235c6aa1cf",
        "rp_with_prior": "77b5b7b92725",
        "rr": "dbdcc58e6772",
        "rr_on_bins": "2f124d71689c",
        "rrwithprior": "0adcd78d5536",
        "subset_selection": "94b1c7c99c02",
        "topk_subset": "3407aa94caa8",
        "unary": "3c82eac770be",
        "unbiased_randomizer": "1c10115c8657",
    },
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


def vaults():
    """Open vaults with one seed, over classes and over real labels, by the task's name."""
    labels = torch.arange(NUM_LABELS) % NUM_CLASSES
    values = torch.linspace(-1, 1, NUM_LABELS, dtype=torch.float64)
    return {
        "classification": LabelVault(labels, NUM_CLASSES).open(math.inf, 0, "version"),
        "regression": LabelVault(values, 0, bound=1.0).open(math.inf, 0, "version"),
    }


def priors():
    skewed = torch.arange(1.0, NUM_CLASSES + 1, dtype=torch.float64) ** 2
    rows = torch.stack([skewed.roll(row) for row in range(len(PART))])
    return skewed / skewed.sum(), rows / rows.sum(1, keepdim=True)


def releases(mechanism):
    """All that vaults release by a mechanism, kind by kind; none of what it refuses."""
    if isinstance(mechanism, LabelEnhancement):  # draws for a client, outside of any vault
        labels = torch.arange(NUM_LABELS) % NUM_CLASSES
        return [mechanism.random_labels(labels, NUM_CLASSES, seeding.generator(0, "version"))]
    asked = [
        lambda vault: vault.release(mechanism).outputs,
        lambda vault: vault.release(mechanism, PART).outputs,
        lambda vault: vault.release_groups(mechanism, GROUPS, NUM_GROUPS),
    ]
    for prior in priors():
        asked.append(lambda vault, prior=prior: vault.release(mechanism, PART, prior).outputs)
    found = []
    for task in mechanism.tasks:
        for ask in asked:
            try:
                found.append(ask(vaults()[task]))  # each from a fresh vault
            except InputError:
                continue
    return found


@pytest.mark.parametrize("name", mechanism_names())
def test_draws_are_those_of_their_version(name):
    # A record would claim releases that today's code draws otherwise.
    config = compose_cell([f"mechanism={name}", "eps=1"]).config["mechanism"]
    outputs = releases(hydra.utils.instantiate(config, _convert_="all"))
    check(name, outputs)


def test_draws_of_histograms_are_those_of_their_version():
    # The same for what a curator counts.
    check("histogram", [vaults()["classification"].release_histogram(PART, 1.0)])


def check(name, outputs):
    assert outputs
    found = digest(outputs)
    assert DRAWS in PINNED, f"pin all digests anew under {DRAWS}; {name}: {found}"
    if name not in PINNED[DRAWS]:
        pytest.skip(f"{name} is new; pin {found} once records of it are committed")
    assert PINNED[DRAWS][name] == found, (
        f"{name} does not draw what PINNED says for DRAWS = {DRAWS}: raise DRAWS in "
        f"labeldp_bench/mechanisms/version.py and pin all digests anew; {name}: {found}"
    )
