"""Official data sets: torchvision fetches and checks them. Imports no torch."""

import contextlib
import functools
import io
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.support.files import CannotWrite, only_one, replacing
from labeldp.support.validate import InputError


@dataclass(frozen=True)
class OfficialData:
    """One data set that torchvision fetches.

    Attributes:
        torchvision: the name of torchvision's class.
        num_classes: K.
        n_train: number of training images.
    """

    torchvision: str
    num_classes: int
    n_train: int


OFFICIAL = {
    "mnist": OfficialData("MNIST", 10, 60_000),
    "fashion_mnist": OfficialData("FashionMNIST", 10, 60_000),
    "kmnist": OfficialData("KMNIST", 10, 60_000),
    "cifar10": OfficialData("CIFAR10", 10, 50_000),
    "cifar100": OfficialData("CIFAR100", 100, 50_000),
}
"""Our name -> the data set; configs/dataset has a file for each.

The committed results of CIFAR are of copies in another order than torchvision's.
"""


NETWORK_TIMEOUT = 15.0
"""Seconds of silence after which a server counts as not there."""


class NotAvailable(InputError):
    """A data set is not there and cannot be fetched; the message names the ways out.

    Attributes:
        reason: why, without the ways out.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        ways_out = [
            f"set data_dir= or LABELDP_DATA to a folder that holds {path.name}",
            f"write {path.name} yourself, with arrays x_train, x_test (uint8, NHWC or NHW) and "
            "y_train, y_test (int64)",
        ]
        if path.stem in OFFICIAL:
            ways_out.insert(0, "run `make data` where there is a network")
        super().__init__(
            f"no file {path}, and {reason} "
            f"({'three' if len(ways_out) == 3 else 'two'} ways out: {'; '.join(ways_out)})"
        )


def fetch(name: str, path: Path) -> None:
    """Writes the official data set `name` to `path`, unless another process has just done so.

    Files in torchvision's own layout beside `path` are read without a network.

    Raises:
        NotAvailable: not an official data set, no torchvision, no network, damaged files, or
            nothing can be written there.
    """
    if name not in OFFICIAL:
        raise NotAvailable(
            path, f"{name} is none of those that can be fetched: {', '.join(OFFICIAL)}"
        )
    is_new = not path.parent.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"waiting for the process that fetches {path.stem}"
        with only_one(path, lambda: print(waiting, file=sys.stderr)):
            if not path.exists():
                arrays = _read_official(name, path)
                with replacing(path) as partial, partial.open("wb") as file:
                    np.savez(file, allow_pickle=False, **arrays)
    except (OSError, CannotWrite) as error:
        raise NotAvailable(
            path, f"it cannot be written: {brief(error.__cause__ or error)}"
        ) from error
    finally:
        if is_new and not path.exists():  # such as a mistyped data_dir
            _remove_empty(path)


def _remove_empty(path: Path) -> None:
    """Removes the lock of `path` and every empty folder in its parent; other files stay."""
    path.with_name(f".{path.name}.lock").unlink(missing_ok=True)
    folders = [folder for folder in path.parent.rglob("*") if folder.is_dir()]
    for folder in [*sorted(folders, reverse=True), path.parent]:
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


def brief(error: BaseException) -> str:
    """Returns an error's kind and the last line of its text, which names the cause."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def _read_official(name: str, path: Path) -> dict[str, np.ndarray]:
    try:
        make = getattr(import_torchvision().datasets, OFFICIAL[name].torchvision)
    except Exception as error:
        raise NotAvailable(path, f"torchvision cannot be imported: {brief(error)}") from error
    root = str(path.parent)
    try:
        parts = _both_parts(make, root, download=False)
    except Exception as without_download:
        print(f"fetching {name} with torchvision into {root}", file=sys.stderr)
        try:
            parts = _both_parts(make, root, download=True)
        except Exception as error:
            # torchvision checks downloads, but not unpacked files: it keeps them as they are.
            same = repr(error) == repr(without_download)
            what = f"its files in {root} are damaged (delete them)" if same else "fetching failed"
            raise NotAvailable(path, f"{what}: {brief(error)}") from error
    arrays = {}
    for key, part in zip(("train", "test"), parts, strict=True):
        arrays[f"x_{key}"] = np.asarray(part.data, dtype=np.uint8)
        arrays[f"y_{key}"] = np.asarray(part.targets, dtype=np.int64)
    return arrays


def _both_parts(make: Any, root: str, download: bool) -> list[Any]:
    before = socket.getdefaulttimeout()
    # Without it a network that swallows packets holds a run up for minutes.
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        # torchvision prints to stdout, where results go; its progress bar is on stderr.
        with contextlib.redirect_stdout(io.StringIO()):
            return [make(root, train=train, download=download) for train in (True, False)]
    finally:
        socket.setdefaulttimeout(before)


_schemas: list[Any] = []


@functools.cache
def import_torchvision() -> Any:
    """Returns torchvision, also where its compiled part does not fit torch.

    The published wheel is linked against CUDA; beside a CPU build of torch its operators are
    missing, and the import stops at the first one that Python code refers to (pytorch/vision
    issues 8985, 9077). Declaring them is enough for reading data; where the import works they
    exist, and a second declaration would be an error.
    """
    try:
        import torchvision
    except RuntimeError:
        import torch  # not above: tables of records read OFFICIAL and need no torch

        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _schemas.append(library)  # dropped, it would take the declarations with it
        import torchvision
    return torchvision
