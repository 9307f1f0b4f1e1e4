"""The numbers that docs/findings.md quotes come out of the script that it names."""

import importlib.util

import pytest
import torch

from tests.conftest import CHECKOUT


@pytest.fixture(scope="module")
def findings():
    spec = importlib.util.spec_from_file_location("findings", CHECKOUT / "scripts" / "findings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rule_for_k_as_quoted(findings):
    # The page would quote numbers of another rule.
    rows = findings.rule_for_k().set_index("eps")
    other = rows["priors with another k, %"]
    assert other.round().tolist() == [46, 42, 17, 6, 2]
    less = rows["labels kept less, points"]
    assert less.round(2).tolist() == [1.93, 1.24, 0.07, 0.0, 0.0]
    assert (less >= 0).all()  # the paper's rule keeps the most labels
    assert rows.released.tolist() == [1, 10, 10, 10, 10]


def test_the_public_variant_is_a_channel_without_a_guarantee(findings):
    # The verdict would be on something that is no randomiser at all.
    rows = findings.public_multi_stage()
    assert rows["as published"].tolist() == pytest.approx([1, 2, 4], abs=1e-9)
    assert (rows["others from all classes"] == float("inf")).all()
    prior = torch.tensor([0.4, 0.3, 0.2, 0.05, 0.05], dtype=torch.float64)
    mechanism = findings.OthersFromAllClasses(1.0)
    k = int(mechanism.top_k(prior[None]))
    assert 1 < k < 5
    matrix = mechanism.log_likelihood(torch.arange(5), 5, prior).exp().T
    assert torch.allclose(matrix.sum(1), torch.ones(5, dtype=torch.float64), atol=1e-6)
    assert matrix[k:, k:].abs().max() == 0 < matrix[0, k:].min()


def test_class_averages_as_quoted(findings):
    rows = findings.class_averages().set_index(["dataset", "eps"])["blockrr - rr"].round(2)
    assert rows["cifar10_1", 1.0] == -2.71 and rows["cifar10_2", 2.0] == -7.87
    ahead = rows[(rows > 0) & (rows.index.get_level_values("eps") <= 3)]
    assert ahead.to_dict() == {("cifar10_2", 0.6): 0.39, ("cifar10_2", 0.8): 0.16}
