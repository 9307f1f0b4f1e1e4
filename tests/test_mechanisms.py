"""Published and hand-computed numbers of single mechanisms, and the ties between mechanisms."""

import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, laplace

from labeldp_bench import seeding
from labeldp_bench.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    HadamardResponse,
    LocalHashing,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
    TopKSubset,
    UnaryEncoding,
)
from labeldp_bench.mechanisms.additive_laplace import argmax_retention
from labeldp_bench.mechanisms.block_rr import block_matrix, own_rates
from labeldp_bench.mechanisms.rr_with_prior import ranking
from labeldp_bench.mechanisms.subset_selection import subset_information
from labeldp_bench.validate import InputError

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "compare_mechanisms.py"
COUNTS_1 = [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500]
COUNTS_2 = [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400]


def prior_of(counts):
    counts = torch.tensor(counts, dtype=torch.float64)
    return counts / counts.sum()


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("compare_mechanisms", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.measure


# --- RRWithPrior (peers.md 1.2) ---------------------------------------------------------------

GOLDEN_PRIOR = [0.40, 0.25, 0.15, 0.10, 0.05, 0.05]


@pytest.mark.parametrize(
    ("eps", "scores", "top_k"),
    [
        (0.5, [0.4000, 0.4046, 0.3615, 0.3192, 0.2773, 0.2480], 2),
        (1.0, [0.4000, 0.4752, 0.4609, 0.4278, 0.3844, 0.3522], 2),
        (2.0, [0.4000, 0.5725, 0.6296, 0.6401, 0.6163, 0.5964], 4),
        (4.0, [0.4000, 0.6383, 0.7717, 0.8531, 0.8852, 0.9161], 6),
    ],
)
def test_rrwithprior_chooses_the_published_k(eps, scores, top_k):
    """If this fails, LP-2ST keeps the wrong number of labels."""
    mechanism = RandomizedResponseWithPrior(eps=eps)
    prior = torch.tensor([GOLDEN_PRIOR], dtype=torch.float64)
    assert mechanism.scores(prior)[0].tolist() == pytest.approx(scores, abs=5e-5)
    assert mechanism.top_k(prior).tolist() == [top_k]


def test_released_code_collapses_where_the_paper_does_not():
    """If this fails, the switch no longer shows the fault of the public code."""
    uniform = torch.full((1, 10), 0.1, dtype=torch.float64)
    assert RandomizedResponseWithPrior(eps=0.5).top_k(uniform).tolist() == [10]
    released_code = RandomizedResponseWithPrior(eps=0.5, k_rule="released_code")
    assert released_code.top_k(uniform).tolist() == [1]


def test_rrwithprior_is_rr_under_a_uniform_prior():
    """If this fails, LP-1ST is not RRWithPrior with the uniform prior."""
    for eps in (0.1, 1.0, math.inf):
        assert torch.allclose(
            RandomizedResponseWithPrior(eps=eps).transition_matrix(10),
            RandomizedResponse(eps=eps).transition_matrix(10), atol=1e-15, rtol=0,
        )  # fmt: skip


def test_prior_per_example_is_used_row_by_row():
    """If this fails, one example's prior decides over another's label."""
    priors = torch.tensor([GOLDEN_PRIOR, GOLDEN_PRIOR[::-1]], dtype=torch.float64)
    labels = torch.tensor([0, 0]).repeat(20_000)
    for mechanism in (RandomizedResponseWithPrior(eps=1.0), TopKSubset(eps=1.0)):
        released = mechanism.release(
            labels, 6, seeding.generator(0, "test"), priors.repeat(20_000, 1)
        )
        together = mechanism.log_likelihood(released, 6, priors.repeat(20_000, 1))
        for row in (0, 1):
            alone = mechanism.log_likelihood(released[row::2], 6, priors[row])
            assert torch.equal(together[row::2], alone)
            assert (alone[:, 0] > -math.inf).all()


def test_unknown_k_rule_names_the_known_ones():
    """If this fails, a typo is a traceback."""
    with pytest.raises(InputError, match="k_rule must be one of paper, released_code"):
        RandomizedResponseWithPrior(eps=1.0, k_rule="papr")


# --- BlockRR (peers.md 1.7) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "frequent", "favoured", "beta", "gamma", "keeps"),
    [
        (0.6, 6, 6, 0.097945, 0.082951, (0.1785, 0.1511)),
        (0.6, 6, 2, 0.096000, 0.086269, (0.1749, 0.1572)),
        (0.8, 6, 5, 0.095551, 0.077399, (0.2127, 0.1723)),
        (0.8, 6, 6, 0.096022, 0.076547, (0.2137, 0.1704)),
        (1.0, 6, 5, 0.092644, 0.071238, (0.2518, 0.1936)),
        (2.0, 8, 2, 0.062451, 0.050696, (0.4615, 0.3746)),
        (2.0, 6, 6, 0.068285, 0.038502, (0.5046, 0.2845)),
        (3.0, 6, 0, 0.034381, 0.034381, (0.6906, 0.6906)),
    ],
)
def test_block_rates_are_the_golden_ones(eps, frequent, favoured, beta, gamma, keeps):
    """If this fails, equation 3.2 is solved wrongly."""
    rates = own_rates(eps, (frequent, 10 - frequent), favoured)
    assert [math.exp(-eps) * rate for rate in rates] == pytest.approx((beta, gamma), abs=5e-7)
    assert rates == pytest.approx(keeps, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "sigma", "rare"),
    [
        (COUNTS_1, 1.40, {6, 7, 8, 9}), (COUNTS_1, 1.20, {6, 7, 8, 9}), (COUNTS_1, 0.80, {6, 8}),
        (COUNTS_1, 0.78, {6, 8}), (COUNTS_1, 0.50, set()), (COUNTS_2, 1.20, {6, 7, 8, 9}),
        (COUNTS_2, 0.80, {6, 7, 8, 9}), (COUNTS_2, 0.50, {6, 7, 9}), (COUNTS_2, 0.20, set()),
    ],
)  # fmt: skip
def test_partition_follows_from_the_class_frequencies(counts, sigma, rare):
    """If this fails, the paper's tables are run on another partition."""
    frequent, favoured = BlockRR(eps=1.0, sigma=sigma, favoured=3).partition(prior_of(counts))
    assert set((~frequent).nonzero().flatten().tolist()) == rare
    assert favoured.nonzero().flatten().tolist() == [0, 1, 5]


@pytest.mark.parametrize(
    ("counts", "eps", "top_k"),
    [(COUNTS_1, 0.6, 6), (COUNTS_1, 2, 6), (COUNTS_1, 3, 8), (COUNTS_1, 4, 10),
     (COUNTS_2, 3, 6), (COUNTS_2, 4, 9), (COUNTS_2, 6, 10)],
)  # fmt: skip
def test_rrwithprior_on_the_imbalanced_data(counts, eps, top_k):
    """If this fails, BlockRR's competitor drops other classes than in its paper."""
    assert int(RandomizedResponseWithPrior(eps=eps).top_k(prior_of(counts)[None])) == top_k


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0, 100.0, math.inf])
def test_block_rr_without_favoured_labels_is_rr(eps):
    """If this fails, Table 2 row RR (l = 0) or Table 1 row RR (no rare label) does not hold."""
    expected = RandomizedResponse(eps=eps).transition_matrix(10)
    for mechanism in (
        BlockRR(eps=eps, sigma=1.2, favoured=0),
        BlockRR(eps=eps, sigma=0.05, favoured=6),
    ):
        found = mechanism.transition_matrix(10, prior_of(COUNTS_1))
        assert torch.allclose(found, expected, atol=1e-15, rtol=1e-12)


def test_block_rr_with_no_output_for_rare_labels_is_rrwithprior():
    """If this fails, Table 1 row RRWithPrior does not hold."""
    prior = prior_of(COUNTS_1)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    top_k = int(mechanism.top_k(prior[None]))
    frequent = torch.zeros(10, dtype=torch.bool)
    frequent[prior.argsort(descending=True)[:top_k]] = True
    outputs = frequent.nonzero().flatten()
    near = torch.eye(10, dtype=torch.bool)[:, outputs]
    found = block_matrix(1.0, near, frequent, torch.ones(top_k, dtype=torch.bool))
    assert torch.allclose(found, mechanism.transition_matrix(10, prior)[:, outputs], atol=1e-15)


@pytest.mark.parametrize("frequent_labels", [12, 6])
def test_block_rr_with_bins_is_rr_on_bins(frequent_labels):
    """If this fails, rows RRonBins of Table 1 (all frequent) or 2 (l = 0) do not hold."""
    bins = torch.arange(12) // 3
    near = torch.nn.functional.one_hot(bins, 4).bool()
    frequent = torch.arange(12) < frequent_labels
    found = block_matrix(1.0, near, frequent, torch.zeros(4, dtype=torch.bool))
    assert torch.allclose(found, RandomizedResponse(eps=1.0).transition_matrix(4)[bins])


def test_block_rr_with_windows_is_rpwithprior():
    """If this fails, Table 1 row RPWithPrior (on a grid) does not hold."""
    # Labels 0..9, interval [3, 6], radius 1: outputs 2..7, three of them near a label inside.
    labels, outputs, eps, radius = torch.arange(10), torch.arange(2, 8), 1.0, 1
    frequent = (labels >= 3) & (labels <= 6)
    near = ((labels[:, None] - outputs).abs() <= radius) & frequent[:, None]
    found = block_matrix(eps, near, frequent, torch.ones(6, dtype=torch.bool))
    window = 2 * radius + 1
    high = 1 / (window + (6 - window) * math.exp(-eps))
    expected = high * (math.exp(-eps) + (1 - math.exp(-eps)) * near.double())
    expected[~frequent] = 1 / 6
    assert torch.allclose(found, expected, atol=1e-15)


def test_block_rr_refuses_outputs_shared_by_both_blocks():
    """If this fails, a matrix whose rows do not sum to one is used."""
    near = torch.ones((4, 3), dtype=torch.bool)
    with pytest.raises(InputError, match="as many near outputs for every label"):
        block_matrix(1.0, near, torch.arange(4) < 2, torch.zeros(3, dtype=torch.bool))


@settings(max_examples=200, deadline=None)
@given(
    eps=st.floats(0.01, 12), frequent=st.integers(1, 12), rare=st.integers(1, 12),
    near=st.integers(1, 3),
)  # fmt: skip
def test_lemma_3_1(eps, frequent, rare, near):
    """If this fails, beta does not rise or gamma does not fall in l."""
    frequent, rare = max(frequent, near), max(rare, near)
    own = [own_rates(eps, (frequent, rare), l, near) for l in range(frequent + 1)]  # noqa: E741
    rates = [(math.exp(-eps) * beta, math.exp(-eps) * gamma) for beta, gamma in own]
    betas, gammas = zip(*rates, strict=True)
    for previous, following in itertools.pairwise(rates):
        assert following[0] >= previous[0] * (1 - 1e-12)
        assert following[1] <= previous[1] * (1 + 1e-12)
    assert max(gammas) == pytest.approx(min(betas), rel=1e-12)
    # Equation 3.1: rows sum to one.
    gain = math.expm1(eps) * near
    for l, (beta, gamma) in enumerate(rates):  # noqa: E741
        assert (gain + frequent) * beta + rare * gamma == pytest.approx(1)
        rest = (frequent - l) * beta + (gain + rare) * gamma
        assert rest + l / (frequent + rare) == pytest.approx(1)


# --- Information, retention, signal-to-noise (peers.md 5.3, 5.4, T1) --------------------------

INFORMATION = {
    # (K, eps): RR, RAPPOR, OUE, subset selection by variance (d), by information (d), ALIBI
    (10, 0.5): (0.0210, 0.0403, 0.0400, 0.0449, 4, 0.0449, 4, 0.0374),
    (10, 1): (0.1059, 0.1582, 0.1538, 0.1765, 3, 0.1765, 3, 0.1377),
    (10, 2): (0.5882, 0.5872, 0.5296, 0.5882, 1, 0.6844, 2, 0.4680),
    (10, 3): (1.4485, 1.1723, 0.9498, 1.4485, 1, 1.4485, 1, 0.8991),
    (10, 4): (2.2852, 1.7767, 1.2755, 2.2852, 1, 2.2852, 1, 1.3553),
    (10, 8): (3.2828, 3.0815, 1.6449, 3.2828, 1, 3.2828, 1, 2.7204),
    (100, 0.5): (0.0025, 0.0444, 0.0442, 0.0447, 38, 0.0449, 42, 0.0411),
    (100, 1): (0.0140, 0.1748, 0.1713, 0.1734, 27, 0.1779, 34, 0.1521),
    (100, 2): (0.1110, 0.6588, 0.6159, 0.6271, 12, 0.6844, 21, 0.5246),
    (100, 3): (0.4780, 1.3549, 1.2017, 1.2575, 5, 1.4533, 11, 1.0284),
    (100, 4): (1.4321, 2.1573, 1.8194, 1.9903, 2, 2.4083, 6, 1.6095),
    (100, 6): (4.6216, 3.7819, 2.7998, 4.6216, 1, 4.6216, 1, 2.8657),
    (100, 8): (6.2257, 5.1385, 3.2012, 6.2257, 1, 6.2257, 1, 4.0985),
}


@pytest.mark.parametrize(("cell", "golden"), INFORMATION.items())
def test_mutual_information(measure, cell, golden):
    """If this fails, a mechanism says more or less of the label than it should."""
    num_classes, eps = cell
    by_variance = SubsetSelection(eps=eps, rule="variance")
    by_information = SubsetSelection(eps=eps)
    sizes = [m.chosen_size(num_classes) for m in (by_variance, by_information)]
    assert sizes == [golden[4], golden[6]]
    exact = [RandomizedResponse(eps=eps), Rappor(eps=eps), OptimizedUnaryEncoding(eps=eps),
             by_variance, by_information]  # fmt: skip
    found = [measure(mechanism, num_classes)["information"] for mechanism in exact]
    assert found == pytest.approx([golden[i] for i in (0, 1, 2, 3, 5)], abs=6e-5)
    if num_classes == 10:
        alibi = measure(AdditiveLaplace(eps=eps), num_classes)["information"]
        assert alibi == pytest.approx(golden[7], rel=0.02)


@pytest.mark.parametrize(
    ("num_classes", "percent"),
    [
        (10, {1: 16.37, 2: 25.73, 4: 49.89, 8: 85.58}),
        (100, {1: 1.65, 2: 2.72, 3: 4.48, 4: 7.39, 5: 12.13, 6: 19.45, 8: 41.28}),
    ],
)
def test_alibi_retention(measure, num_classes, percent):
    """If this fails, ALIBI runs at 2.8 times its budget, as in a printed table (T1)."""
    found = {
        eps: 100 * measure(AdditiveLaplace(eps=eps), num_classes)["retention"] for eps in percent
    }
    assert found == pytest.approx(percent, abs=0.0051)


def test_exact_retention_is_that_of_draws():
    """If this fails, the quadrature is of another randomiser than the one that releases."""
    for eps, num_classes in ((1.0, 2), (2.0, 10), (6.0, 100)):
        mechanism = AdditiveLaplace(eps=eps)
        labels = torch.zeros(100_000, dtype=torch.int64)
        released = mechanism.release(labels, num_classes, seeding.generator(0, "retention"))
        exact = argmax_retention(mechanism.scale, num_classes)
        bound = 4 * math.sqrt(exact * (1 - exact) / len(labels))
        assert float((released.argmax(1) == 0).double().mean()) == pytest.approx(exact, abs=bound)
    assert argmax_retention(0.0, 10) == 1
    assert argmax_retention(1e9, 10) == pytest.approx(0.1, abs=1e-6)
    with pytest.raises(InputError, match="scale must be a number >= 0, got -1"):
        argmax_retention(-1.0, 10)


def test_signal_to_noise(measure):
    """If this fails, p or q of some mechanism is off."""
    kinds = (RandomizedResponse, Rappor, OptimizedUnaryEncoding, SubsetSelection, HadamardResponse)
    found = [measure(kind(eps=1.0), 10)["signal"] for kind in kinds]
    assert found == pytest.approx([0.276, 0.255, 0.272, 0.352, 0.214], abs=6e-4)
    by_variance = SubsetSelection(eps=2.0, rule="variance")
    assert measure(by_variance, 100)["signal"] == pytest.approx(1.450, abs=6e-4)


def test_closed_forms_agree_with_enumeration(measure):
    """If this fails, a closed form of the comparison table is wrong."""
    spec = measure.__globals__["_of_enumeration"]
    for kind in (Rappor, UnaryEncoding, LocalHashing, SubsetSelection):
        mechanism = kind(eps=1.7)
        assert spec(mechanism, 6) == pytest.approx(measure(mechanism, 6), rel=1e-9)


@pytest.mark.parametrize(("eps", "size", "p", "q", "num_classes"),
    [(1.0, 3, 0.5381, 0.2735, 10), (2.0, 12, 0.5019, 0.1161, 100)])  # fmt: skip
def test_subset_selection_probabilities(eps, size, p, q, num_classes):
    """If this fails, the true label is in the set with the wrong probability."""
    mechanism = SubsetSelection(eps=eps, size=size)
    labels = torch.zeros(40_000, dtype=torch.int64)
    bits = mechanism.release(labels, num_classes, seeding.generator(0, "test")).double()
    assert bits[:, 0].mean() == pytest.approx(p, abs=0.01)
    assert bits[:, 1:].mean() == pytest.approx(q, abs=0.001)


@pytest.mark.parametrize(("eps", "flip"), [(1, 0.2689), (2, 0.1192)])
def test_oue_flip_probability(eps, flip):
    """If this fails, OUE is not the mechanism of its paper."""
    assert OptimizedUnaryEncoding(eps=eps).p_flip == pytest.approx(flip, abs=5e-5)


# --- One mechanism as a case of another -------------------------------------------------------


def assert_same_law(one, other, num_classes, prior=None):
    """Equal likelihood of every output, and equal draws in number of ones."""
    outputs = one.output_space(num_classes, prior)
    found = one.log_likelihood(outputs, num_classes, prior)
    assert torch.allclose(found, other.log_likelihood(outputs, num_classes), atol=1e-12, rtol=0)


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
def test_unary_encodings_form_one_family(eps):
    """If this fails, the ends of the family are not RAPPOR and OUE."""
    rappor = Rappor(eps=eps)
    assert_same_law(UnaryEncoding(eps=eps, keep=1 - rappor.p_drop), rappor, 5)
    assert_same_law(UnaryEncoding(eps=eps, keep=0.5), OptimizedUnaryEncoding(eps=eps), 5)
    middle = (1 - rappor.p_drop + 0.5) / 2
    assert_same_law(UnaryEncoding(eps=eps), UnaryEncoding(eps=eps, keep=middle), 5)
    # g = e^eps + 1 buckets, where that is whole.
    whole = LocalHashing(eps=math.log(3))
    assert_same_law(whole, OptimizedUnaryEncoding(eps=math.log(3)), 5)


def test_local_hashing_is_the_law_of_hash_and_bucket():
    """If this fails, the bits are not those of a real hash and a randomised bucket."""
    eps, num_classes, buckets, size = 1.0, 4, 3, 200_000
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, buckets, (size, num_classes))
    report = RandomizedResponse(eps=eps).release(
        torch.from_numpy(hashes[:, 0].copy()), buckets, seeding.generator(0, "test")
    )
    codes = (torch.from_numpy(hashes) == report[:, None]).long() @ (2 ** torch.arange(num_classes))
    mechanism = LocalHashing(eps=eps, buckets=buckets)
    outputs = mechanism.output_space(num_classes)
    expected = mechanism.log_likelihood(outputs, num_classes)[:, 0].exp()
    found = torch.bincount(codes, minlength=2**num_classes) / size
    assert torch.allclose(found.double(), expected, atol=0.004)


@pytest.mark.parametrize("eps", [0.1, 1.0, math.inf])
def test_one_label_subsets_are_rr(eps):
    """If this fails, subset selection does not generalise randomised response."""
    mechanism, rr = SubsetSelection(eps=eps, size=1), RandomizedResponse(eps=eps)
    found = mechanism.log_likelihood(torch.eye(6, dtype=torch.uint8), 6)
    assert torch.allclose(found.exp(), rr.transition_matrix(6), atol=1e-14)


def test_topk_subset_generalises_both():
    """If this fails, top-k subsets are neither subset selection nor RRWithPrior at their ends."""
    for eps in (0.3, 1.0, 3.0, math.inf):
        assert_same_law(TopKSubset(eps=eps), SubsetSelection(eps=eps), 10)
    prior = torch.tensor(GOLDEN_PRIOR, dtype=torch.float64)
    rr = RandomizedResponseWithPrior(eps=1.0)
    found = TopKSubset(eps=1.0, size=1, top=2).log_likelihood(
        torch.eye(6, dtype=torch.uint8), 6, prior
    )
    assert torch.allclose(found, rr.log_likelihood(torch.arange(6), 6, prior), atol=1e-14)


def exact_information(mechanism, prior):
    """Mutual information in nats by enumeration."""
    outputs = mechanism.output_space(len(prior), prior)
    probability = mechanism.log_likelihood(outputs, len(prior), prior).exp()
    average = (probability * prior).sum(1, keepdim=True).clamp_min(1e-300)
    return float((prior * torch.special.xlogy(probability, probability / average)).sum())


@pytest.mark.parametrize("eps", [0.5, 1.0, 2.0, 4.0])
def test_topk_subset_chooses_a_nearly_best_pair(eps):
    """If this fails, the approximation behind (k, d) costs more than 2 % of the information."""
    torch.manual_seed(0)
    for concentration in (0.1, 0.5, 2.0):
        prior = torch.distributions.Dirichlet(torch.full((6,), concentration).double()).sample()
        pairs = [(k, d) for k in range(2, 7) for d in range(1, k)]
        best = max(exact_information(TopKSubset(eps=eps, size=d, top=k), prior) for k, d in pairs)
        assert exact_information(TopKSubset(eps=eps), prior) >= 0.98 * best


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("eps", [0.1, 1.0, 2.0, 8.0])
def test_optimal_mechanism_is_subset_selection_for_a_uniform_prior(num_classes, eps):
    """If this fails, the linear programme is wrong, or subset selection is not the best."""
    size = SubsetSelection(eps=eps).chosen_size(num_classes)
    best = subset_information(num_classes, size, eps)
    assert OptimalMechanism(eps=eps).information(num_classes) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_nothing_beats_the_optimal_mechanism(eps):
    """If this fails, the bound that other mechanisms are compared with is none."""
    prior = prior_of([9, 1, 5, 2, 2])
    best = OptimalMechanism(eps=eps).information(5, prior)
    assert best == pytest.approx(exact_information(OptimalMechanism(eps=eps), prior), rel=1e-9)
    for mechanism in (Rappor(eps=eps), SubsetSelection(eps=eps), TopKSubset(eps=eps),
                      RandomizedResponseWithPrior(eps=eps), BlockRR(eps=eps, favoured=2),
                      HadamardResponse(eps=eps), LocalHashing(eps=eps)):  # fmt: skip
        assert exact_information(mechanism, prior) <= best + 1e-9


# --- ALIBI (peers.md 1.4, 5.2) ----------------------------------------------------------------


def test_laplace_likelihood_is_the_density():
    """If this fails, the O(K) form is not the O(K^2) one."""
    mechanism, num_classes = AdditiveLaplace(eps=1.3), 7
    labels = torch.arange(num_classes)
    released = mechanism.release(labels, num_classes, seeding.generator(0, "test"))
    offsets = released.double()[:, None, :] - torch.eye(num_classes, dtype=torch.float64)
    expected = laplace(scale=2 / 1.3).logpdf(offsets.numpy()).sum(2)
    found = mechanism.log_likelihood(released, num_classes)
    assert np.allclose(found.numpy(), expected, atol=1e-10)


@pytest.mark.parametrize(("eps", "scale", "stddev"), [(1, 2, 2.8284), (3, 0.6667, 0.9428)])
def test_laplace_scale_is_two_over_eps(eps, scale, stddev):
    """If this fails, scale and standard deviation are mixed up."""
    summary = AdditiveLaplace(eps=eps).summary()
    assert summary == pytest.approx({"scale": scale, "stddev": stddev}, abs=5e-5)


@pytest.mark.parametrize("eps", [1.0, 4.0])
def test_rappor_simulates_alibi(eps):
    """If this fails, RAPPOR's bits do not carry all that ALIBI's reals say."""
    labels = torch.zeros(20_000, dtype=torch.int64)
    bits = Rappor(eps=eps).release(labels, 2, seeding.generator(0, "bits")).numpy()
    reals = AdditiveLaplace(eps=eps).release(labels, 2, seeding.generator(0, "reals")).numpy()
    keep, flip = 1 - Rappor(eps=eps).p_drop, Rappor(eps=eps).p_flip
    noise = laplace(scale=2 / eps)
    grid = np.linspace(-60 / eps, 1 + 60 / eps, 20_001)
    uniform = np.random.default_rng(0).random(bits.shape)
    cumulative = {
        1: (keep * noise.cdf(grid - 1) - flip * noise.cdf(grid)) / (keep - flip),
        0: (keep * noise.cdf(grid) - flip * noise.cdf(grid - 1)) / (keep - flip),
    }
    for column in (0, 1):
        simulated = np.where(
            bits[:, column] == 1,
            np.interp(uniform[:, column], cumulative[1], grid),
            np.interp(uniform[:, column], cumulative[0], grid),
        )
        assert ks_2samp(simulated, reals[:, column]).pvalue > 1e-3
        # The same test notices one bit's distribution taken for the other's.
        swapped = np.interp(uniform[:, column], cumulative[column], grid)
        assert ks_2samp(swapped, reals[:, column]).pvalue < 1e-3


# --- Hadamard response ------------------------------------------------------------------------


@pytest.mark.parametrize("num_classes", [2, 3, 7, 8, 10, 100])
def test_hadamard_messages_are_told_apart_by_their_bits(num_classes):
    """If this fails, the released bits are not a 1-1 function of the message."""
    table = HadamardResponse(eps=1.0).output_space(num_classes)
    assert len(table) == 2 ** math.ceil(math.log2(num_classes + 1))
    assert len(table.unique(dim=0)) == len(table)
    assert (table.double().mean(0) == 0.5).all()
    for label in range(1, min(num_classes, 8)):
        assert (table[table[:, 0] == 1][:, label].double().mean()) == 0.5


@pytest.mark.parametrize("mechanism", [HadamardResponse(eps=1.0), SubsetSelection(eps=1.0, size=2),
                                       OptimalMechanism(eps=1.0)])  # fmt: skip
def test_impossible_bits_have_no_probability(mechanism):
    """If this fails, the likelihood is positive where the sampler never goes."""
    possible = {tuple(row) for row in mechanism.output_space(5).tolist()}
    rest = [row for row in np.ndindex(*[2] * 5) if row not in possible]
    found = mechanism.log_likelihood(torch.tensor(rest, dtype=torch.uint8), 5)
    assert (found == -math.inf).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SubsetSelection(eps=1.0, size=0), "size must be >= 1, got 0"),
        (lambda: SubsetSelection(eps=1.0, size=5).chosen_size(5), "size must be in [1, 4], got 5"),
        (lambda: SubsetSelection(eps=1.0, rule="mean"), "rule must be one of information"),
        (lambda: UnaryEncoding(eps=1.0, keep=1.0), "keep must be < 1, got 1.0"),
        (lambda: LocalHashing(eps=1.0, buckets=1), "buckets must be in [2, 4294967296], got 1"),
        (lambda: BlockRR(eps=1.0, sigma=0), "sigma must be a number > 0, got 0"),
        (lambda: BlockRR(eps=1.0, favoured=-1), "favoured must be >= 0, got -1"),
        (lambda: TopKSubset(eps=1.0, size=3, top=3), "top must be >= 4, got 3"),
        (lambda: OptimalMechanism(eps=1.0).output_space(11), "optimal needs num_classes <= 10"),
        (lambda: Rappor(eps=1.0).log_likelihood(torch.zeros((1, 3)), 4),
         "released bits must have shape (N, 4), got (1, 3)"),
        (lambda: AdditiveLaplace(eps=1.0).log_likelihood(torch.zeros((1, 3)), 4),
         "released reals must have shape (N, 4), got (1, 3)"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_clear_line(build, message):
    """If this fails, a parameter out of range is used as it is, or ends in a traceback."""
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 64, 100])
def test_ranking_equals_a_stable_sort(num_classes):
    # Release and likelihood must agree on the top k, and so must two machines on ties.
    counts = torch.randint(12, (500, num_classes), generator=seeding.generator(0, "counts"))
    prior = (counts + 1e-9).to(torch.float64)
    prior[::2, ::3] = 0.0
    prior[1::4, 1] = -0.0
    prior[:, 0] += 1
    prior /= prior.sum(1, keepdim=True)
    order, rank = ranking(prior)
    assert torch.equal(order, prior.sort(dim=1, descending=True, stable=True).indices)
    assert torch.equal(rank, order.argsort(1))
