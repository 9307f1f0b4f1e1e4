"""The hardware that a run computes on, and which of several GPUs a process takes."""

import getpass
import os
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from labeldp.support.validate import InputError
from labeldp_bench.support.hardware import cpu_name

# Older versions of torch raise a plain RuntimeError where a GPU fails.
ACCELERATOR_ERROR: Any = getattr(torch, "AcceleratorError", ())


def resolve_device(name: str) -> torch.device:
    """Returns the device that `auto`, `cpu`, `cuda` or `cuda:<n>` names.

    Raises:
        InputError: an unknown name, or a GPU that is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda") or (device.type == "cpu" and device.index is not None):
        raise InputError(f"device must be auto, cpu, cuda or cuda:<n>, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device={name}: torch sees {torch.cuda.device_count()} GPUs here (use device=cpu)"
        )
    return device


def describe_device(device: torch.device) -> str:
    """Returns the hardware's name for the record."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name(torch.get_num_threads())


def out_of_memory(error: BaseException) -> bool:
    """Returns whether an allocation failed, on a GPU or on the CPU."""
    on_cpu = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return on_cpu or isinstance(error, torch.OutOfMemoryError | MemoryError)


class DeviceLost(RuntimeError):
    """A GPU failed: whatever this process asks of it from now on fails too."""


def device_lost(error: BaseException) -> bool:
    """Returns whether a GPU failed for good; a lack of memory passes."""
    return isinstance(error, ACCELERATOR_ERROR) and not out_of_memory(error)


def device_failed(error: BaseException) -> bool:
    """Returns whether the hardware is to blame for an error: no memory left, or a GPU failed."""
    return out_of_memory(error) or isinstance(error, ACCELERATOR_ERROR)


def own_gpu(device: torch.device) -> torch.device:
    """Returns the GPU that this process takes, where `cuda` names none of several.

    Each GPU has a lock that a process holds until it ends: the first one free is taken, and those
    beyond the number of GPUs share them evenly. So workers of a launcher, and shells beside each
    other, spread over the GPUs. A device with a number, or the only GPU, stays as it is.
    """
    if device.type != "cuda" or device.index is not None or torch.cuda.device_count() < 2:
        return device
    return torch.device("cuda", _kept_gpu()[0])


@cache
def _kept_gpu() -> tuple[int, FileLock]:
    """Returns this process's GPU; the lock lives as long as the process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else []
    number = torch.cuda.device_count()
    cards = names if len(names) == number else [str(card) for card in range(number)]
    return take_gpu(cards, Path(tempfile.gettempdir()) / f"labeldp-cards-{getpass.getuser()}")


def take_gpu(names: list[str], folder: Path) -> tuple[int, FileLock]:
    """Returns the place of a GPU that the fewest processes hold, and the lock on it.

    Args:
        names: what the machine calls them, such as `0`, the same in all processes.
        folder: of the locks, of this machine; made if need be.

    Raises:
        InputError: the locks cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for round_ in count():
            for place, name in enumerate(names):
                lock = FileLock(folder / f"{name.strip().replace('/', '_')}.{round_}.lock")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue
                return place, lock
    except OSError as error:
        raise InputError(
            f"cannot deal out GPUs in {folder}: {error.strerror} (name one: device=cuda:0)"
        ) from error
    raise AssertionError("count() has no end")
