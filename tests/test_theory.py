"""The theory's data, estimators, mechanisms and rates against independent computations."""

import json
import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import kstest

from labeldp_bench import seeding
from labeldp_bench.audit_groups import group_epsilon
from labeldp_bench.data import HolderClassification, HolderRegression
from labeldp_bench.data.rough import rough_function
from labeldp_bench.ledger import BudgetError
from labeldp_bench.mechanisms import (
    ClippedCubeMeans,
    ClippedLaplace,
    CubeMeans,
    ExponentialCubes,
    FullClippedCubeMeans,
    FullCubeMeans,
    FullExponentialCubes,
    Laplace,
    LocalFull,
    NoPrivacy,
    Rappor,
)
from labeldp_bench.mechanisms.real import exact_real_epsilon
from labeldp_bench.models import Cubes
from labeldp_bench.models.neighbour_means import first_of_window
from labeldp_bench.risk import RiskTally
from labeldp_bench.tables import load_table
from labeldp_bench.tables.exponents import ExponentTable
from labeldp_bench.theory.pictures import write_pictures
from labeldp_bench.theory.rates import Problem, along, clip, exponents, side
from labeldp_bench.theory.series import is_theory
from labeldp_bench.theory.slopes import fit_slope
from labeldp_bench.validate import InputError
from labeldp_bench.vault import LabelVault
from tests.shell import quick, records_under

CLASSES = dict(dimension=1, beta=0.5, target="weierstrass", n_train=4000, trials=1)


def classification(**changes):
    return HolderClassification(**(CLASSES | dict(num_classes=2, gamma=1.0) | changes))


def regression(**changes):
    return HolderRegression(**(CLASSES | dict(noise="uniform") | changes))


@pytest.mark.parametrize("target", ["weierstrass", "bumps"])
@pytest.mark.parametrize("smoothness", [0.5, 0.8])
def test_rough_targets_are_as_rough_as_they_say(target, smoothness):
    # Slopes would be compared with the exponent of another smoothness.
    function = rough_function(target, smoothness, 0)
    steps = [2**j for j in range(1, 8)]
    moves = [float((function[step:] - function[:-step]).square().mean().sqrt()) for step in steps]
    x, y = torch.tensor(steps).double().log(), torch.tensor(moves).log()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    assert slope == pytest.approx(smoothness, abs=0.08)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_margin_has_the_stated_exponent(gamma):
    # The exponents of table I contain gamma.
    law = classification(gamma=gamma, beta=0.5).probabilities(classification().test_points)
    margin = (law[:, 0] - law[:, 1]).abs()
    mass = [float((margin <= t).double().mean()) for t in (0.05, 0.2)]
    assert math.log(mass[1] / mass[0]) / math.log(4) == pytest.approx(gamma, rel=0.25)


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_labels_follow_the_stated_law(num_classes):
    # The excess risk would be that of another problem.
    data = classification(num_classes=num_classes, n_train=200_000)
    bundle = data.draw(None, seed=1)
    law = data.probabilities(bundle.train_features)
    assert (law.sum(1) - 1).abs().max() < 1e-12
    counts = bundle.vault.open(math.inf, 0).release_groups(
        NoPrivacy(), torch.zeros(200_000, dtype=torch.int64), 1
    )
    assert torch.allclose(counts[0] / 200_000, law.mean(0), atol=0.005)
    assert kstest(bundle.train_features.flatten(), "uniform").pvalue > 1e-3


def test_noises_have_mean_zero_and_the_stated_tail():
    # A shifted mean would look like a bias of clipping.
    for noise in ("uniform", "pareto", "student"):
        draws = regression(noise=noise, n_train=400_000, moment=3.0)._noise(
            seeding.generator(0, "test")
        )
        assert abs(float(draws.mean())) < 0.01, noise
    index = 3.05
    pareto = regression(noise="pareto", n_train=400_000, moment=3.0)._noise(
        seeding.generator(0, "test")
    )
    assert kstest(pareto / 0.5 + index / (index - 1), "pareto", (index,)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 3.0}, "dataset.gamma * dataset.beta must be <= dataset.dimension = 1, got 1.5"),
        ({"beta": 0.0}, "dataset.beta must be a number > 0 and <= 1, got 0.0"),
        ({"dimension": 3}, "dataset.dimension must be in [1, 2], got 3"),
        ({"target": "rough"}, "dataset.target must be one of weierstrass, bumps, smooth"),
    ],
)
def test_impossible_laws_are_one_line(changes, message):
    # A law that does not exist would be measured against its rate.
    with pytest.raises(InputError) as error:
        classification(**changes)
    assert str(error.value).startswith(message)


LOCAL = [Laplace(0.7), ClippedLaplace(0.7, clip=2.5)]
GROUPS = [
    ExponentialCubes(0.7), FullExponentialCubes(0.7), FullExponentialCubes(0.7, constant="tight"),
    CubeMeans(0.7), ClippedCubeMeans(0.7, clip=3.0), FullCubeMeans(0.7),
    FullClippedCubeMeans(0.7, clip=3.0), LocalFull(0.7),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", LOCAL)
def test_local_mechanisms_reach_their_eps(mechanism):
    # They would leak more than they claim, or waste budget.
    assert exact_real_epsilon(mechanism) == pytest.approx(0.7, abs=1e-9)
    grid = torch.linspace(-9, 9, 400, dtype=torch.float64)
    values = torch.linspace(-1, 1, 21, dtype=torch.float64)
    densities = mechanism.log_density(grid, values, 1.0)
    # The breakpoints are no arbitrary choice: nothing between them is worse.
    assert float((densities.amax(1) - densities.amin(1)).max()) <= 0.7 + 1e-9
    mass = torch.trapezoid(
        mechanism.log_density(torch.linspace(-99, 99, 200_001).double(), values[:1], 1.0).exp(),
        dx=198 / 200_000, dim=0,
    )  # fmt: skip
    assert float(mass) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("mechanism", GROUPS, ids=repr)
def test_group_mechanisms_hold_their_eps(mechanism):
    # The same for those that answer about cubes.
    found = group_epsilon(mechanism)
    assert found <= 0.7 + 1e-9
    is_paper = getattr(mechanism, "constant", "tight") == "paper"
    assert found > (0.3 if is_paper else 0.6)


def test_weight_eps_over_four_is_half_of_the_budget():
    # docs/theory.md says that equation 33 wastes half; and twice the tight weight must be caught.
    assert group_epsilon(FullExponentialCubes(1.0)) <= 0.5
    assert group_epsilon(FullExponentialCubes(2.0, constant="tight")) > 1.9


def test_exponential_mechanism_with_one_cube_and_two_classes():
    # P(1) = 1 / (1 + exp(eps (b - a) / 2)) for counts (a, b).
    counts = torch.tensor([[3, 7]])
    found = ExponentialCubes(0.8).log_probabilities(counts).exp()[0, 0]
    assert float(found) == pytest.approx(1 / (1 + math.exp(0.8 * 4 / 2)), abs=1e-12)
    labels = torch.cat([torch.zeros(3), torch.ones(7)]).long().repeat(20_000)
    groups = torch.arange(20_000).repeat_interleave(10)
    drawn = ExponentialCubes(0.8).release_groups(
        labels, 2, groups, 20_000, seeding.generator(0, "test")
    )
    assert float((drawn == 0).double().mean()) == pytest.approx(float(found), abs=0.01)


def test_local_full_has_the_stated_noise(monkeypatch):
    # Its audit believes the scales that the mechanism states.
    one, cubes = torch.tensor([0]), 5000
    found = LocalFull(0.5).release_groups(one, 2, one, cubes, seeding.generator(0, "test"))
    assert kstest(found[1:].flatten().numpy(), "laplace", (0, 2 / 0.5)).pvalue > 1e-3
    assert group_epsilon(LocalFull(0.7, clip=3.0)) == pytest.approx(0.7)
    monkeypatch.setattr(LocalFull, "value_scale", lambda self, clip: 2 * clip / self.eps)
    assert group_epsilon(LocalFull(0.7)) == pytest.approx(1.5 * 0.7)  # the audit can say no
    seen = []
    monkeypatch.setattr(
        "labeldp_bench.mechanisms.local_full.laplace_sums",
        lambda counts, scale, stream: seen.append(scale) or torch.zeros(counts.shape),
    )
    values = torch.tensor([0.25], dtype=torch.float64)
    LocalFull(0.5, clip=3.0).release_groups(values, math.inf, one, 4, seeding.generator(0, "t"))
    assert seen == [2 * 3.0 / 0.5, 4 / 0.5]  # noise has the scales that are audited


def test_cube_means_have_the_stated_noise():
    # The second term of the central rate is this noise.
    values = torch.full((40_000,), 0.3, dtype=torch.float64)
    groups = torch.arange(10_000).repeat_interleave(4)
    means = CubeMeans(0.5).release_groups(values, 1.0, groups, 10_000, seeding.generator(0, "test"))
    assert kstest((means - 0.3).numpy(), "laplace", (0, 2 / (4 * 0.5))).pvalue > 1e-3


def test_vault_charges_every_label_of_a_group_release_once():
    # Central answers would be free, or could be asked for again with other cubes.
    vault = LabelVault(torch.zeros(50, dtype=torch.int64), 2).open(1.0, seed=0)
    groups = torch.arange(50) % 5
    vault.release_groups(ExponentialCubes(1.0), groups, 5)
    assert (vault.eps_spent, vault.trust, vault.ledger[0].num_labels) == (1.0, "central", 50)
    with pytest.raises(BudgetError):
        vault.release_groups(Rappor(1.0), groups, 5)
    real = LabelVault(torch.zeros(50, dtype=torch.float64), 0, bound=1.0).open(1.0, seed=0)
    with pytest.raises(InputError, match="this data set has real labels"):
        real.release_groups(Rappor(1.0), groups, 5)
    with pytest.raises(InputError, match="only about groups"):
        real.release(CubeMeans(1.0))
    with pytest.raises(InputError, match="finite and in"):
        LabelVault(torch.full((3,), 2.0, dtype=torch.float64), 0, bound=1.0)


@pytest.mark.parametrize("k", [1, 7, 200])
def test_window_holds_the_k_nearest(k):
    # Neighbours would be others than the nearest.
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(200, generator=generator, dtype=torch.float64).sort().values
    queries = torch.rand(60, generator=generator, dtype=torch.float64) * 1.2 - 0.1
    first = first_of_window(points, queries, k)
    for query, start in zip(queries, first.tolist(), strict=True):
        nearest = (points - query).abs().argsort()[:k].sort().values
        assert nearest.tolist() == list(range(start, start + k))


def test_cubes_in_two_dimensions():
    # Points would vote in another cube.
    model = Cubes(cells=4)
    points = torch.tensor([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [2.0, -1.0]], dtype=torch.float64)
    assert model.locate(points).tolist() == [0, 3, 12, 12]


def test_bias_and_variance_of_a_known_estimator():
    # "agrees" depends on both.
    class Noisy:
        def __init__(self, seed):
            generator = torch.Generator().manual_seed(seed)
            self.noise = torch.randn(500, generator=generator, dtype=torch.float64)

        def values(self, points):
            return 0.5 + 0.2 * self.noise

    tally = RiskTally(torch.zeros(500, dtype=torch.float64))
    for seed in range(50):
        tally.add(Noisy(seed), torch.zeros(500, 1), seed)
    summary = tally.summary()
    assert summary["bias"] == pytest.approx(0.25, abs=0.01)
    assert summary["variance"] == pytest.approx(0.04, abs=0.005)


def problem(trust, task="regression", moment=None, **changes):
    values = dict(num_examples=1e5, eps=0.5, dimension=1, beta=1.0, gamma=1.0, num_classes=2)
    return Problem(task=task, trust=trust, moment=moment, **(values | changes))


@pytest.mark.parametrize(
    ("case", "in_n", "in_eps"),
    [
        (problem("local", "classification"), -2 / 3, -4 / 3),
        (problem("local_full", "classification"), -1 / 2, -1),
        (problem("central", "classification"), -1, -1),
        (problem("local"), -2 / 3, -4 / 3),
        (problem("local", moment=2.0), -2 / 5, -4 / 5),
        (problem("local", moment=2.0, dimension=2), -1 / 3, -2 / 3),
        (problem("central", moment=2.0), -2 / 3, -2 / 3),
        (problem("local_full", moment=2.0), -1 / 3, -2 / 3),
        (problem("none", moment=2.0), -2 / 3, 0),
    ],
)
def test_exponents_of_table_one(case, in_n, in_eps):
    # Golden values worked out by hand (docs/theory.md).
    assert exponents(case) == pytest.approx((in_n, in_eps))


@pytest.mark.parametrize("trust", ["none", "local", "central", "local_full"])
@pytest.mark.parametrize("moment", [None, 2.0, 3.0])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_the_rule_balances_bias_and_noise(trust, moment, beta):
    # h and T of a theorem would not give its rate: h^(2 beta) must fall as the risk does.
    small = problem(trust, moment=moment, beta=beta, eps=1e-9 if trust == "central" else 0.5)
    large = problem(
        trust, moment=moment, beta=beta, num_examples=1e7, eps=1e-9 if trust == "central" else 0.5
    )
    power = 2 * beta * math.log(side(large) / side(small)) / math.log(100)
    assert power == pytest.approx(exponents(small)[0], rel=1e-3)
    if moment is not None and trust != "none":
        bias = (2 - 2 * moment) * math.log(clip(large, side(large)) / clip(small, side(small)))
        assert bias / math.log(100) == pytest.approx(exponents(small)[0], rel=1e-3)


def test_exponent_along_a_shrinking_budget():
    # eps = N^-0.6 keeps (eps N) = N^0.4.
    assert along(problem("central"), 0.6) == pytest.approx(-0.4)


def test_one_run_through_the_command_line(tmp_path):
    # A user would get no excess risk, or accuracies of a regression.
    options = ["dataset.n_train=3000", "dataset.trials=3", "learner.beta=0.5"]
    run = quick(
        ["dataset=holder_regression", "mechanism=cube_means", "eps=0.5", *options], tmp_path
    )
    assert run.returncode == 0 and any("excess risk" in line for line in run.lines)
    run = quick(
        ["-m", "dataset=holder_classification", "learner=local_averages", "dataset.num_classes=3",
         "mechanism=rappor,exponential_cubes,local_full", *options], tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    records = [json.loads(path.read_text()) for path in records_under(tmp_path)]
    assert {record["mechanism"]: record["trust"] for record in records} == {
        "cube_means": "central", "rappor": "local", "exponential_cubes": "central",
        "local_full": "local",
    }  # fmt: skip
    for record in records:
        assert record["accuracy"] is None and record["excess_risk"] > 0
        assert record["eps_spent"] == record["eps"] and record["released_agreement"] is None
    knn = quick(
        ["dataset=holder_regression", "mechanism=cube_means", "model=knn", *options], tmp_path
    )
    assert knn.returncode == 1 and "use model=cubes" in knn.stdout + knn.stderr


def test_slope_and_its_interval():
    # The table would print another exponent than the points have, or a wrong interval.
    x = [2.0**j for j in range(5)]
    risks = [[3 * value**-0.7, 5.0] for value in x]  # the second tuning never wins
    exact = fit_slope(x, risks, [[0.0, 0.0]] * 5)
    assert exact.value == pytest.approx(-0.7) and exact.low == pytest.approx(exact.high)
    noisy = fit_slope(x, risks, [[0.05 * risk[0], 0.0] for risk in risks])
    spread = 0.05 / math.sqrt(sum((j - 2) ** 2 for j in range(5))) / math.log(2)
    assert noisy.high - noisy.low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_table_of_exponents_from_made_up_records(tmp_path):
    # A slope would stand beside another cell's exponent, or agree without a reason.
    whole = load_table("theoretical_limits/table1").experiment
    table = ExponentTable(experiment=replace(whole, blocks=whole.blocks[7:18] + whole.blocks[-2:]))
    records = {}
    for series in table.series:
        for x, cell in series.cells:
            off = 0.3 if "full_exponential_cubes, cubes" in series.name else 0.0
            risk = x ** (0.0 if series.kind == "K" else series.predicted() + off)
            risk *= 1.0 if is_theory(cell) else 1.5
            bias = risk * (0.5 if series.is_rough else 0.01)
            records[cell.config_hash] = {
                "excess_risk": risk, "excess_risk_sem": risk / 100, "bias": bias,
                "variance": risk - bias,
            }  # fmt: skip
    rows = table.rows(records)
    contrasts = rows[rows.cell.str.contains("smooth target|symmetric tails")]
    assert contrasts.tuning.tolist() == ["theory"] * 2  # they have no grid
    assert contrasts.why.str.contains("contrast|one of bias and variance is small").all()
    judged = rows[rows.predicted.notna()].drop(contrasts.index)
    wrong = judged[judged.agrees != "yes"]
    assert set(wrong.cell) == {"classification | central, all | full_exponential_cubes, cubes"}
    assert set(wrong.against) == {"eps at N=524,288"}
    assert wrong.why.str.contains("flatter than predicted by 0.30").all()
    assert rows.cell.str.contains("full_exponential_cubes (tight)", regex=False).sum() == 2
    assert (judged[judged.tuning == "theory"].least_bias_share == 0.5).all()
    assert "-0.667" in table.markdown(rows) and "toprule" in table.latex(rows)
    empty = table.rows({})
    assert empty.measured.isna().all() and "0 of" in table.markdown(empty)
    paths = write_pictures(table, records, tmp_path)
    assert len(paths) == 4 and all(path.is_file() for path in paths)
    assert write_pictures(table, {}, tmp_path) == [] and not any(p.is_file() for p in paths)
