"""What every mechanism promises, checked on every YAML under configs/mechanism, found by itself."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import hydra
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2, chisquare, kstest, laplace, ncx2

from labeldp.audit.exact import exact_epsilon, exact_real_epsilon
from labeldp.mechanisms import (
    BlockRR,
    ClassMechanism,
    GroupMechanism,
    LocalHashing,
    OptimalMechanism,
    RandomizedResponseWithPrior,
    RealMechanism,
    SubsetSelection,
)
from labeldp.mechanisms.base import LabelMechanism
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.support.checkout import CHECKOUT

CONFIGS = CHECKOUT / "configs" / "mechanism"
CLASSES = (2, 3, 5, 10, 100)
BUDGETS = (0.1, 1.0, 8.0, math.inf)
WITH_PRIOR = {
    "rrwithprior+prior": RandomizedResponseWithPrior(eps=1.0),
    "released_code+prior": RandomizedResponseWithPrior(eps=1.0, k_rule="released_code"),
    "blockrr+prior": BlockRR(eps=1.0, sigma=1.2, favoured=2),
    "optimal+prior": OptimalMechanism(eps=1.0),
}


def from_yaml(path):
    # Composing all of them takes ten seconds, in each process that collects this file.
    config = OmegaConf.load(path)
    if "mechanism" not in config:
        config = OmegaConf.load(CONFIGS / f"{config.defaults[0]}.yaml")
    config = OmegaConf.create({"eps": 1.0, "mechanism": config.mechanism})
    return hydra.utils.instantiate(config.mechanism, _convert_="all")


EVERY = {path.stem: from_yaml(path) for path in sorted(CONFIGS.glob("*.yaml"))}


def of_kind(kind):
    return {name: each for name, each in EVERY.items() if isinstance(each, kind)}


MECHANISMS = of_kind(ClassMechanism) | WITH_PRIOR
REAL, GROUPS = of_kind(RealMechanism), of_kind(GroupMechanism)
PRIVATE = [name for name, mechanism in MECHANISMS.items() if mechanism.private]
VALUES = torch.linspace(-1, 1, 41, dtype=torch.float64)


def test_all_kinds_are_found():
    # The tests below would pass for an empty list.
    assert len(MECHANISMS) >= 15 and len(REAL) >= 5 and len(GROUPS) >= 7


def case(name, num_classes, eps=None):
    """The mechanism at this eps and the prior to use it with; skips pairs that it refuses."""
    mechanism = MECHANISMS[name]
    if eps is not None and mechanism.private:
        mechanism = replace(mechanism, eps=eps)
    prior = None
    if name in WITH_PRIOR:
        # Rare labels come first, so that a label's number and its place differ.
        prior = torch.arange(1.0, num_classes + 1, dtype=torch.float64) ** 2
        prior = prior / prior.sum()
    try:
        mechanism.extreme_outputs(num_classes, prior)
    except InputError as reason:
        pytest.skip(str(reason))
    return mechanism, prior


def draw(mechanism, label, num_classes, prior, size, seed=0):
    labels = torch.full((size,), label)
    return mechanism.release(labels, num_classes, seeding.generator(seed, "test"), prior)


def disagreement(sampler, likelihood, num_classes, prior, size, label):
    """p-value of: `sampler` draws from the law that `likelihood` states."""
    released = draw(sampler, label, num_classes, prior, size)
    if released.dtype == torch.float32:
        one_hot = np.eye(num_classes)[label]
        if likelihood.eps == math.inf:
            return float(np.array_equal(released.numpy(), np.tile(one_hot, (size, 1))))
        noise = released.numpy().astype(float) - one_hot
        # The likelihood itself is compared with this law in test_additive_laplace.py.
        law = laplace(scale=2 / likelihood.eps).cdf
        return kstest(noise.ravel(), law, method="asymp").pvalue  # the exact one takes 2 s
    try:
        outputs = likelihood.output_space(num_classes, prior)
    except InputError:
        return ratio_disagreement(sampler, likelihood, num_classes, prior, size, label)
    expected = likelihood.log_likelihood(outputs, num_classes, prior)[:, label].exp() * size
    codes, found = row_codes(outputs), row_codes(released)
    codes, order = codes.sort()
    place = torch.searchsorted(codes, found).clamp(max=len(codes) - 1)
    if (codes[place] != found).any():
        return 0.0
    counts = torch.bincount(place, minlength=len(codes)).numpy()
    expected = expected[order].numpy()
    if counts[expected == 0].any():
        return 0.0
    # Cells with small expectation are taken together: chi-square needs about 5 in each.
    small = expected < 5
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    if len(counts) == 1:
        return 1.0
    return chisquare(counts, expected * size / expected.sum()).pvalue


def row_codes(outputs):
    """One integer per output: a label itself, a random (wrapping) sum for bits."""
    if outputs.dim() == 1:
        return outputs
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(-(2**62), 2**62, (outputs.shape[1],), generator=generator)
    return (outputs.long() * weights).sum(1)


def ratio_disagreement(sampler, likelihood, num_classes, prior, size, label):
    """The same for spaces too large to enumerate, from the definition of a likelihood ratio.

    Where log P(o | a) / P(o | b) = r, o is e^r times as frequent under a as under b.
    """
    other = (label + 1) % num_classes
    counts = []
    for seed, true in enumerate((label, other)):
        released = draw(sampler, true, num_classes, prior, size, seed)
        log_likelihood = likelihood.log_likelihood(released, num_classes, prior)
        ratios = log_likelihood[:, label] - log_likelihood[:, other]
        values, numbers = ratios.round(decimals=6).unique(return_counts=True)
        counts.append(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
    p_values = []
    for ratio in set(counts[0]) | set(counts[1]):
        one, two = (part.get(ratio, 0) for part in counts)
        share = 1 / (1 + math.exp(-ratio)) if ratio != -math.inf else 0.0
        p_values.append(binomtest(one, one + two, share).pvalue)
    return min(1.0, len(p_values) * min(p_values))


CALLED_WRONG, MISSED = 1e-4, 1e-4
"""The p-value from which a sampler is called wrong, and how often a wrong one may pass."""
MOST_DRAWS = 4_000_000


def draws_needed(sampler, likelihood, num_classes, prior, label):
    """How many draws tell `sampler` from `likelihood`, by what both state; 0 without a table."""
    try:
        outputs = likelihood.output_space(num_classes, prior)
        found, stated = (
            each.log_likelihood(outputs, num_classes, prior)[:, label].exp()
            for each in (sampler, likelihood)
        )
    except InputError:
        return 0
    possible = stated > 0
    effect = float(((found - stated)[possible] ** 2 / stated[possible]).sum())
    freedom = int(possible.sum()) - 1
    if not freedom or not effect:
        return 0
    critical = chi2.isf(CALLED_WRONG, freedom)
    power = brentq(lambda shift: ncx2.cdf(critical, freedom, shift) - MISSED, 1.0, 1e5)
    return math.ceil(power / effect)


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_worst_log_ratio_is_eps(name, num_classes, eps):
    """If this fails, a mechanism leaks more than it claims, or wastes budget."""
    mechanism, prior = case(name, num_classes, eps)
    found = exact_epsilon(mechanism, num_classes, prior)
    if mechanism.eps == math.inf:
        assert not mechanism.tight or found == math.inf
        return
    assert found <= mechanism.eps + 1e-9
    if mechanism.tight:
        assert found == pytest.approx(mechanism.eps, abs=1e-9)


@pytest.mark.parametrize("eps", [*BUDGETS, 100.0])
@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_likelihood_sums_to_one(name, num_classes, eps):
    """If this fails, the likelihood is not that of any sampler."""
    mechanism, prior = case(name, num_classes, eps)
    try:
        outputs = mechanism.output_space(num_classes, prior)
    except InputError as reason:
        pytest.skip(str(reason))
    log_likelihood = mechanism.log_likelihood(outputs, num_classes, prior)
    assert log_likelihood.dtype == torch.float64
    assert (log_likelihood.exp().sum(0) - 1).abs().max() < 1e-9


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_sampler_draws_from_the_likelihood(name, num_classes, eps):
    """If this fails, learners invert a channel that is not the one that was used."""
    mechanism, prior = case(name, num_classes, eps)
    for label in {0, num_classes - 1}:
        assert disagreement(mechanism, mechanism, num_classes, prior, 10_000, label) > CALLED_WRONG


@pytest.mark.parametrize(
    ("num_classes", "eps", "size"), [(2, 0.1, 800_000), (10, 1.0, 40_000), (10, 8.0, 200_000)]
)
@pytest.mark.parametrize("name", PRIVATE)
def test_sampler_at_a_larger_eps_is_noticed(name, num_classes, eps, size):
    """If this fails, the test above would accept a wrong sampler."""
    mechanism, prior = case(name, num_classes, eps)
    wrong = replace(mechanism, eps=1.2 * eps)
    # Sizes that follow eps would change the output space, which any test notices.
    if isinstance(mechanism, SubsetSelection):
        wrong = replace(wrong, size=mechanism.chosen_size(num_classes))
    if isinstance(mechanism, LocalHashing):
        wrong = replace(wrong, buckets=mechanism.num_buckets)
    if exact_epsilon(mechanism, num_classes, prior) == 0:
        pytest.skip("this prior leaves one possible output: nothing depends on eps")
    assert notices(wrong, mechanism, num_classes, prior, size)


def notices(wrong, mechanism, num_classes, prior, size):
    """Whether `size` draws, or as many as it takes, show the wrong sampler."""
    # The last label is the likeliest one: a rare label may get a uniform answer at any eps.
    label = num_classes - 1
    size = max(size, draws_needed(wrong, mechanism, num_classes, prior, label))
    if size > MOST_DRAWS:
        pytest.skip(f"by its own distribution it takes {size:,} draws to notice 1.2 eps")
    return disagreement(wrong, mechanism, num_classes, prior, size, label) < CALLED_WRONG


@dataclass(frozen=True)
class Graded(LabelMechanism):
    """Weights 1, e^(-eps/2), e^-eps by the distance of the labels: of two labels eps/2 is used."""

    tight: ClassVar[bool] = False

    def transition_matrix(self, num_classes, prior=None):
        """Returns float64 (K, K), row = true label."""
        labels = torch.arange(num_classes, dtype=torch.float64)
        far = (labels[:, None] - labels).abs().clamp(max=2)
        return (-self.eps / 2 * far).softmax(1)


def test_a_small_effect_is_told_from_a_fault():
    # A correct mechanism would fail where its own distribution changes little with eps.
    right, wrong = Graded(0.1), Graded(0.12)
    needed = draws_needed(wrong, right, 2, None, 1)
    assert 800_000 < needed < MOST_DRAWS
    assert notices(wrong, right, 2, None, 1_000)
    assert disagreement(right, right, 2, None, needed, 1) > CALLED_WRONG
    # By hand: 0.5125 for 0.515, and 3.89 + 3.72 standard errors.
    gap = 1 / (1 + math.exp(-0.06)) - 1 / (1 + math.exp(-0.05))
    assert needed == pytest.approx((7.61 * 0.5 / gap) ** 2, rel=0.01)


@pytest.mark.parametrize("eps", [30.0, math.inf])
@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_infinite_eps_gives_no_nan(name, num_classes, eps):
    """If this fails, the non-private end of a curve is NaN, or differs from `none`."""
    mechanism, prior = case(name, num_classes, eps)
    labels = torch.arange(num_classes).repeat(20)
    generator = seeding.generator(0, "test")
    released = mechanism.release(labels, num_classes, generator, prior)
    log_likelihood = mechanism.log_likelihood(released, num_classes, prior)
    assert not log_likelihood.isnan().any() and not (log_likelihood == math.inf).any()
    own = log_likelihood.gather(1, labels[:, None])
    assert (own > -math.inf).all()
    if mechanism.identity_at_inf and prior is None and eps == math.inf:
        one_hot = torch.nn.functional.one_hot(labels, num_classes).to(torch.float64)
        assert torch.equal(log_likelihood.softmax(1), one_hot)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_release_is_a_pure_function_of_labels_and_seed(name, num_classes):
    """If this fails, a run cannot be repeated, or a release changes the data."""
    mechanism, prior = case(name, num_classes)
    labels = torch.arange(num_classes).repeat(3)
    before, prior_before = labels.clone(), None if prior is None else prior.clone()
    first, second, third = (
        mechanism.release(labels, num_classes, seeding.generator(seed, "test"), prior)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert first.shape in {(len(labels),), (len(labels), num_classes)}
    assert first.dtype in ({torch.int64} if first.dim() == 1 else {torch.uint8, torch.float32})
    assert torch.equal(labels, before)
    assert prior is None or torch.equal(prior, prior_before)
    nothing = mechanism.release(labels[:0], num_classes, seeding.generator(0, "test"), prior)
    assert mechanism.log_likelihood(nothing, num_classes, prior).shape == (0, num_classes)
    # One possible output leaves nothing to draw.
    if mechanism.private and exact_epsilon(mechanism, num_classes, prior) > 0:
        assert not torch.equal(first, third) or num_classes == 2


@pytest.mark.parametrize("eps", [0, -1, math.nan, "text", True, None])
@pytest.mark.parametrize("name", [*PRIVATE, *REAL, *GROUPS])
def test_bad_eps_is_one_clear_line(name, eps):
    """If this fails, a typo becomes a traceback or, worse, a run without privacy."""
    with pytest.raises(InputError, match=rf"^eps must be a number > 0, got {eps!r} [^\n]*$"):
        replace((EVERY | WITH_PRIOR)[name], eps=eps)


@pytest.mark.parametrize(
    ("labels", "num_classes", "named"),
    [
        (torch.tensor([0, 5]), 5, "got 5"),
        (torch.tensor([0, -1]), 5, "got -1"),
        (torch.tensor([0, 0]), 1, "got 1"),
        (torch.tensor([0.0]), 5, "got torch.float32"),
    ],
)
@pytest.mark.parametrize("name", MECHANISMS)
def test_bad_labels_are_one_clear_line(name, labels, num_classes, named):
    """If this fails, wrong labels are released as if they were right."""
    with pytest.raises(InputError, match=rf"^(labels|num_classes) must be [^\n]*{named}[^\n]*$"):
        MECHANISMS[name].release(labels, num_classes, seeding.generator(0, "test"))


@pytest.mark.parametrize("name", WITH_PRIOR)
@pytest.mark.parametrize("prior", [[0.5, 0.4, 0.0], [1.5, -0.5, 0.0], [0.5, 0.5]])
def test_bad_prior_is_one_clear_line(name, prior):
    """If this fails, a prior that is none silently changes what is released."""
    prior = torch.tensor(prior, dtype=torch.float64)
    with pytest.raises(InputError, match=r"^prior [^\n]*$"):
        MECHANISMS[name].release(torch.tensor([0]), 3, seeding.generator(0, "test"), prior)


# --- Real labels and groups ---------------------------------------------------------------------


def released(mechanism, values=VALUES, seed=0):
    return mechanism.release(values, 1.0, seeding.generator(seed, "test"))


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("name", REAL)
def test_worst_log_ratio_of_densities(name, eps):
    # A mechanism would leak more than it claims, or waste budget.
    mechanism = replace(REAL[name], eps=eps)
    says_nothing = name == "rr_on_bins" and len(mechanism.bins(1.0)[1]) == 1
    for bound in (1.0, 3.0):
        found = exact_real_epsilon(mechanism, bound=bound)
        assert found <= eps + 1e-9
        assert found == pytest.approx(0 if says_nothing else eps, abs=1e-5)
    # No output that the sampler gives is worse than the breakpoints.
    densities = mechanism.log_density(released(mechanism, VALUES.repeat(20)), VALUES, 1.0)
    assert densities.isfinite().all()
    assert float((densities.amax(1) - densities.amin(1)).max()) <= eps + 1e-9


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("name", GROUPS)
def test_worst_log_ratio_over_neighbouring_data_sets(name, eps):
    # The same for those that answer about groups.
    mechanism = replace(GROUPS[name], eps=eps)
    if name.endswith("clipped_cube_means"):
        mechanism = replace(mechanism, clip=2.0)
    least = 0.3 if name == "full_exponential_cubes" else 0.8
    assert least * eps < mechanism.stated_epsilon(2)[0] <= eps + 1e-9


@pytest.mark.parametrize("name", REAL)
def test_release_of_values_is_a_pure_function_of_them_and_the_seed(name):
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
