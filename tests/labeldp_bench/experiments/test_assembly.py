"""Putting configs/ together without Hydra's own part, against `hydra.compose` itself."""

import hydra
import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from labeldp_bench.experiments.compose import assemble, use_configs

# tests/labeldp_bench/cli/test_wheel.py does the same for every single file.
TOGETHER = (
    ["dataset=cifar10", "mechanism=lp_2st", "stages=halves", "budget=quick"],
    ["mechanism=rr", "model=probe", "dataset=mnist", "pretrain=simclr"],
    ["dataset=mnist", "pretrain=simclr", "trainer=half_hour"],
    ["dataset=circle", "experiment=quickstart"],
    ["~budget"],
)
REFUSED = (
    ["mechanism=nobody"],
    ["nothing=rr"],
    ["trainer@nowhere=half_hour"],
    ["mechanism=rr,rappor"],
    ["trainer@pretrain.trainer=half_hour"],
    ["model=[cnn"],
)


def by_hydra(overrides):
    config = hydra.compose("config", overrides, return_hydra_config=True)
    plain = OmegaConf.to_container(config, resolve=False)
    del plain["hydra"]
    return plain, dict(config.hydra.runtime.choices)


@pytest.mark.parametrize("overrides", TOGETHER, ids=" ".join)
def test_choices_go_together_as_hydra_puts_them(overrides):
    # A cell of an experiment would be another than the same words on a command line.
    use_configs()
    expected, choices = by_hydra(overrides)
    for _ in range(2):
        config, chosen = assemble(overrides)
        plain = OmegaConf.to_container(config, resolve=False)
        assert plain == expected and list(plain) == list(expected)
        assert chosen.items() <= choices.items()
        config.dataset = config.model = None  # what one caller changes, the next does not see


@pytest.mark.parametrize("overrides", REFUSED, ids=" ".join)
def test_what_hydra_refuses_is_refused_in_its_words(overrides):
    # A wrong name in an experiment would pass, or would be told without the names that there are.
    use_configs()
    with pytest.raises(HydraException) as expected:
        by_hydra(overrides)
    with pytest.raises(type(expected.value)) as refused:
        assemble(overrides)
    assert str(refused.value) == str(expected.value)
