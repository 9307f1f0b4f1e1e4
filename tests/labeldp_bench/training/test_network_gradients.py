"""Gradients of single examples, and the nearest mean of them, against lists of all corners."""

import pytest
import torch
from torch import nn

from labeldp.support.validate import InputError
from labeldp_bench.models.convolutional import CNN
from labeldp_bench.models.resnets import ResNet
from labeldp_bench.training.fit import NetworkClassifier
from labeldp_bench.training.network_gradients import NetworkGradients, nearest_point

CLASSES = 3
SOME = torch.arange(12)


def of_network(network, clip=1.0, count=12):
    stream = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 8, 8, 1), generator=stream, dtype=torch.uint8)
    scale = torch.tensor([100.0]), torch.tensor([50.0])
    return NetworkGradients(NetworkClassifier(network, *scale, "float32"), images, clip)


@pytest.fixture
def gradients():
    torch.manual_seed(0)
    return of_network(CNN(CLASSES, (8, 8, 1), widths=[2, 3], hidden=5, dropout=0.5), clip=0.98)


def all_of_them(gradients):
    """Returns the gradient of every example under every label, (m, K, P)."""
    count = len(gradients.features)
    under = [
        gradients.of(gradients.weights, SOME, torch.full((count,), label))
        for label in range(CLASSES)
    ]
    return torch.stack(under, 1)


def test_each_gradient_is_that_of_its_example_alone(gradients):
    labels = SOME % CLASSES
    found = gradients.of(gradients.weights, SOME, labels)
    network = gradients.classifier.network.eval()
    for row, (image, label) in zip(
        found, zip(gradients.features, labels, strict=True), strict=True
    ):
        loss = nn.functional.cross_entropy(
            network(gradients.classifier.normalise(image[None])), label[None]
        )
        parts = torch.autograd.grad(loss, list(network.parameters()))
        expected = torch.cat([part.flatten() for part in parts]) / 0.98  # in units of clip
        assert torch.allclose(row, expected, atol=1e-5)


def test_nearest_mean_is_that_of_a_list_of_all_shortened_gradients(gradients):
    rows = all_of_them(gradients)
    corners = rows / rows.norm(dim=2, keepdim=True).clamp_min(1)
    assert 0.1 < float((corners.norm(dim=2) > 0.999).float().mean()) < 1  # some are shortened

    def corner(direction):
        return corners[SOME, (corners @ direction).argmin(1)].mean(0)

    target = 0.3 * torch.randn(corners.shape[2], generator=torch.Generator().manual_seed(1))
    expected = nearest_point(target, corners.mean((0, 1)), corner, 50)
    found = gradients.nearest_in_hull(gradients.weights, target, SOME, 50)
    assert torch.allclose(found, expected, atol=1e-4)
    # Nearly all of the noise is where no mean of gradients can be.
    assert float(found.norm()) < 0.2 * float(target.norm())


def test_a_mean_of_the_same_examples_stays_where_it_is_and_noise_goes(gradients):
    labels = SOME % CLASSES
    rows = gradients.of(gradients.weights, SOME, labels)
    mean = (rows * (1 / rows.norm(dim=1)).clamp_max(1)[:, None]).mean(0)
    found = gradients.nearest_in_hull(gradients.weights, mean, SOME, 400)
    assert float((found - mean).norm()) < 0.02 * float(mean.norm())
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(2))
    noise *= float(mean.norm() / noise.norm())
    denoised = gradients.nearest_in_hull(gradients.weights, mean + noise, SOME, 400)
    assert float((denoised - mean).norm()) < 0.5 * float(noise.norm())


def test_weights_go_back_into_the_network(gradients):
    moved = gradients.weights + 1
    assert torch.equal(gradients.trained(moved).network.head[-1].bias, moved[-CLASSES:])
    assert torch.equal(gradients.weights, moved)


def test_a_network_that_mixes_examples_is_refused():
    with pytest.raises(InputError, match=r"ResNet .*model=tiny_cnn"):
        of_network(ResNet(CLASSES, (8, 8, 1), width=4))


def test_nearest_point_of_a_simplex_is_its_projection():
    # Of (2, 0.5, -1) on the probability simplex: (1, 0, 0); of (0.5, 0.4, -1): (0.55, 0.45, 0).
    def corner(direction):
        return nn.functional.one_hot(direction.argmin(), 3).float()

    third = torch.full((3,), 1 / 3)
    for target, expected in (([2, 0.5, -1], [1, 0, 0]), ([0.5, 0.4, -1], [0.55, 0.45, 0])):
        found = nearest_point(torch.tensor(target), third, corner, 3000)
        assert torch.allclose(found, torch.tensor(expected).float(), atol=2e-3)
