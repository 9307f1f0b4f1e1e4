"""Schedules: golden points of the papers that use them."""

import pytest

from labeldp_bench.training.schedules import AlibiSteps, EpochSteps, WarmupLinear, WarmupSteps

ALL = [
    WarmupSteps(),
    WarmupSteps(decay_anchor="post_warmup"),
    WarmupLinear(),
    EpochSteps(epochs=20),
    AlibiSteps(),
]
STEPS = 10_000


# {percent of all steps: factor}
GHAZI_TEXT = {0: 0, 7.5: 0.5, 14.99: 0.9993333, 15: 1, 29.99: 1, 30: 0.1, 59.99: 0.1, 60: 0.01}
GHAZI_TEXT |= {89.99: 0.01, 90: 0.001, 99.99: 0.001}
GHAZI_CODE = {0: 0, 7.5: 0.5, 15: 1, 44.99: 1, 45: 0.1, 74.99: 0.1, 75: 0.01, 90: 0.01, 99.99: 0.01}
GHAZI_DIGITS = {0: 0, 7.5: 0.5, 15: 1, 57.5: 0.5, 99.99: 1 / 8500}


@pytest.mark.parametrize(
    ("schedule", "golden"),
    [
        (WarmupSteps(decay_anchor="total"), GHAZI_TEXT),
        (WarmupSteps(decay_anchor="post_warmup"), GHAZI_CODE),
        (WarmupLinear(), GHAZI_DIGITS),
        (WarmupSteps(warmup=0), {0: 1}),
        (WarmupLinear(warmup=0), {0: 1}),
        (AlibiSteps(warmup_epochs=0), {0: 1}),
    ],
)
def test_factors_are_those_of_the_source(schedule, golden):
    factors = [schedule(int(percent * STEPS) // 100, STEPS) for percent in golden]
    assert factors == pytest.approx(list(golden.values()), abs=1e-6)


def test_alibi_epochs():
    """1.4: lr 0.1 as (e+1)/30, then 0.1, 0.02, 0.004, 0.0008, constant inside an epoch."""
    per_epoch = 390
    schedule = AlibiSteps()
    rates = [0.1 * schedule(step, 200 * per_epoch) for step in range(200 * per_epoch)]
    by_epoch = [set(rates[e * per_epoch : (e + 1) * per_epoch]) for e in range(200)]
    assert all(len(epoch) == 1 for epoch in by_epoch)
    golden = {0: 0.1 / 30, 1: 0.2 / 30, 28: 2.9 / 30, 29: 0.1, 59: 0.1, 60: 0.02, 119: 0.02}
    golden |= {120: 0.004, 179: 0.004, 180: 0.0008, 199: 0.0008}
    assert [by_epoch[e].pop() for e in golden] == pytest.approx(list(golden.values()))


@pytest.mark.parametrize(("epochs", "ramp"), [(160, 24), (110, 16)])
def test_blockrr_epochs(epochs, ramp):
    """1.7: (e+1)/W for e < W = int(.15 E), then 1, .1, .01, .001 by (e+1)/E < .3, .6, .9."""
    per_epoch = 66
    schedule = EpochSteps(epochs=epochs)
    for epoch in range(epochs):
        share = (epoch + 1) / epochs
        expected = 1.0 if share < 0.3 else 0.1 if share < 0.6 else 0.01 if share < 0.9 else 0.001
        if epoch < ramp:
            expected = (epoch + 1) / ramp
        for step in (epoch * per_epoch, (epoch + 1) * per_epoch - 1):
            assert schedule(step, epochs * per_epoch) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_factor_is_a_fraction_that_depends_on_the_share_of_the_steps(schedule):
    for total in (1, 2, 7, 20, 1000):
        factors = [schedule(step, total) for step in range(total)]
        assert all(isinstance(factor, float) and 0 <= factor <= 1 for factor in factors)
        assert total < 20 or max(factors) == 1
        assert [schedule(10 * s, 10 * total) for s in range(total)] == pytest.approx(factors)
