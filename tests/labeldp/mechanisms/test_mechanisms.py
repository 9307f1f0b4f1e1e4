"""Published and hand-computed numbers of single mechanisms, and the ties between mechanisms."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
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
    UnaryEncoding,
    response,
)
from labeldp.mechanisms.response import by_falling_prior, places
from labeldp.support import seeding
from labeldp.support.validate import InputError

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
    certain = torch.tensor([[1.0, 0, 0]], dtype=torch.float64)  # every k is as good
    assert RandomizedResponseWithPrior(eps=math.inf).top_k(certain).tolist() == [1]


def test_released_code_collapses_where_the_paper_does_not():
    """If this fails, the switch no longer shows the fault of the public code."""
    uniform = torch.full((1, 10), 0.1, dtype=torch.float64)
    assert RandomizedResponseWithPrior(eps=0.5).top_k(uniform).tolist() == [10]
    released_code = RandomizedResponseWithPrior(eps=0.5, k_rule="released_code")
    assert released_code.top_k(uniform).tolist() == [1]


def test_rrwithprior_is_rr_under_a_uniform_prior():
    """If this fails, LP-1ST is not RRWithPrior with the uniform prior."""
    for eps in (0.1, 1.0, math.inf):
        kinds = RandomizedResponseWithPrior(eps=eps), RandomizedResponse(eps=eps)
        found, expected = (kind.transition_matrix(10) for kind in kinds)
        assert torch.allclose(found, expected, atol=1e-15, rtol=0)


def test_prior_per_example_is_used_row_by_row():
    """If this fails, one example's prior decides over another's label."""
    priors = torch.tensor([GOLDEN_PRIOR, GOLDEN_PRIOR[::-1]], dtype=torch.float64)
    labels = torch.tensor([0, 0]).repeat(20_000)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    released = mechanism.release(labels, 6, seeding.generator(0, "test"), priors.repeat(20_000, 1))
    together = mechanism.log_likelihood(released, 6, priors.repeat(20_000, 1))
    for row in (0, 1):
        alone = mechanism.log_likelihood(released[row::2], 6, priors[row])
        assert torch.equal(together[row::2], alone)
        assert (alone[:, 0] > -math.inf).all()


@pytest.mark.parametrize("num_classes", [2, 3, 10, 64, 100])
def test_ranking_equals_a_stable_sort(num_classes):
    # Release and likelihood must agree on the top k, and so must two machines on ties.
    counts = torch.randint(12, (500, num_classes), generator=seeding.generator(0, "counts"))
    prior = (counts + 1e-9).to(torch.float64)
    prior[::2, ::3] = 0.0
    prior[1::4, 1] = -0.0
    prior[:, 0] += 1
    prior /= prior.sum(1, keepdim=True)
    order = by_falling_prior(prior)
    assert torch.equal(order, prior.sort(dim=1, descending=True, stable=True).indices)
    assert torch.equal(places(order), order.argsort(1))


def test_ranking_of_a_changed_prior_is_made_anew():
    # The last ranking is kept; labels would be released by the order of an earlier prior.
    prior = torch.tensor([GOLDEN_PRIOR], dtype=torch.float64)
    mechanism = RandomizedResponseWithPrior(eps=1.8)
    assert mechanism.top_k(prior) == 4
    assert RandomizedResponseWithPrior(eps=1.8, k_rule="released_code").top_k(prior) == 3
    assert RandomizedResponseWithPrior(eps=0.1).top_k(prior) == 1
    first = mechanism.transition_matrix(6, prior[0])
    prior.copy_(prior.flip(1))
    assert torch.equal(mechanism.transition_matrix(6, prior[0]), first.flip(0, 1))
    prior.fill_(1 / 6)
    assert mechanism.top_k(prior) == 6


def test_top_k_that_was_handed_out_decides_nothing():
    # Whoever changed it would change what later mechanisms release.
    prior = torch.tensor([GOLDEN_PRIOR], dtype=torch.float64)
    top = RandomizedResponseWithPrior(eps=1.0).top_k(prior)
    top.fill_(1)
    assert RandomizedResponseWithPrior(eps=1.0).top_k(prior) == 2


def test_a_prior_is_ranked_once_for_all_who_ask(monkeypatch):
    # A release, its most likely labels and the note on its top k ask one after the other.
    asked = []

    def ranked(prior):
        asked.append(float(prior[0, 0]))
        return by_falling_prior(prior)

    monkeypatch.setattr(response, "by_falling_prior", ranked)
    mechanism = RandomizedResponseWithPrior(eps=1.7)
    labels, first = torch.arange(6), torch.tensor([GOLDEN_PRIOR], dtype=torch.float64)
    for prior in (first, first.flip(1), first):  # the last but one is forgotten
        released = mechanism.release(labels, 6, seeding.generator(0, "once"), prior[0])
        mechanism.most_likely_labels(released, 6, prior[0])
        mechanism.top_k(prior.clone())
    assert asked == [0.40, 0.05, 0.40]


def test_places_are_not_the_order():
    # They agree for priors that rise or fall; elsewhere labels would be kept by others' places.
    prior = torch.tensor([0.01, 0.58, 0.41], dtype=torch.float64)  # order 1, 2, 0; places 2, 0, 1
    keep = 1 / (1 + math.exp(-1))
    expected = torch.tensor(
        [[0, 0.5, 0.5], [0, keep, 1 - keep], [0, 1 - keep, keep]], dtype=torch.float64
    )
    labels = torch.arange(3).repeat_interleave(20_000)
    by_rr = RandomizedResponseWithPrior(eps=1.0)
    assert torch.allclose(by_rr.transition_matrix(3, prior), expected)
    released = by_rr.release(labels, 3, seeding.generator(0, "places"), prior)
    found = torch.nn.functional.one_hot(released, 3)
    shares = found.view(3, 20_000, 3).double().mean(1)
    assert torch.allclose(shares, expected, atol=0.02)


def assert_same_law(one, other, num_classes):
    """Equal likelihood of every output."""
    outputs = one.output_space(num_classes)
    found = one.log_likelihood(outputs, num_classes)
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


def test_subset_selection_of_one_label_is_rr():
    """If this fails, sets of one label are not randomised response."""
    for eps in (0.3, 1.0, 3.0, math.inf):
        one = SubsetSelection(eps=eps, size=1).log_likelihood(torch.eye(6, dtype=torch.uint8), 6)
        assert torch.allclose(one.exp(), RandomizedResponse(eps).transition_matrix(6), atol=1e-14)


@pytest.mark.parametrize("num_classes", [2, 3, 7, 8, 10, 100])
def test_hadamard_messages_are_told_apart_by_their_bits(num_classes):
    """If this fails, the released bits are not a 1-1 function of the message."""
    table = HadamardResponse(eps=1.0).output_space(num_classes)
    assert len(table) == 2 ** math.ceil(math.log2(num_classes + 1))
    assert len(table.unique(dim=0)) == len(table)
    assert (table.double().mean(0) == 0.5).all()
    for label in range(1, min(num_classes, 8)):
        assert (table[table[:, 0] == 1][:, label].double().mean()) == 0.5


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: SubsetSelection(eps=1.0, size=0), "size must be >= 1, got 0"),
        (lambda: SubsetSelection(eps=1.0, size=5).chosen_size(5), r"size must be in \[1, 4\]"),
        (lambda: SubsetSelection(eps=1.0, rule="mean"), "rule"),
        (lambda: UnaryEncoding(eps=1.0, keep=1.0), "keep"),
        (lambda: LocalHashing(eps=1.0, buckets=1), "buckets"),
        (lambda: BlockRR(eps=1.0, sigma=0), "sigma"),
        (lambda: BlockRR(eps=1.0, favoured=-1), "favoured"),
        (lambda: OptimalMechanism(eps=1.0).output_space(11), "num_classes <= 10"),
        (lambda: Rappor(eps=1.0).log_likelihood(torch.zeros((1, 3)), 4), r"got \(1, 3\)"),
        (lambda: AdditiveLaplace(eps=1.0).log_likelihood(torch.zeros((1, 3)), 4), r"got \(1, 3\)"),
    ],
)
def test_bad_parameters_are_one_clear_line(build, named):
    """If this fails, a parameter out of range is used as it is, or ends in a traceback."""
    with pytest.raises(InputError, match=rf"^[^\n]*{named}[^\n]*$"):
        build()


@pytest.mark.parametrize(
    "mechanism",
    [HadamardResponse(eps=1.0), SubsetSelection(eps=1.0, size=2), OptimalMechanism(eps=1.0)],
)
def test_impossible_bits_have_no_probability(mechanism):
    """If this fails, the likelihood is positive where the sampler never goes."""
    possible = {tuple(row) for row in mechanism.output_space(5).tolist()}
    rest = [row for row in np.ndindex(*[2] * 5) if row not in possible]
    found = mechanism.log_likelihood(torch.tensor(rest, dtype=torch.uint8), 5)
    assert (found == -math.inf).all()


@pytest.mark.parametrize("wrong", [math.nan, 0.5, -1.0, 2.0])
@pytest.mark.parametrize("mechanism", [Rappor(1.0), SubsetSelection(1.0), HadamardResponse(1.0)])
def test_what_is_no_bit_is_refused_by_all_who_read_bits(mechanism, wrong):
    # NaN became a likelihood of 1e19, or all labels alike; 0.5 became a 0.
    released = torch.tensor([[0.0, 1.0, wrong]])
    read = mechanism.centred_log_likelihood
    for each in (mechanism.log_likelihood, read, mechanism.most_likely_labels, mechanism.unbiased):
        with pytest.raises(InputError, match="bits must be 0 or 1"):
            each(released, 3)
    whole = torch.tensor([[0.0, 1.0, 0.0]])
    assert torch.equal(read(whole, 3), read(whole.byte(), 3))
