"""Who catches what: deliberately broken mechanisms, and which audit notices."""

import importlib.util
import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from labeldp.audit import audit as sampling
from labeldp.audit.audit import sampled_epsilon
from labeldp.audit.exact import exact_epsilon
from labeldp.cli.__main__ import main as labeldp
from labeldp.mechanisms import (
    AdditiveLaplace,
    ClippedLaplace,
    CubeMeans,
    ExponentialCubes,
    FullClippedCubeMeans,
    LabelDPPro,
    Laplace,
    LaplaceHistogram,
    LocalFull,
    NoisyClusters,
    NoisyMoments,
    NoPrivacy,
    OptimalMechanism,
    PateFM,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
    groups,
    laplace,
    moments,
    pate,
)
from labeldp.mechanisms.base import LabelMechanism
from labeldp.mechanisms.moments import most_eps_at
from labeldp.mechanisms.response import by_falling_prior, places
from labeldp.support.progress import ProgressLines
from labeldp.support.validate import InputError
from labeldp_bench.support.checkout import CHECKOUT
from tests.labeldp.audit.faulty_mechanisms import CarelessRappor, half_sensitivity

SCRIPT = CHECKOUT / "scripts" / "audit.py"
PRIOR = torch.tensor([0.1, 0.3, 0.1, 0.5], dtype=torch.float64)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("audit_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NarrowLaplace(AdditiveLaplace):
    """ALIBI with scale 1/eps, as if one entry changed (trap T1's kind)."""

    @property
    def scale(self):
        return 1 / self.eps


@dataclass(frozen=True)
class WideTopK(LabelMechanism):
    """RRTop-k whose wrong label is drawn from all others instead of the top k (trap T10)."""

    top: int = 2

    def transition_matrix(self, num_classes, prior=None):
        tail = math.exp(-self.eps)
        keep = 1 / (1 + (self.top - 1) * tail)
        matrix = torch.full((num_classes, num_classes), (1 - keep) / (num_classes - 1)).double()
        matrix.fill_diagonal_(keep)
        rank = places(by_falling_prior(prior[None]))
        inside = rank[0] < self.top
        matrix[~inside] = inside.double() / self.top
        return matrix


@pytest.mark.parametrize("wrong", [CarelessRappor(eps=1.0), NarrowLaplace(eps=1.0)])
def test_wrong_probability_is_caught_by_both_audits(wrong):
    """If this fails, a miscalibrated mechanism passes."""
    assert exact_epsilon(wrong, 5) > 1.3
    assert sampled_epsilon(wrong, 5) > 1.1


def test_wrong_sampler_is_caught_by_the_draws_alone():
    """If this fails, a likelihood that is right on paper hides a sampler that is not."""
    wrong = half_sensitivity(Rappor(eps=1.0))
    assert exact_epsilon(wrong, 5) == pytest.approx(1.0)
    assert sampled_epsilon(wrong, 5) > 1.5


def test_draw_outside_the_top_k_is_caught_by_enumeration():
    """If this fails, the fault of a known public LP-MST code goes unnoticed."""
    assert exact_epsilon(WideTopK(eps=1.0, top=2), 4, PRIOR) == math.inf
    assert exact_epsilon(RandomizedResponseWithPrior(eps=1.0), 4, PRIOR) == pytest.approx(1.0)
    assert sampled_epsilon(WideTopK(eps=1.0, top=2), 4, prior=PRIOR) > 2


@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_a_likelihood_that_says_nothing_proves_nothing(broken):
    # Comparisons with NaN are all false, so that a broken formula would pass as perfectly private.
    class Broken(RandomizedResponse):
        def log_likelihood(self, released, num_classes, prior=None):
            likelihood = super().log_likelihood(released, num_classes, prior)
            return torch.full_like(likelihood, broken)

    class Empty(RandomizedResponse):
        def output_space(self, num_classes, prior=None):
            return torch.empty(0, dtype=torch.int64)

    assert exact_epsilon(Broken(1.0), 3) == math.inf
    assert exact_epsilon(Empty(1.0), 3) == math.inf


def test_likelihoods_that_do_not_sum_to_one_prove_nothing():
    # The sampler makes rows sum to 1, so that its eps is not that of the ratios.
    class Unequal(RandomizedResponse):
        def transition_matrix(self, num_classes, prior=None):
            matrix = super().transition_matrix(num_classes, prior)
            return matrix * torch.linspace(1, 2, num_classes, dtype=torch.float64)[:, None]

        def log_likelihood(self, released, num_classes, prior=None):
            return self.transition_matrix(num_classes, prior).log().T[released]

    with pytest.raises(InputError, match=r"under label 1 sum to 1\.5, not to 1"):
        exact_epsilon(Unequal(1.0), 3)
    with pytest.raises(InputError, match=r"row 1 of the transition matrix sums to 1\.5, not to 1"):
        LabelMechanism.release(Unequal(1.0), torch.tensor([0]), 3, torch.Generator())


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    "kind",
    [RandomizedResponse, Rappor, SubsetSelection, AdditiveLaplace, OptimalMechanism],
)
def test_honest_mechanisms_pass_with_a_useful_bound(kind, eps):
    """If this fails, the sampler audit accuses the innocent, or can accuse nobody."""
    for seed in range(3):
        found = sampled_epsilon(kind(eps=eps), 3, seed=seed)
        assert 0.35 * eps < found <= eps


def test_bound_holds_as_often_as_it_says():
    """If this fails, the confidence is not what it claims (choice and test share draws?)."""
    mechanism = RandomizedResponse(eps=0.5)
    bounds = [sampled_epsilon(mechanism, 4, 2_000, seed, 0.8) for seed in range(200)]
    misses = sum(bound > 0.5 for bound in bounds)
    assert misses <= 0.2 * 200


def test_extreme_outputs_give_the_enumerated_eps():
    """If this fails, large K is audited on outputs that do not hold the worst ratio."""
    for mechanism in (
        CarelessRappor(eps=1.0),
        SubsetSelection(eps=2.0, size=3),
    ):
        for num_classes in (4, 7):
            ratios = []
            for outputs in (
                mechanism.output_space(num_classes),
                mechanism.extreme_outputs(num_classes),
            ):
                log_likelihood = mechanism.log_likelihood(outputs, num_classes)
                ratios.append(float((log_likelihood.amax(1) - log_likelihood.amin(1)).max()))
            assert ratios[0] == pytest.approx(ratios[1], abs=1e-12)


def test_no_privacy_is_seen_as_such():
    """If this fails, the baseline looks private."""
    assert exact_epsilon(NoPrivacy(), 3) == math.inf
    assert sampled_epsilon(NoPrivacy(), 3) > 8


@pytest.mark.parametrize(
    "kind",
    [
        AdditiveLaplace,
        Laplace,
        partial(ClippedLaplace, clip=2.0),
        LaplaceHistogram,
        NoisyClusters,
        CubeMeans,
        partial(FullClippedCubeMeans, clip=0.5),
        LocalFull,
        ExponentialCubes,
        NoisyMoments,
        LabelDPPro,
        PateFM,
    ],
)
def test_an_eps_beyond_the_reach_of_the_noise_does_not_hold(kind, monkeypatch):
    """If this fails, noise of too few random bits passes: at eps=80 alibi was said to be tight."""
    for module in (groups, laplace, moments, pate):
        monkeypatch.setattr(module, "check_reach", lambda *_: None)
    most = getattr(kind(1.0), "most_eps", None) or most_eps_at(1e-5)
    assert sampling.audit(kind(0.999 * most), 3, draws=0).formula_holds
    found = sampling.audit(kind(min(1.2 * most, 695.0)), 3, draws=0)
    assert found.exact == math.inf and "DOES NOT HOLD" in found.lines()[-1]


def test_alibi_at_eps_80_is_refused_and_does_not_hold(monkeypatch, capsys):
    assert labeldp(["audit", "alibi", "--eps=80", "--draws=20000"]) == 2
    assert "at most 30" in capsys.readouterr().err
    monkeypatch.setattr(laplace, "check_reach", lambda *_: None)
    assert labeldp(["audit", "alibi", "--eps=80", "--draws=20000"]) == 1
    printed = capsys.readouterr().out
    assert "exclude a label" in printed and "the claim DOES NOT HOLD" in printed


def test_same_seed_same_bound():
    """If this fails, an audit cannot be repeated."""
    mechanism = Rappor(eps=1.0)
    first, second, third = (sampled_epsilon(mechanism, 5, 20_000, seed) for seed in (0, 0, 1))
    assert first == second != third


@pytest.mark.parametrize(
    ("arguments", "lines", "status"),
    [
        (
            ["mechanism=rappor", "eps=1", "num_classes=10"],
            [
                "claimed    eps = 1",
                "found      eps = 1 exactly",
                "the claim holds, and is tight, by the formula; no fault found by draws",
            ],
            0,
        ),
        (
            ["mechanism=subset_selection", "eps=2", "num_classes=100", "mechanism.size=3"],
            ["size=3", "claimed    eps = 2", "the claim holds"],
            0,
        ),
        (
            ["mechanism=none", "eps=1", "num_classes=10"],
            ["claimed    nothing", "found      eps = inf", "verdict    no claim"],
            0,
        ),
        (["mechanism=rr", "eps=inf", "num_classes=10"], ["verdict    no claim"], 0),
        (["mechanism=lp_1st", "eps=0.5", "num_classes=3"], ["verdict    the claim holds"], 0),
    ],
)
def test_script_prints_claimed_found_verdict(script, capsys, arguments, lines, status):
    """If this fails, the audit command does not say what the contract promises."""
    assert script.main([*arguments, "draws=20000"]) == status
    printed = capsys.readouterr().out
    for line in lines:
        assert line in printed


def test_script_exits_1_when_the_claim_does_not_hold(script, capsys, monkeypatch):
    """If this fails, a leak passes a pipeline."""
    monkeypatch.setattr(script, "build", lambda *_: CarelessRappor(eps=1.0))
    assert script.main(["mechanism=rappor", "num_classes=5", "draws=20000"]) == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "mechanism must be given, such as mechanism=rappor"),
        (["mechanism=rapor"], "(did you mean rappor?)"),
        (["mechanism=rr", "eps=0"], "eps must be a number > 0, got 0"),
        (["mechanism=rr", "eps=text"], "eps must be a number > 0, got 'text'"),
        (["mechanism=rr", "num_classes=1"], "num_classes must be in [2, 10000], got 1"),
        (["mechanism=rr", "num_classes=abc"], "num_classes must be an integer"),
        (["mechanism=rr", "draws=0"], "draws must be >= 40, got 0"),
        (["mechanism=rr", "num_clases=3"], "(did you mean num_classes?)"),
        (["mechanism=rr", "mechanism.size=3"], "unexpected keyword argument 'size'"),
        (["mechanism=subset_selection", "mechanism.size=10"], "size must be in [1, 9], got 10"),
        (["mechanism=optimal", "num_classes=20"], "optimal needs num_classes <= 10, got 20"),
        (["mechanism=rr", "prior=[0.5,0.6]", "num_classes=2"], "prior rows must sum to 1"),
        (["mechanism=rr", "prior=text"], "prior must be a list of numbers, got 'text'"),
        (["mechanism"], "cannot read 'mechanism' (write key=value; --help shows which)"),
        (["mechanism=rr", "eps=[1"], "eps must be a number > 0, got '[1'"),
        (["mechanism=rr", "prior=[1"], "prior cannot be read"),
        (["mechanism=rr", "dataset=mnist"], "dataset has no effect here"),
    ],
)
def test_bad_input_is_one_clear_line(script, capsys, arguments, message):
    """If this fails, a typo is a traceback, or an audit of something else."""
    assert script.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and message in captured.err
    assert captured.err.count("\n") == 1


def test_prior_must_be_global():
    """If this fails, a prior per example is enumerated as if it were one."""
    with pytest.raises(InputError, match="prior must be global here"):
        exact_epsilon(OptimalMechanism(eps=1.0), 4, PRIOR.repeat(2, 1))


def test_an_audit_says_what_it_does_before_and_how_far_it_is(script, monkeypatch, capsys):
    # Votes on 100,000 queries take half a minute, which looked as if the program hung.
    seen = []

    class Bar(ProgressLines):
        def update(self, count: int = 1) -> None:
            seen.append((count, self._total, self._label, capsys.readouterr().out))

    monkeypatch.setattr(sampling, "progress_bar", Bar)
    assert script.main(["mechanism=pate_fm", "mechanism.queries=100", "draws=4000"]) == 0
    assert sum(count for count, *_ in seen) == seen[0][1]
    assert seen[0][2] == "draws of teacher votes"
    assert seen[0][3].startswith("mechanism  pate_fm (PateFM(eps=1.0")
    assert "verdict    the claim holds" in capsys.readouterr().out


def test_the_library_alone_has_the_same_audit(capsys):
    assert labeldp(["audit", "rappor", "--eps=1", "--classes=3", "--draws=20000"]) == 0
    assert "the claim holds, and is tight" in capsys.readouterr().out
    assert labeldp(["audit", "rapor", "--eps=1"]) == labeldp(["audit", "rr", "--eps=0"]) == 2
    assert "did you mean rappor" in capsys.readouterr().err
