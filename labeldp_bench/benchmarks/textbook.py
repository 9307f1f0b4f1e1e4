"""What most training code looks like, to compare with: a DataLoader, one image at a time, float32.

The transforms are those of torchvision, on PIL images, as its data sets give them. No mixup, which
each paper's code spells in its own way: the comparison favours this loop.
"""

import os
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

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
    device: torch.device,
) -> float:  # fmt: skip
    """Returns images per second of one epoch; the first batch is not timed.

    Args:
        network: trained in place, by SGD with momentum.
        images: uint8 (N, H, W, C), at least two batches.
        labels: int64 (N,).
        batch_size: examples per step.
        augmented: whether images are cropped and flipped.
        device: where the network goes.
    """
    cuda = device.type == "cuda"
    loader = DataLoader(
        Pictures(images, labels, augmented), batch_size, shuffle=True, pin_memory=cuda,
        num_workers=min(16, os.cpu_count() or 1) if cuda else 0,  # the CPU's cores are at work
    )  # fmt: skip
    network = network.to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    started, count, running = 0.0, 0, 0.0
    for step, (batch, targets) in enumerate(loader):
        batch, targets = batch.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(network(batch), targets)
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step == 0:
            wait_for(device)
            started = time.perf_counter()
        else:
            count += len(targets)
    wait_for(device)
    return count / (time.perf_counter() - started)
