"""Where a run's files lie, and the device that it takes."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labeldp.support.files import writable_folder
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.support.device import own_gpu, resolve_device


@dataclass(frozen=True)
class Environment:
    """Where runs happen.

    Attributes:
        out_dir: holds the runs' folders.
        data_dir: holds the data sets.
        device: where networks live.
        checkpoint_epochs: epochs from one checkpoint to the next; None: one a minute; 0: none.
        captures: whether a GPU's steps are recorded as one CUDA graph.
    """

    out_dir: Path
    data_dir: Path
    device: torch.device
    checkpoint_epochs: int | None = None
    captures: bool = False

    def on_own_gpu(self) -> "Environment":
        """Returns the same for the process that runs: of several GPUs it takes one for itself."""
        return replace(self, device=own_gpu(self.device))


def environment_of(
    out_dir: str,
    data_dir: str,
    device: str,
    checkpoint_epochs: int | None = None,
    capture: bool = False,
) -> Environment:
    """Returns the environment that these keys name; makes the folder `out_dir`.

    Raises:
        InputError: a device that is not there, or an `out_dir` that one cannot write to.
    """
    if not data_dir:
        raise InputError("data_dir must be a folder, got ''")
    if checkpoint_epochs is not None:
        check_integer("checkpoint_epochs", checkpoint_epochs, low=0)
    hardware = resolve_device(device)
    folder = writable_folder(out_dir, f"out_dir must be a folder one can write to, got {out_dir!r}")
    return Environment(folder, Path(data_dir).expanduser(), hardware, checkpoint_epochs, capture)
