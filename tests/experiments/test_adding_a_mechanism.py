"""The page that shows how to add a mechanism: its example is a mechanism."""

import re
import sys
import types

import hydra
import pytest
import torch
from omegaconf import OmegaConf

from labeldp_bench.privacy.audits.mechanism import exact_epsilon
from labeldp_bench.supervision.losses import loss_named
from tests.conftest import CHECKOUT

PAGE = CHECKOUT / "docs" / "adding-a-mechanism.md"


@pytest.mark.parametrize("eps", [0.3, 4.0])
@pytest.mark.parametrize("num_classes", [2, 10])
def test_example_of_the_page_is_proved_at_its_eps(monkeypatch, num_classes, eps):
    # Who follows the page would end with an import error, or with a mechanism that leaks.
    blocks = dict(re.findall(r"```(python|yaml)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL))
    config = OmegaConf.merge({"eps": eps}, OmegaConf.create(blocks["yaml"]))
    name = config.mechanism._target_.rpartition(".")[0]
    assert f"`{name.replace('.', '/')}.py`" in PAGE.read_text()
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(blocks["python"], vars(module))
    mechanism = hydra.utils.instantiate(config.mechanism)
    assert exact_epsilon(mechanism, num_classes) == pytest.approx(eps, abs=1e-9)
    loss_named(config.learner.loss)
    labels = torch.arange(num_classes)
    released = type(mechanism)(float("inf")).release(labels, num_classes, torch.Generator())
    assert torch.equal(released, labels)
