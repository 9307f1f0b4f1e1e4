"""Networks: sizes against known counts, and what their sources say of each part."""

import os
import subprocess
import sys

import hydra
import pytest
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labeldp_bench.models.convolutional import CNN, Airbench, LinearClassifier
from labeldp_bench.models.resnets import Projection, ResNet, WideResNet
from labeldp_bench.support.checkout import CONFIGS

CIFAR, MNIST, TINY = (32, 32, 3), (28, 28, 1), (8, 8, 3)
SMALL = {
    "linear": lambda shape: LinearClassifier(10, shape),
    "cnn": lambda shape: CNN(10, shape, widths=(4, 4), hidden=8),
    "resnet": lambda shape: ResNet(10, shape, width=4),
    "resnet_pre": lambda shape: ResNet(10, shape, width=4, preactivation=True),
    "wide": lambda shape: WideResNet(10, shape, depth=10, widen_factor=1),
    "wide_alibi": lambda shape: WideResNet(
        10, shape, 10, 1, negative_slope=0.1, bn_momentum=0.001, raw_downsampling=True
    ),
    "airbench": lambda shape: Airbench(10, shape, widths=(4, 8, 8)),
}


def small(name, shape=TINY, seed=0):
    torch.manual_seed(seed)
    return SMALL[name](shape)


def batch(shape=TINY, count=6, seed=0):
    height, width, channels = shape
    images = torch.randn(count, channels, height, width, generator=seeded(seed))
    return images.to(memory_format=torch.channels_last)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def gflops(network, shape, backward):
    """Counts one image on the meta device: shapes only, no arithmetic."""
    images = torch.randn(1, shape[2], *shape[:2], device="meta")
    with FlopCounterMode(display=False) as counter:
        logits = network.eval()(images)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops() / 1e9


# machine-notes.md section 4 (a multiply-add is 2); exact counts where a published form fixes them.
COUNTS = [
    (ResNet, CIFAR, {}, 11_173_962, 1.11, 3.33),
    (ResNet, CIFAR, {"preactivation": True}, 11_172_170, 1.11, 3.33),
    (ResNet, CIFAR, {"width": 16}, 701_466, 0.07, 0.21),
    (ResNet, MNIST, {"width": 16}, 701_178, 0.057, 0.171),
    (ResNet, CIFAR, {"width": 32, "blocks": (1, 1, 1, 1)}, 1_228_970, 0.13, 0.38),
    (WideResNet, CIFAR, {}, 1_467_610, 0.43, 1.29),
    # Two BatchNorms of 32 and 64 channels have no effect in ALIBI's released network.
    (WideResNet, CIFAR, {"raw_downsampling": True}, 1_467_610 - 2 * (32 + 64), 0.43, 1.29),
    (WideResNet, CIFAR, {"widen_factor": 4}, 5_849_050, 1.69, 5.07),
    (WideResNet, CIFAR, {"depth": 10, "widen_factor": 1}, 77_850, 0.025, 0.074),
    (CNN, MNIST, {}, 421_642, 0.0085, 0.025),
    (CNN, MNIST, {"kernel_size": 5}, 454_922, 0.022, 0.065),
    (Airbench, MNIST, {}, 280_504, 0.02, 0.06),  # a third of ResNet-18 of 16 channels
    (Airbench, CIFAR, {"widths": (64, 256, 256)}, 1_971_352, 0.236, 0.7),  # .36 PFLOP in 9.9 epochs
    (LinearClassifier, MNIST, {}, 7_850, 15_680 / 1e9, 31_360 / 1e9),
]


@pytest.mark.parametrize(
    ("kind", "shape", "options", "weights", "forward", "both"),
    COUNTS,
    ids=[f"{row[0].__name__}-{row[2]}" for row in COUNTS],
)
def test_weights_and_flops(kind, shape, options, weights, forward, both):
    """If wrong, this is not the network that the papers name."""
    with torch.device("meta"):
        network = kind(10, shape, **options)
    assert sum(weight.numel() for weight in network.parameters()) == weights
    assert gflops(network, shape, backward=False) == pytest.approx(forward, rel=0.08)
    assert gflops(network, shape, backward=True) == pytest.approx(both, rel=0.03)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(28, 28, 1), (9, 13, 3)])
def test_an_image_of_any_shape_has_the_same_logits_in_any_company(name, shape):
    network, images = small(name, shape).eval(), batch(shape)
    logits = network(images)
    assert logits.shape == (6, 10) and torch.equal(network(images), logits)
    torch.testing.assert_close(torch.cat([network(images[:2]), network(images[2:])]), logits)
    torch.testing.assert_close(network(images.contiguous()), logits)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_reach_every_weight(name, dtype):
    """If wrong, part of the network is never trained."""
    network = small(name).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        logits = network(batch(count=32))
    assert logits.dtype == dtype and logits.isfinite().all()
    F.cross_entropy(logits.float(), torch.arange(32) % 10).backward()
    dead = [n for n, w in network.named_parameters() if w.grad is None or not w.grad.any()]
    assert not dead


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("channels", [3, 8])
def test_projection_is_a_strided_convolution(channels, stride):
    projection = Projection(channels, 5, stride)
    plain = nn.Conv2d(channels, 5, 1, stride, bias=False)
    plain.load_state_dict(projection.state_dict())
    images = torch.randn(2, channels, 9, 13, generator=seeded(0))
    torch.testing.assert_close(projection(images), plain(images))


def test_few_channels_train_on_an_old_cpu():
    """oneDNN without AVX-512 ends the process in a strided 1 x 1 convolution of 1 to 7 channels."""
    program = """
import torch
from labeldp_bench.models.resnets import ResNet
images = torch.randn(16, 3, 32, 32).to(memory_format=torch.channels_last)
for width in (1, 4, 7):
    network = ResNet(10, (32, 32, 3), width).to(memory_format=torch.channels_last)
    network(images).square().sum().backward()
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)


def test_slope_momentum_and_dropout_reach_their_layers():
    images = batch()
    cnn = small("cnn").train()
    assert not torch.equal(cnn(images), cnn(images))
    network = small("wide_alibi")
    one = torch.tensor([-1.0])
    rectified = [network.last[1](one), *(block._rectify(one) for block in network.blocks)]
    assert torch.allclose(torch.cat(rectified), torch.tensor(-0.1))
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [norm.momentum for norm in norms] == [0.001] * 5


def test_relu_after_pooling_is_the_papers_block():
    """Same logits and gradients, bit for bit, as convolution, ReLU, pooling."""
    torch.manual_seed(0)
    network = CNN(10, MNIST, dropout=0.0)
    first, pool, relu, second, *_ = network.features
    stated = nn.Sequential(first, relu, pool, second, relu, pool, nn.Flatten(), network.head)
    gradients = []
    for forward in (network, stated):
        network.zero_grad()
        logits = forward(torch.randn(64, 1, 28, 28, generator=torch.Generator().manual_seed(1)))
        logits.logsumexp(1).sum().backward()
        gradients.append([logits, *(weight.grad.clone() for weight in network.parameters())])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*gradients, strict=True))


def test_preactivation_as_in_the_released_codes():
    """No BatchNorm after the stem or on a projection, one before the average."""
    network = small("resnet_pre")
    assert [type(module) for module in network.stem] == [nn.Conv2d]
    assert [type(module) for module in network.last] == [nn.BatchNorm2d, nn.ReLU]
    projections = [block.projection for block in network.blocks]
    expected = [None, None, *[Projection, None] * 3]
    assert [module and type(module) for module in projections] == expected
    block = network.blocks[2].eval()
    features = torch.randn(2, 4, 8, 8, generator=seeded(0))
    active = F.relu(block.norm1(features))
    inner = F.relu(block.norm2(block.conv1(active)))
    expected = block.conv2(inner) + block.projection(active)
    torch.testing.assert_close(block(features), expected)


def test_every_yaml_builds():
    """Each file of configs/model that holds a network, on the meta device."""
    configs = {path.stem: OmegaConf.load(path) for path in (CONFIGS / "model").glob("*.yaml")}
    networks = {name: config.network for name, config in configs.items() if "network" in config}
    assert {"linear", "cnn", "airbench", "resnet18", "wrn28_4"} < networks.keys()
    for network in networks.values():
        build = hydra.utils.instantiate(network, _convert_="all")
        for shape in (CIFAR, MNIST):
            with torch.device("meta"):
                built = build(num_classes=10, image_shape=shape).eval()
            images = torch.randn(2, shape[2], *shape[:2], device="meta")
            assert built(images).shape == (2, 10)


SHAPE = (28, 28, 3)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Airbench(10, SHAPE, widths=(32, 16, 24)).train()


def images(count=64, side=28):
    generator = torch.Generator().manual_seed(1)
    rough = torch.randn(count, 3, 7, 7, generator=generator)
    return F.interpolate(rough, size=(side, side), mode="bilinear")  # neighbours are alike


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
