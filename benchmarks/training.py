"""Images per second of each network in our trainer's own step, on synthetic images.

    python -m benchmarks.training [budget=quick] [model=cnn,linear] [device=cpu]
        [precision=float32] [step=eager,compiled,captured] [out=FOLDER]

A step is what a run does: slicing, augmentation, mixup, forward, backward, optimizer. The first
step of each network is not timed. Two baselines run in the same process, in float32: a textbook
loop (a DataLoader, torchvision's transforms on one PIL image at a time), and, where nothing is
augmented, ten lines on tensors. Writes results/benchmarks/training_<device>.csv. 20 steps of each
network, 3 with budget=quick; ten times as many on a GPU, where step= says how: captured as one CUDA
graph unless named, as a run does it, or compiled (capture=false). A CPU has only eager steps.
"""

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from benchmarks.harness import BENCHMARKS, Row, ratio, report
from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp.support.progress import say
from labeldp.support.validate import check_choice
from labeldp_bench.cli.script import command, output_folder, read_arguments
from labeldp_bench.data.official import import_torchvision
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.interfaces import Epoch, Session
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.support.device import describe_device, resolve_device
from labeldp_bench.support.process import prepare_training
from labeldp_bench.training.network_fit import BACKENDS, NetworkFit
from labeldp_bench.training.trainer import PRECISIONS

CLASSES = 10
DIGITS = ["dataset=mnist", "trainer=vector_approximation"]  # Adam, batch 400, nothing augmented
# SGD, crop, flip, cutout, mixup; batch 128 as in the notes on this machine that we compare with.
COLOUR = ["dataset=cifar10", "trainer=ghazi_cifar10", "trainer.batch_size=128"]
NETWORKS = {
    "linear": (DIGITS, (28, 28, 1)),
    "cnn": (DIGITS, (28, 28, 1)),
    "resnet18_w16": (COLOUR, (32, 32, 3)),
    "wrn28_2": (COLOUR, (32, 32, 3)),
    "wrn28_4": (COLOUR, (32, 32, 3)),
    "resnet18": (COLOUR, (32, 32, 3)),
}
TIMED = 3
"""Epochs of a network without augmentation, which are short; the fastest counts."""
IMAGES = {"mnist": 60_000, "cifar10": 50_000}
STEPS = {PAPER: 20, "quick": 3}
OWN = {"budget": PAPER, "model": ",".join(NETWORKS), "device": "auto", "precision": "auto"}
OWN |= {"step": "captured", "out": str(BENCHMARKS)}
STEPPED = ("eager", "compiled", "captured")
SHOWN = ("model", "image", "recipe", "batch_size", "step", "parameters", "precision")
RATES = (
    "images_per_second", "textbook_images_per_second", "over_textbook", "tensor_images_per_second",
    "over_tensors",
)  # fmt: skip
COSTS = ("seconds_per_epoch", "peak_mib")


def measure(
    name: str, device: torch.device, precision: str, steps: int, stepped: str = "captured"
) -> Row:
    """Returns one row of the table: the network `name` over `steps` steps, one of STEPPED."""
    recipe, shape = NETWORKS[name]
    captures = stepped == "captured" and device.type in BACKENDS
    timed = TIMED if recipe is DIGITS else 1
    # What is captured is recorded in the first epoch, which is not timed.
    trainer = [f"trainer.epochs={timed + captures}", f"trainer.precision={precision}"]
    model = compose_cell([*recipe, f"model={name}", "mechanism=rr", *trainer]).build().model
    assert isinstance(model, NetworkModel)
    size = model.trainer.batch_size
    epochs: list[Epoch] = []
    parameters = 0
    for count in (size, steps * size):  # the first is warm-up
        if device.type == "cuda":  # the search for fast kernels takes more than training does
            torch.cuda.reset_peak_memory_stats(device)
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, (count, *shape), dtype=torch.uint8, generator=generator)
        labels = torch.randint(CLASSES, (count,), generator=generator)
        one_hot = torch.nn.functional.one_hot(labels, CLASSES).bool()
        supervision = Supervision(torch.arange(count), labels, one_hot, loss_named("plain"))
        session = Session(
            0,
            device,
            lambda epoch, _: epochs.append(epoch),
            lambda text: say(text) if "failed" in text else None,
            captures=captures,
        )
        with mock.patch.dict(BACKENDS, clear=stepped == "eager"):
            classifier = model.fit_by(NetworkFit, images, supervision, session)
        parameters = sum(each.numel() for each in classifier.network.parameters())
    peak = peak_mib(device)
    rate = max(epoch.num_examples / epoch.seconds for epoch in epochs[-timed:])
    few = max(1, steps // 4)  # the slow ones
    fresh = model.network(num_classes=CLASSES, image_shape=shape)
    augmented = bool(model.trainer.augment)
    textbook = textbook_rate(fresh, images, labels, size, augmented, device, batches=few)
    tensors = None if augmented else max(
        tensor_rate(fresh, images, labels, size, device) for _ in range(timed)
    )  # fmt: skip
    return {
        "model": name,
        "image": "x".join(map(str, shape)),
        "recipe": recipe[1].partition("=")[2],
        "batch_size": size,
        "step": stepped if device.type in BACKENDS else "eager",
        "parameters": parameters,
        "precision": model.precision_on(device),
        "steps": steps,
        "images_per_second": round(rate, 1),
        "textbook_images_per_second": round(textbook, 1),
        "over_textbook": ratio(rate, textbook),
        "tensor_images_per_second": tensors and round(tensors, 1),
        "over_tensors": tensors and ratio(rate, tensors),
        "seconds_per_epoch": round(IMAGES[recipe[0].partition("=")[2]] / rate, 2),
        "peak_mib": round(peak),
    }


def peak_mib(device: torch.device) -> float:
    """Returns the most memory that was in use: of the GPU, or of this process so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (2**20 if sys.platform == "darwin" else 2**10)


class Pictures(Dataset):
    """Images and labels as a torchvision data set gives them: PIL images, transformed one by one.

    Args:
        images: uint8 (N, H, W, C).
        labels: int64 (N,).
        augmented: whether images are cropped and flipped.
    """

    def __init__(self, images: Tensor, labels: Tensor, augmented: bool) -> None:
        from PIL import Image

        transforms = import_torchvision().transforms
        self.pictures = [Image.fromarray(array) for array in images.squeeze(-1).numpy()]
        self.labels = labels.tolist()
        size, channels = images.shape[1], images.shape[-1]
        random = [transforms.RandomCrop(size, padding=4), transforms.RandomHorizontalFlip()]
        scale = transforms.Normalize([0.5] * channels, [0.25] * channels)
        fixed: list[Any] = [transforms.ToTensor(), scale]
        self.transform = transforms.Compose([*random, *fixed] if augmented else fixed)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.pictures[index]), self.labels[index]


def textbook_rate(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    batch_size: int,
    augmented: bool,
    device: torch.device,
    batches: int,
) -> float:
    """Returns images per second of `batches` batches, after one, or those made ahead, untimed.

    No mixup, which each paper's code does in its own way, and on a GPU TF32 in convolutions,
    torch's default: the comparison favours this loop.

    Args:
        network: trained in place, by SGD with momentum.
        images: uint8 (N, H, W, C), drawn from with replacement.
        labels: int64 (N,).
        batch_size: examples per step.
        augmented: whether images are cropped and flipped.
        device: where the network goes.
        batches: how many are timed, >= 1.
    """
    # A CPU's cores are at work on the training.
    workers = min(16, os.cpu_count() or 1) if device.type == "cuda" else 0
    ahead = 2 * workers  # each makes two batches before they are asked for
    pictures = Pictures(images, labels, augmented)
    drawn = (1 + ahead + batches + ahead) * batch_size  # workers are not to fall idle at the end
    sampler = RandomSampler(pictures, replacement=True, num_samples=drawn)
    pinned: dict[str, Any] = {"pin_memory": device.type == "cuda", "num_workers": workers}
    loader = DataLoader(pictures, batch_size, sampler=sampler, **pinned)
    network = network.to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    running = started = 0.0
    with _as_torch_starts():
        for number, (batch, targets) in enumerate(islice(loader, 1 + ahead + batches)):
            if number == 1 + ahead:
                started = time.perf_counter()
            batch, targets = batch.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = criterion(network(batch), targets)
            loss.backward()
            optimizer.step()
            running += loss.item()  # waits for the device
        return batches * batch_size / (time.perf_counter() - started)


def tensor_rate(
    network: nn.Module, images: Tensor, labels: Tensor, batch_size: int, device: torch.device
) -> float:
    """Returns images per second of an epoch of ten lines on tensors, after one step.

    Args:
        network: trained in place, by Adam.
        images: uint8 (N, H, W, C); nothing is augmented.
        labels: int64 (N,).
        batch_size: examples per step.
        device: where network and images go.
    """
    network, labels = network.to(device).train(), labels.to(device)
    pixels = ((images.to(device).float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2).contiguous()
    optimizer = torch.optim.Adam(network.parameters())
    started, loss = 0.0, torch.zeros(())
    order = torch.cat([torch.arange(batch_size), torch.randperm(len(labels))]).to(device)
    for number, rows in enumerate(order.split(batch_size)):
        if number == 1:
            loss.item()  # waits for the device
            started = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(pixels[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    loss.item()
    return len(labels) / (time.perf_counter() - started)


@contextmanager
def _as_torch_starts() -> Iterator[None]:
    """Undoes what `prepare_training` set for convolutions."""
    cudnn = torch.backends.cudnn
    ours = cudnn.benchmark, cudnn.allow_tf32
    cudnn.benchmark, cudnn.allow_tf32 = False, True
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.allow_tf32 = ours


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, OWN)
    steps = STEPS[check_choice("budget", own["budget"], STEPS)]
    names = [check_choice("model", name, NETWORKS) for name in own["model"].split(",")]
    precision = check_choice("precision", own["precision"], PRECISIONS)
    kinds = [check_choice("step", kind, STEPPED) for kind in own["step"].split(",")]
    device = resolve_device(own["device"])
    out = output_folder("out", own["out"])
    if device.type == "cuda":
        steps *= 10  # a tenth of a second would measure the start of an epoch
    prepare_training()
    print(f"{describe_device(device)}\n")
    rows = (measure(name, device, precision, steps, stepped) for name in names for stepped in kinds)
    report("training", rows, out, (*SHOWN, *RATES, *COSTS), device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
