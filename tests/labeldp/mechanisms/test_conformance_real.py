"""What mechanisms for real labels and for groups promise, on every YAML under configs/mechanism."""

import math
from dataclasses import replace

import hydra
import pytest
import torch

from labeldp.audit.audit import exact_real_epsilon
from labeldp.audit.group_channels import group_epsilon
from labeldp.mechanisms import GroupMechanism, RealMechanism
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.support.checkout import CHECKOUT

CONFIGS = CHECKOUT / "configs" / "mechanism"
BUDGETS = (0.1, 1.0, 4.0, 8.0)


def from_yaml(name):
    config = compose_cell([f"mechanism={name}"]).config["mechanism"]
    return hydra.utils.instantiate(config, _convert_="all")


EVERY = {path.stem: from_yaml(path.stem) for path in sorted(CONFIGS.glob("*.yaml"))}
REAL = {name: each for name, each in EVERY.items() if isinstance(each, RealMechanism)}
GROUPS = {name: each for name, each in EVERY.items() if isinstance(each, GroupMechanism)}
VALUES = torch.linspace(-1, 1, 41, dtype=torch.float64)


def released(mechanism, values=VALUES, seed=0):
    return mechanism.release(values, 1.0, seeding.generator(seed, "test"))


def test_both_kinds_are_found():
    # The tests below would pass for an empty list.
    assert len(REAL) >= 5 and len(GROUPS) >= 7


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.parametrize("name", REAL)
def test_worst_log_ratio_of_densities(name, eps):
    # A mechanism would leak more than it claims, or waste budget.
    mechanism = replace(REAL[name], eps=eps)
    found = exact_real_epsilon(mechanism)
    assert found <= eps + 1e-9
    says_nothing = name == "rr_on_bins" and len(mechanism.bins(1.0)[1]) == 1
    assert found == pytest.approx(0 if says_nothing else eps, abs=1e-5)
    # No output that the sampler gives is worse than the breakpoints.
    densities = mechanism.log_density(released(mechanism, VALUES.repeat(20)), VALUES, 1.0)
    assert densities.isfinite().all()
    assert float((densities.amax(1) - densities.amin(1)).max()) <= eps + 1e-9


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.parametrize("name", GROUPS)
def test_worst_log_ratio_over_neighbouring_data_sets(name, eps):
    # The same for those that answer about groups.
    mechanism = replace(GROUPS[name], eps=eps)
    if name.endswith("clipped_cube_means"):
        mechanism = replace(mechanism, clip=2.0)
    found = group_epsilon(mechanism)
    assert 0.3 * eps < found <= eps + 1e-9


@pytest.mark.parametrize("name", REAL)
def test_release_is_a_pure_function_of_labels_and_seed(name):
    # A run could not be repeated, or a release would change the data.
    mechanism, before = replace(REAL[name], eps=2.0), VALUES.clone()
    first, again, other = (released(mechanism, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(VALUES, before)
    assert first.dtype == torch.float64 and first.shape == VALUES.shape
    assert released(mechanism, VALUES[:0]).shape == (0,)


@pytest.mark.parametrize("name", REAL)
def test_means_of_releases_where_they_are_promised(name):
    # Averages of releases would estimate another function; `unbiased` would be a word.
    mechanism = replace(REAL[name], eps=3.0)
    if name == "clipped_laplace":
        mechanism = replace(mechanism, clip=0.5)  # clips 0.7
    drawn = released(mechanism, torch.full((40_000,), 0.7, dtype=torch.float64))
    error = 4 * float(drawn.std()) / 200
    is_near = abs(float(drawn.mean()) - 0.7) <= error
    assert is_near == mechanism.mean_is_label


@pytest.mark.parametrize("eps", [0, -1, math.nan, "text", True, None])
@pytest.mark.parametrize("name", [*REAL, *GROUPS])
def test_bad_eps_is_one_clear_line(name, eps):
    # A typo would be a traceback or, worse, a run without privacy.
    with pytest.raises(InputError) as caught:
        replace(EVERY[name], eps=eps)
    assert str(caught.value) == (
        f"eps must be a number > 0, got {eps!r} "
        "(use eps=inf for no privacy at all; smaller is more private)"
    )
