"""Where runs happen: folders and hardware. Nothing in here changes a result."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labeldp.support.files import writable_folder
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.support.cards import own_card
from labeldp_bench.support.device import resolve_device


@dataclass(frozen=True)
class Environment:
    """Where runs happen.

    Attributes:
        out_dir: holds the runs' folders.
        data_dir: holds the data sets.
        device: where networks live.
        checkpoint_epochs: epochs from one checkpoint to the next; None: one a minute; 0: none.
        release_only: the file to write releases to, in place of a run.
        releases: the file of another process's releases, which a run learns from; the labels stay
            closed.
        captures: whether a GPU's steps are recorded as one CUDA graph.
    """

    out_dir: Path
    data_dir: Path
    device: torch.device
    checkpoint_epochs: int | None = None
    release_only: Path | None = None
    releases: Path | None = None
    captures: bool = False

    def on_own_card(self) -> "Environment":
        """Returns the same for the process that runs: of several GPUs it takes one for itself."""
        return replace(self, device=own_card(self.device))


def environment_of(
    out_dir: str,
    data_dir: str,
    device: str,
    checkpoint_epochs: int | None = None,
    release_only: str | None = None,
    releases: str | None = None,
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
    if releases is not None and not Path(releases).expanduser().is_file():
        raise InputError(
            f"releases must be a file: there is no {releases} (release_only= makes one)"
        )
    hardware = resolve_device(device)
    folder = writable_folder(out_dir, f"out_dir must be a folder one can write to, got {out_dir!r}")
    return Environment(
        folder,
        Path(data_dir).expanduser(),
        hardware,
        checkpoint_epochs,
        Path(release_only).expanduser() if release_only is not None else None,
        Path(releases).expanduser() if releases is not None else None,
        capture,
    )
