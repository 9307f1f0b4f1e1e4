"""The theory's rates, slopes and table against values worked out by hand."""

import math
import re
from dataclasses import replace

import pytest

from labeldp_bench.learners.averages import Problem, clip, exponents, lower_bound, side
from papers.reproduce import load_table
from papers.theoretical_limits.figures import draw_exponents
from papers.theoretical_limits.table1 import ExponentTable, fit_slope, is_theory


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


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        (problem("local", "classification", num_examples=1e6, eps=0.1), 1e4 ** (-2 / 3)),
        (problem("local", num_examples=1e6, eps=7.0), 1e6 ** (-2 / 3)),  # no better than eps=1
        (problem("central", num_examples=1e6, eps=1e-3), 1e6 ** (-2 / 3) + 1e-3),
        (problem("central", num_examples=1e6, eps=10.0), 1e6 ** (-2 / 3) + 1e-7),
        (problem("local", moment=2.0, num_examples=1e6, eps=1.0), 1e6 ** (-2 / 5)),
        (problem("none", "classification", num_examples=1e6, gamma=2.0, beta=0.5), 1e6 ** (-3 / 4)),
    ],
)
def test_lower_bounds(case, bound):
    # Golden values by hand: all terms of a theorem count, and local eps beyond 1 is worth 1.
    assert lower_bound(case) == pytest.approx(bound)


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


def test_slope_and_its_interval():
    # The table would print another exponent than the points have, or a wrong interval.
    x = [2.0**j for j in range(5)]
    risks = [[3 * value**-0.7, 5.0] for value in x]  # the second tuning never wins
    exact = fit_slope(x, risks, [[0.0, 0.0]] * 5)
    assert exact.measured == pytest.approx(-0.7) and exact.low == pytest.approx(exact.high)
    noisy = fit_slope(x, risks, [[0.05 * risk[0], 0.0] for risk in risks])
    spread = 0.05 / math.sqrt(sum((j - 2) ** 2 for j in range(5))) / math.log(2)
    assert noisy.high - noisy.low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_table_of_exponents_from_made_up_records():
    # A slope would stand beside another cell's exponent, or agree without a reason.
    whole = load_table("theoretical_limits/table1").experiment
    others = [
        block for block in whole.blocks
        if {"student", "smooth"} & {*map(str, block["set"].values())}
    ] + [
        block for block in whole.blocks if "dataset.target_seed" in block.get("grid", {})
        and block["set"]["mechanism"] == "exponential_cubes"
    ]  # fmt: skip
    table = ExponentTable(experiment=replace(whole, blocks=whole.blocks[6:18] + others))
    records = {}
    for series in table.series:
        for x, cell in series.cells:
            off = 0.3 if "full_exponential_cubes, cubes" in series.name else 0.0
            off += 0.1 * series.target_seed
            risk = x ** (0.0 if series.kind == "K" else series.predicted() + off)
            risk *= 1.0 if is_theory(cell) else 1.5
            bias = risk * (0.5 if series.is_rough else 0.01)
            records[cell.config_hash] = {
                "excess_risk": risk, "excess_risk_sem": risk / 100, "bias": bias,
                "variance": risk - bias, "distribution": 1,
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
    pooled = rows[rows.functions.notna()].iloc[0]  # slopes -2/3 + 0, .1, .2, .3, .4
    assert (pooled.functions, round(pooled.over_functions, 4)) == (5, -0.4667)
    assert round(pooled.over_functions_half_width, 4) == round(2.7764 * 0.5**0.5 / 10, 4)
    assert rows.functions.notna().sum() == 1 and "± 0.196 (5)" in table.markdown(rows)
    assert "-0.667" in table.markdown(rows)
    local = judged[(judged.theorem == "5") & (judged.tuning == "theory")]
    assert len(local) and (local.bound_slope - local.predicted).abs().max() < 1e-9
    first = local[local.against == "N at eps=2"].iloc[0]  # its made-up risks are the rate itself
    assert first.least_risk_over_bound == pytest.approx(1) == first.most_risk_over_bound
    bent = judged[(judged.theorem == "3") & judged.against.str.startswith("eps")]
    assert (bent.bound_slope > bent.predicted + 0.1).all()  # the first term is not small there
    empty = table.rows({})
    assert empty.measured.isna().all() and "0 of" in table.markdown(empty)
    drawn = draw_exponents(table, records)
    tuned = judged[judged.tuning == "theory"]
    counts = [(tuned.agrees == "yes").sum(), (tuned.why == "in the interval").sum()]
    assert list(map(int, re.findall(r"(\d+) of", drawn.get_suptitle()))) == counts
    assert draw_exponents(table, {}) is None
