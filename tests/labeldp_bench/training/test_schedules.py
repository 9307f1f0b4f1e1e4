"""Schedules: the golden points of peers.md 1.3, 1.4, 1.7 and T4."""

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.training.schedules import AlibiSteps, EpochSteps, WarmupLinear, WarmupSteps

ALL = [
    WarmupSteps(),
    WarmupSteps(decay_anchor="post_warmup"),
    WarmupLinear(),
    EpochSteps(epochs=20),
    AlibiSteps(),
]
STEPS = 10_000


def points(schedule, percents):
    return [schedule(int(percent * STEPS) // 100, STEPS) for percent in percents]


def test_text_of_ghazi_decays_at_30_60_90():
    """G21 and BlockRR: fractions of all training."""
    schedule = WarmupSteps(decay_anchor="total")
    golden = {0: 0, 7.5: 0.5, 14.99: 0.9993333, 15: 1, 29.99: 1, 30: 0.1, 59.99: 0.1, 60: 0.01,
              89.99: 0.01, 90: 0.001, 99.99: 0.001}  # fmt: skip
    assert points(schedule, golden) == pytest.approx(list(golden.values()), abs=1e-6)


def test_code_of_ghazi_decays_at_45_75_and_never():
    """T4: 0.4 x (1, .1, .01) over 15-45, 45-75 and 75-100 %; the third decay would be at 105 %."""
    schedule = WarmupSteps(decay_anchor="post_warmup")
    golden = {0: 0, 7.5: 0.5, 15: 1, 30: 1, 44.99: 1, 45: 0.1, 74.99: 0.1, 75: 0.01, 90: 0.01,
              99.99: 0.01}  # fmt: skip
    assert points(schedule, golden) == pytest.approx(list(golden.values()), abs=1e-6)
    rates = {round(0.4 * schedule(step, STEPS), 9) for step in range(1500, STEPS)}
    assert rates == {0.4, 0.04, 0.004}


def test_digits_of_ghazi_fall_linearly():
    """1.3: 0 to the peak in the first 15 %, then to 0."""
    golden = {0: 0, 7.5: 0.5, 15: 1, 57.5: 0.5, 99.99: 1 / 8500}
    assert points(WarmupLinear(), golden) == pytest.approx(list(golden.values()))


def test_alibi_epochs():
    """1.4: lr 0.1 as (e+1)/30, then 0.1, 0.02, 0.004, 0.0008, constant inside an epoch."""
    per_epoch = 390
    schedule = AlibiSteps()
    rates = [0.1 * schedule(step, 200 * per_epoch) for step in range(200 * per_epoch)]
    by_epoch = [set(rates[e * per_epoch : (e + 1) * per_epoch]) for e in range(200)]
    assert all(len(epoch) == 1 for epoch in by_epoch)
    golden = {0: 0.1 / 30, 1: 0.2 / 30, 28: 2.9 / 30, 29: 0.1, 30: 0.1, 59: 0.1, 60: 0.02,
              119: 0.02, 120: 0.004, 179: 0.004, 180: 0.0008, 199: 0.0008}  # fmt: skip
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
@pytest.mark.parametrize("total", [1, 2, 7, 20, 1000])
def test_factor_is_a_fraction_at_any_length(schedule, total):
    factors = [schedule(step, total) for step in range(total)]
    assert all(isinstance(factor, float) and 0 <= factor <= 1 for factor in factors)
    assert total < 20 or max(factors) == 1


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_only_the_fraction_matters(schedule):
    """A run of a tenth of the steps passes through the same factors."""
    assert [schedule(10 * s, 4000) for s in range(400)] == pytest.approx(
        [schedule(s, 400) for s in range(400)]
    )


def test_no_ramp():
    assert WarmupSteps(warmup=0)(0, 100) == 1
    assert WarmupLinear(warmup=0)(0, 100) == 1
    assert AlibiSteps(warmup_epochs=0)(0, 200) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WarmupSteps(warmup=1.0), "warmup must be a number >= 0 and < 1, got 1.0"),
        (lambda: WarmupSteps(decay_at=(0.6, 0.3)), "decay_at must be ascending"),
        (lambda: WarmupSteps(decay_at=(30,)), "decay_at must be a number > 0 and <= 1, got 30"),
        (lambda: WarmupSteps(decay=2.0), "decay must be a number > 0 and <= 1, got 2.0"),
        (lambda: WarmupSteps(decay_anchor="totl"), "did you mean total"),
        (lambda: WarmupLinear(warmup=-0.1), "warmup must be .* >= 0 and < 1, got -0.1"),
        (lambda: EpochSteps(epochs=0), "epochs must be >= 1, got 0"),
        (lambda: AlibiSteps(warmup_epochs=201), r"warmup_epochs must be in \[0, 200\], got 201"),
        (lambda: AlibiSteps(decay_every=0), "decay_every must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("trainer.schedule.")
