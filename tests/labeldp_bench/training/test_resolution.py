"""Growing images: when, how large, how made, and what is refused."""

import functools

import pytest
import torch

from labeldp.mechanisms import NoPrivacy
from labeldp.support.validate import InputError
from labeldp_bench.models.convolutional import CNN
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.models.resnets import ResNet
from labeldp_bench.training.images import shrunk
from labeldp_bench.training.resolution import scale_of
from tests.training import fit, images_and_labels, supervision_of, trainer

PHASES = [[0.5, 0.5], [0.25, 0.625], [0.125, 0.75]]


def test_images_grow_and_the_last_epoch_is_at_full_size():
    # 0.7 + 0.1 is below 0.8: the ninth of ten epochs would come too late.
    scales = [scale_of(PHASES, number, 16) for number in range(1, 17)]
    assert scales == [0.5] * 8 + [0.625] * 4 + [0.75] * 2 + [1.0] * 2
    shares = [[0.7, 0.5], [0.1, 0.75]]
    assert [scale_of(shares, number, 10) for number in (7, 8, 9)] == [0.5, 0.75, 1.0]
    for epochs in (1, 2, 3, 110):
        assert scale_of([[0.99, 0.5]], epochs, epochs) == 1


def test_every_pixel_counts_in_a_smaller_image():
    # Picking pixels would lose thin lines, and move the image to one side.
    images = torch.rand(2, 3, 32, 32)
    small = shrunk(images, 0.5)
    assert small.shape == (2, 3, 16, 16)
    assert torch.allclose(small.mean((2, 3)), images.mean((2, 3)), atol=0.02)
    assert torch.allclose(shrunk(images.flip(-1), 0.5), small.flip(-1), atol=1e-5)
    checkers = (torch.arange(32)[:, None] + torch.arange(32)) % 2
    assert torch.allclose(shrunk(checkers[None, None].float(), 0.5), torch.tensor(0.5), atol=0.02)
    lines = (torch.arange(32) % 4 == 0).float().expand(1, 1, 32, 32)  # each a pixel wide
    assert torch.allclose(shrunk(lines, 0.25), torch.tensor(0.25), atol=0.1)
    assert shrunk(images, 1.0) is images


def test_a_network_is_trained_on_smaller_images_and_scored_on_whole_ones(monkeypatch):
    images, labels = images_and_labels(50)
    supervision = supervision_of(labels, NoPrivacy(), "plain")
    network = functools.partial(ResNet, width=4, blocks=[1])
    seen = []
    forward = ResNet.forward

    def watched(self, batch):
        seen.append((self.training, batch.shape[-1]))
        return forward(self, batch)

    monkeypatch.setattr(ResNet, "forward", watched)
    model = NetworkModel(network, trainer(epochs=4, resolution=[[0.5, 0.5], [0.25, 0.75]]))
    classifier, _ = fit(model, images, supervision)
    assert [side for training, side in seen if training] == [4, 4, 4, 4, 6, 6, 8, 8]
    seen.clear()
    classifier.scores(images)
    assert seen == [(False, 8)]


def test_a_network_for_one_size_is_refused_before_it_is_trained():
    # The user would read of matrices that do not fit, from inside torch.
    images, labels = images_and_labels(50)
    supervision = supervision_of(labels, NoPrivacy(), "plain")
    model = NetworkModel(functools.partial(CNN, hidden=8), trainer(resolution=[[0.5, 0.5]]))
    with pytest.raises(InputError, match=r"CNN .*0\.5"):
        fit(model, images, supervision)
