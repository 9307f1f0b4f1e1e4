"""Networks: sizes against known counts, and what a trainer relies on."""

import os
import re
import subprocess
import sys

import hydra
import pytest
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labeldp.support.validate import InputError
from labeldp_bench.models import CNN, Airbench, Inception, LinearClassifier, ResNet, WideResNet
from labeldp_bench.models.resnets import Projection
from labeldp_bench.support.checkout import CHECKOUT

CONFIGS = CHECKOUT / "configs" / "model"
NETWORKS = {path.stem: OmegaConf.load(path) for path in sorted(CONFIGS.glob("*.yaml"))}
NETWORKS = {name: config for name, config in NETWORKS.items() if "network" in config}
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
    "inception": lambda shape: Inception(10, shape),
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
    (ResNet, CIFAR, {"width": 32}, 2_797_610, 0.28, 0.83),
    (ResNet, CIFAR, {"width": 16}, 701_466, 0.07, 0.21),
    (ResNet, MNIST, {"width": 16}, 701_178, 0.057, 0.171),  # an eighth of Inception below
    (ResNet, CIFAR, {"width": 32, "blocks": (1, 1, 1, 1)}, 1_228_970, 0.13, 0.38),
    (WideResNet, CIFAR, {}, 1_467_610, 0.43, 1.29),
    (WideResNet, CIFAR, {"widen_factor": 4}, 5_849_050, 1.69, 5.07),
    (WideResNet, CIFAR, {"depth": 16, "widen_factor": 1}, 175_066, 0.05, 0.16),
    (WideResNet, CIFAR, {"depth": 10, "widen_factor": 1}, 77_850, 0.025, 0.074),
    (CNN, MNIST, {}, 421_642, 0.0085, 0.025),
    (CNN, MNIST, {"kernel_size": 5}, 454_922, 0.022, 0.065),
    (Inception, MNIST, {}, 1_894_058, 0.447, 1.34),
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


def test_hundred_classes_change_only_the_head():
    with torch.device("meta"):
        counts = [sum(w.numel() for w in ResNet(k, CIFAR).parameters()) for k in (10, 100)]
    assert counts[1] - counts[0] == 90 * 513


def test_released_alibi_net_lacks_two_norms():
    """Two BatchNorms of 32 and 64 channels have no effect there; ours does not hold them."""
    with torch.device("meta"):
        plain, raw = (WideResNet(10, CIFAR, raw_downsampling=flag) for flag in (False, True))
    counts = [sum(weight.numel() for weight in net.parameters()) for net in (plain, raw)]
    assert counts[0] - counts[1] == 2 * (32 + 64)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 8, 3), (28, 28, 1), (32, 32, 3), (9, 13, 3)])
def test_any_image_shape(name, shape):
    assert small(name, shape).eval()(batch(shape, count=2)).shape == (2, 10)


@pytest.mark.parametrize("name", SMALL)
def test_gradients_reach_every_weight(name):
    """If wrong, part of the network is never trained."""
    network = small(name).train()
    F.cross_entropy(network(batch(count=32)), torch.arange(32) % 10).backward()
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
from labeldp_bench.models import ResNet
images = torch.randn(16, 3, 32, 32).to(memory_format=torch.channels_last)
for width in (1, 4, 7):
    network = ResNet(10, (32, 32, 3), width).to(memory_format=torch.channels_last)
    network(images).square().sum().backward()
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)


@pytest.mark.parametrize("name", SMALL)
def test_evaluation_is_deterministic(name):
    network = small(name).eval()
    images = batch()
    whole = network(images)
    assert torch.equal(whole, network(images))
    # An image's logits may not depend on its neighbours.
    torch.testing.assert_close(torch.cat([network(images[:2]), network(images[2:])]), whole)


@pytest.mark.parametrize("name", SMALL)
def test_same_seed_same_weights(name):
    first, again, other = small(name, seed=1), small(name, seed=1), small(name, seed=2)
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert not all(map(torch.equal, first.parameters(), other.parameters()))


@pytest.mark.parametrize("name", SMALL)
def test_memory_format_does_not_change_the_result(name):
    network = small(name).eval()
    torch.testing.assert_close(network(batch().contiguous()), network(batch()))


@pytest.mark.parametrize("name", SMALL)
def test_bf16_is_finite(name):
    network = small(name).train()
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(batch())
    assert logits.dtype == torch.bfloat16
    assert logits.isfinite().all()


def test_dropout_is_off_in_evaluation_only():
    network = small("cnn")
    assert torch.equal(network.eval()(batch()), network(batch()))
    assert not torch.equal(network.train()(batch()), network(batch()))


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


@pytest.mark.parametrize(("slope", "negative"), [(0.0, 0.0), (0.1, -0.1)])
def test_slope_reaches_every_rectifier(slope, negative):
    network = WideResNet(10, TINY, 10, 1, negative_slope=slope)
    one = torch.tensor([-1.0])
    assert network.last[1](one).item() == pytest.approx(negative)
    rectified = [block._rectify(one).item() for block in network.blocks]
    assert rectified == pytest.approx([negative] * 3)


def test_momentum_reaches_every_norm():
    network = small("wide_alibi")
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 5
    assert {norm.momentum for norm in norms} == {0.001}


def test_preactivation_as_in_the_released_codes():
    """No BatchNorm after the stem or on a projection, one before the average (peers.md 1.3)."""
    network = small("resnet_pre")
    assert [type(module) for module in network.stem] == [nn.Conv2d]
    assert [type(module) for module in network.last] == [nn.BatchNorm2d, nn.ReLU]
    projections = [block.projection for block in network.blocks]
    assert [type(module) for module in projections] == [type(None)] * 2 + [
        Projection, type(None), Projection, type(None), Projection, type(None)
    ]  # fmt: skip
    block = network.blocks[2].eval()
    features = torch.randn(2, 4, 8, 8, generator=seeded(0))
    active = F.relu(block.norm1(features))
    inner = F.relu(block.norm2(block.conv1(active)))
    expected = block.conv2(inner) + block.projection(active)
    torch.testing.assert_close(block(features), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_yaml_builds(name):
    """Each file of configs/model that holds a network, on the meta device."""
    config = NETWORKS[name]
    if name not in (
        "probe",
        "eigenmaps",
        "clusters",
        "laplace_learning",
        "poisson_learning",
        "graph_gaussian_process",
        "tiny_cnn",
    ):  # theirs is trained by its pre-training, or by noisy gradients
        assert config._target_ == "labeldp_bench.models.NetworkModel"
        assert OmegaConf.to_container(config, resolve=False)["trainer"] == "${trainer}"
    build = hydra.utils.instantiate(config.network, _convert_="all")
    for shape in (CIFAR, MNIST):
        with torch.device("meta"):
            network = build(num_classes=10, image_shape=shape).eval()
        images = torch.randn(2, shape[2], *shape[:2], device="meta")
        assert network(images).shape == (2, 10)


def test_contract_names_are_there():
    names = {
        "linear",
        "cnn",
        "tiny_cnn",
        "inception",
        "airbench",
        "resnet18",
        "resnet18_w16",
        "wrn28_2",
        "wrn28_4",
    }
    assert names <= NETWORKS.keys()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CNN(1, TINY), "num_classes must be >= 2, got 1"),
        (lambda: CNN(10, (7, 8, 3)), "image height must be >= 8, got 7"),
        (lambda: CNN(10, (8, 8)), "image_shape must be .*, got .8, 8."),
        (lambda: CNN(10, TINY, kernel_size=4), "kernel_size must be odd, got 4"),
        (lambda: CNN(10, TINY, widths=(4,)), "widths must be a list of 2 numbers"),
        (lambda: Airbench(10, TINY, widths=(4, 8)), "widths must be a list of 3 numbers"),
        (lambda: Airbench(10, TINY, widths=(4, 8, 0)), "widths must be >= 1, got 0"),
        (lambda: CNN(10, TINY, dropout=1.0), "dropout must be .* < 1, got 1.0"),
        (lambda: ResNet(10, (32, 4, 3)), "image width must be >= 8, got 4"),
        (lambda: ResNet(10, TINY, width=0), "width must be >= 1, got 0"),
        (lambda: ResNet(10, TINY, blocks=()), "blocks must name"),
        (lambda: ResNet(10, TINY, blocks=(2, 0)), "blocks must be >= 1, got 0"),
        (lambda: WideResNet(10, TINY, depth=27), "depth must be 6 n . 4 .*, got 27"),
        (lambda: WideResNet(10, TINY, negative_slope=1.0), "negative_slope must be"),
        (lambda: WideResNet(10, TINY, bn_momentum=0.0), "bn_momentum must be"),
        (lambda: LinearClassifier(10, (4, 4, 0)), "image channels must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
    assert re.match(r"model\.network\.|image|num_classes", str(caught.value))
