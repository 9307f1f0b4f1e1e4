"""Airbench's network: what its source says of each part."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from labeldp_bench.models import Airbench
from labeldp_bench.models.convolutional import cosines
from labeldp_bench.training.images import check_takes

SHAPE = (28, 28, 3)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Airbench(10, SHAPE, widths=(32, 16, 24)).train()


def images(count=64, side=28):
    generator = torch.Generator().manual_seed(1)
    rough = torch.randn(count, 3, 7, 7, generator=generator)
    return F.interpolate(rough, size=(side, side), mode="bilinear")  # neighbours are alike


@pytest.mark.parametrize("size", [1, 2, 3])
def test_cosines_are_orthonormal(size):
    rows = cosines(size)
    torch.testing.assert_close(rows @ rows.T, torch.eye(size))
    torch.testing.assert_close(rows[0], torch.full((size,), size**-0.5))


def test_the_stem_is_fixed_and_whitens(network):
    """Each filter's output has variance 1, and is there with both signs."""
    seen = []
    network.stem.norm.register_forward_hook(lambda *call: seen.append(call[-1]))
    out = network.stem(images())
    assert {name for name, _ in network.stem.named_parameters()} == {"shift"}
    (white,) = seen
    assert white.shape == (64, 12, 27, 27)
    torch.testing.assert_close(
        white.var((0, 2, 3), correction=0), torch.ones(12), rtol=0.01, atol=0
    )
    torch.testing.assert_close(out, F.silu(torch.cat([white, -white], 1)))


def test_scale_of_the_pixels_does_not_matter(network):
    """So `trainer.pixels=unit` and `standardised` differ at the border alone."""
    torch.testing.assert_close(network(images()), network(images() / 4 + 1), rtol=1e-2, atol=1e-3)


def test_convolutions_start_as_identities(network):
    first, second = network.groups[0].conv1, network.groups[1].conv1
    maps = torch.randn(2, 24, 5, 5)
    torch.testing.assert_close(first(maps)[:, :24], maps)  # more outputs than inputs
    maps = torch.randn(2, 32, 5, 5)
    torch.testing.assert_close(second(maps), maps[:, :16])  # fewer


def test_shifts_move_64_times_as_fast(network):
    """As a plain shift with 64 times the rate, one step of SGD."""
    norm, plain = network.groups[0].norm1, nn.BatchNorm2d(32)
    maps, weights = torch.randn(8, 32, 5, 5), torch.randn(8, 32, 5, 5)
    steps = []
    for each, rate in ((norm, 0.01), (plain, 0.64)):
        before = each(maps)
        (before * weights).sum().backward()
        shifts = each.shift if each is norm else each.bias
        torch.optim.SGD([shifts], lr=rate).step()
        steps.append(each(maps) - before)
    torch.testing.assert_close(*steps, rtol=1e-3, atol=1e-4)


def test_small_images_and_growing_ones(network):
    check_takes(network, images(1), [[0.5, 0.25], [0.25, 0.5]])
    assert Airbench(10, (8, 8, 1))(torch.randn(4, 1, 8, 8)).shape == (4, 10)
