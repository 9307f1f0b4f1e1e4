"""What most training code looks like, to compare with: a DataLoader, one image at a time, float32.

The transforms are those of torchvision, on PIL images, as its data sets give them. No mixup, which
each paper's code spells in its own way: the comparison favours this loop.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from labeldp_bench.data.official import import_torchvision
from labeldp_bench.progress import wait_for


class Pictures(Dataset):
    """Images and labels as a torchvision data set gives them."""

    def __init__(self, images: Tensor, labels: Tensor, augmented: bool) -> None:
        from PIL import Image

        transforms = import_torchvision().transforms
        arrays = images.squeeze(-1).numpy()
        self.pictures = [Image.fromarray(array) for array in arrays]
        self.labels = labels.tolist()
        channels = images.shape[-1]
        size = images.shape[1]
        random = [transforms.RandomCrop(size, padding=4), transforms.RandomHorizontalFlip()]
        fixed: list[Any] = [
            transforms.ToTensor(),
            transforms.Normalize([0.5] * channels, [0.25] * channels),
        ]
        self.transform = transforms.Compose([*random, *fixed] if augmented else fixed)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.pictures[index]), self.labels[index]


def textbook_rate(
    network: nn.Module, images: Tensor, labels: Tensor, batch_size: int, augmented: bool,
    device: torch.device, batches: int,
) -> float:  # fmt: skip
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
    cuda = device.type == "cuda"
    workers = min(16, os.cpu_count() or 1) if cuda else 0  # a CPU's cores are at work
    ahead = 2 * workers  # each makes two batches before they are asked for
    pictures = Pictures(images, labels, augmented)
    drawn = (1 + ahead + batches + ahead) * batch_size  # workers are not to fall idle at the end
    loader = DataLoader(
        pictures, batch_size, sampler=RandomSampler(pictures, replacement=True, num_samples=drawn),
        pin_memory=cuda, num_workers=workers,
    )  # fmt: skip
    with _as_torch_starts():
        return _rate(network, loader, device, 1 + ahead, batches)


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


def _rate(
    network: nn.Module, loader: DataLoader, device: torch.device, untimed: int, timed: int
) -> float:
    network = network.to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    started, count, running = 0.0, 0, 0.0
    for step, (batch, targets) in enumerate(loader, start=1):
        batch, targets = batch.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(network(batch), targets)
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step > untimed:
            count += len(targets)
        if step == untimed:
            wait_for(device)
            started = time.perf_counter()
        if step == untimed + timed:
            break
    wait_for(device)
    return count / (time.perf_counter() - started)
