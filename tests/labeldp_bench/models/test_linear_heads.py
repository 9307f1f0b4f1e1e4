"""Least squares on frozen features."""

from functools import partial

import pytest
import torch
from torch import nn

from labeldp_bench.interfaces import Session
from labeldp_bench.models import linear_heads as module
from labeldp_bench.models.convolutional import LinearClassifier
from labeldp_bench.models.encoders import Encoder, FeatureConcat
from labeldp_bench.models.linear_heads import Ridge, ridge, spectrum_of
from labeldp_bench.training.fit import NetworkClassifier


def problem(count=300, width=20, noise=1.0):
    """Features, and votes that follow from them but for noise."""
    draws = torch.Generator().manual_seed(0)
    features = torch.randn((count, width), generator=draws) + 3
    weights = torch.randn((width, 4), generator=draws) / width**0.5
    votes = features @ weights + noise * torch.randn((count, 4), generator=draws)
    return features, votes


def direct(features, votes, penalty):
    """Returns fitted votes, hat matrix and weights, by the textbook."""
    count = len(features)
    centred = (features - features.mean(0)).double()
    inverse = torch.linalg.inv(
        centred.T @ centred / count + penalty * torch.eye(features.shape[1]).double()
    )
    hat = centred @ inverse @ centred.T / count + 1 / count
    weights = inverse @ centred.T @ (votes - votes.mean(0)).double() / count
    return hat @ votes.double(), hat, weights


def test_fit_and_penalty_equal_the_textbook():
    # The mean would be penalised, or the error of the fit's own examples would choose.
    features, votes = problem()
    penalties = (0.01, 0.1, 1.0, 10.0)

    def error(penalty):
        fitted, hat, _ = direct(features, votes, penalty)
        return float((votes - fitted).square().mean() / (1 - hat.trace() / len(votes)) ** 2)

    indices = torch.arange(len(features))
    best, weights, bias = ridge(spectrum_of(features, indices), votes, penalties)
    assert best == min(penalties, key=error)
    fitted, _, expected = direct(features, votes, best)
    assert torch.allclose(weights.double(), expected, atol=1e-4)
    assert torch.allclose((features @ weights + bias).double(), fitted, atol=1e-4)


def test_only_the_released_examples_are_fitted():
    features, votes = problem()
    some = torch.randperm(300, generator=torch.Generator().manual_seed(1))[:100]
    _, weights, bias = ridge(spectrum_of(features, some), votes[some], [0.1])
    alone = spectrum_of(features[some], torch.arange(100))
    _, expected, of_alone = ridge(alone, votes[some], [0.1])
    assert torch.allclose(weights, expected, atol=1e-5)
    assert torch.allclose(bias, of_alone, atol=1e-4)


def test_networks_side_by_side_have_the_same_say():
    # Eight thousand patches would drown the 128 features of a network.
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (50, 8, 8, 1), generator=draws, dtype=torch.uint8)

    class Few(nn.Module):
        def __init__(self, num_classes, image_shape, features):
            super().__init__()
            self.features = features
            self.head = nn.Linear(features, num_classes)

        def forward(self, batch):
            return self.head(batch.flatten(1)[:, : self.features] ** 3)

    both = FeatureConcat(2, (8, 8, 1), [partial(Few, features=30), partial(Few, features=2)])
    assert both(torch.randn(5, 1, 8, 8)).shape == (5, 2) and both.widths == [30, 2]
    both.head = nn.Identity()
    network = NetworkClassifier(both, torch.zeros(1), torch.full((1,), 255.0), "float32")
    encoder, encoded = Encoder.fitted_to(network, images)
    variance = encoded.var(0)
    assert float(variance[:30].sum()) == pytest.approx(float(variance[30:].sum()), rel=1e-3)
    assert float(variance.mean()) == pytest.approx(1, rel=1e-3)
    assert torch.equal(encoder(images), encoded)


def test_directions_are_found_once_and_said_where_they_take_long(monkeypatch):
    # Thousands of features would be silent for minutes, at every eps again, or keep old directions.
    monkeypatch.setattr(module, "EXACT_UP_TO", 10)
    said = []
    model = Ridge(LinearClassifier, initial={})
    for seed in (0, 0, 1):
        rows = torch.randn((50, 12), generator=torch.Generator().manual_seed(seed))
        monkeypatch.setattr(Ridge, "encoded", lambda *_, rows=rows: (None, rows))
        linear = model.linear(rows, Session(0, torch.device("cpu"), say=said.append))
        rows = linear.rows.double()
        moments = rows.T @ torch.eye(50)[:, :3].double()
        fit = torch.linalg.lstsq(rows, torch.eye(50)[:, :3].double()).solution
        assert torch.allclose(linear.fitted(moments, 1e-9).weights.double(), fit, atol=1e-4)
    assert said == ["  the directions of 12 features, once"] * 2
