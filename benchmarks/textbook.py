"""What most training code looks like, to compare with: a DataLoader, or ten lines on tensors.

Both compute in float32; the DataLoader takes one image at a time.

The transforms are those of torchvision, on PIL images, as its data sets give them. No mixup, which
each paper's code spells in its own way, and on a GPU TF32 in convolutions, torch's default: the
comparison favours this loop.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from labeldp_bench.data.official import import_torchvision
from labeldp_bench.support.device import wait_for


class Pictures(Dataset):
    """Images and labels as a torchvision data set gives them.

    Args:
        images: uint8 (N, H, W, C).
        labels: int64 (N,).
        augmented: whether images are cropped and flipped.
        scale: mean and standard deviation of each channel, of pixels in [0, 1].
    """

    def __init__(
        self, images: Tensor, labels: Tensor, augmented: bool, scale: tuple[list, list]
    ) -> None:
        from PIL import Image

        transforms = import_torchvision().transforms
        arrays = images.squeeze(-1).numpy()
        self.pictures = [Image.fromarray(array) for array in arrays]
        self.labels = labels.tolist()
        size = images.shape[1]
        random = [transforms.RandomCrop(size, padding=4), transforms.RandomHorizontalFlip()]
        fixed: list[Any] = [transforms.ToTensor(), transforms.Normalize(*scale)]
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

    Args:
        network: trained in place, by SGD with momentum.
        images: uint8 (N, H, W, C), drawn from with replacement.
        labels: int64 (N,).
        batch_size: examples per step.
        augmented: whether images are cropped and flipped.
        device: where the network goes.
        batches: how many are timed, >= 1.
    """
    workers = _workers(device)
    ahead = 2 * workers  # each makes two batches before they are asked for
    channels = images.shape[-1]
    pictures = Pictures(images, labels, augmented, ([0.5] * channels, [0.25] * channels))
    drawn = (1 + ahead + batches + ahead) * batch_size  # workers are not to fall idle at the end
    sampler = RandomSampler(pictures, replacement=True, num_samples=drawn)
    pinned: dict[str, Any] = {"pin_memory": device.type == "cuda", "num_workers": workers}
    loader = DataLoader(pictures, batch_size, sampler=sampler, **pinned)
    network = network.to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    with _as_torch_starts():
        steps = _steps(network, loader, optimizer, device)
        for _ in range(1 + ahead):
            next(steps)
        wait_for(device)
        started = time.perf_counter()
        for _ in range(batches):
            next(steps)
        wait_for(device)
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
    started = 0.0
    for number, rows in enumerate(torch.cat([torch.arange(batch_size), torch.randperm(len(labels))])
                                  .to(device).split(batch_size)):  # fmt: skip
        if number == 1:
            wait_for(device)
            started = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(pixels[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    wait_for(device)
    return len(labels) / (time.perf_counter() - started)


def textbook_accuracy(
    network: nn.Module,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    batch_size: int,
    epochs: int,
    optimizer: Callable[..., torch.optim.Optimizer],
    device: torch.device,
) -> float:
    """Returns the test accuracy after some epochs of cross entropy with the given labels.

    Args:
        network: trained in place; first weights, order and dropout from the global stream.
        train: uint8 (N, H, W, C), and int64 (N,), such as released labels.
        test: likewise, with true labels.
        batch_size: examples per step; the last, shorter batch is kept.
        epochs: passes over the training images.
        optimizer: called with the parameters.
        device: where the network goes.
    """
    pixels = train[0].to(torch.float64) / 255
    scale = pixels.mean((0, 1, 2)).tolist(), pixels.std((0, 1, 2)).tolist()
    loaders = [
        DataLoader(pictures, batch_size, shuffle=shuffle, num_workers=_workers(device))
        for pictures, shuffle in (
            (Pictures(*train, augmented=False, scale=scale), True),
            (Pictures(*test, augmented=False, scale=scale), False),
        )
    ]
    network = network.to(device)
    made = optimizer(network.parameters())
    with _as_torch_starts():
        for _ in range(epochs):
            network.train()
            for _ in _steps(network, loaders[0], made, device):
                pass
        network.eval()
        hits = 0
        with torch.no_grad():
            for batch, labels in loaders[1]:
                hits += int((network(batch.to(device)).argmax(1).cpu() == labels).sum())
    return hits / len(test[1])


def _steps(
    network: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device
) -> Iterator[None]:
    """Trains for one epoch; yields after each step."""
    criterion = nn.CrossEntropyLoss()
    running = 0.0
    for batch, targets in loader:
        batch, targets = batch.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(network(batch), targets)
        loss.backward()
        optimizer.step()
        running += loss.item()
        yield


def _workers(device: torch.device) -> int:
    return min(16, os.cpu_count() or 1) if device.type == "cuda" else 0  # a CPU's are at work


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
