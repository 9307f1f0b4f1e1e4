"""Where a run happens: folders and hardware; nothing in here changes a result."""

import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from labeldp_bench.files import writable_folder
from labeldp_bench.validate import InputError, check_integer


@dataclass(frozen=True)
class Place:
    """Where a run happens; nothing in here changes its result.

    Attributes:
        out_dir: holds the runs' folders.
        data_dir: holds the data sets.
        device: where networks live.
        checkpoint_epochs: epochs from one checkpoint to the next; None: one a minute.
    """

    out_dir: Path
    data_dir: Path
    device: torch.device
    checkpoint_epochs: int | None = None


def place_of(
    out_dir: str, data_dir: str, device: str, checkpoint_epochs: int | None = None
) -> Place:
    """Returns the place that these keys name; makes the folder `out_dir`.

    Raises:
        InputError: a device that is not there, or an `out_dir` that one cannot write to.
    """
    if not data_dir:
        raise InputError("data_dir must be a folder, got ''")
    if checkpoint_epochs is not None:
        check_integer("checkpoint_epochs", checkpoint_epochs, low=1)
    hardware = resolve_device(device)
    folder = writable_folder(out_dir, f"out_dir must be a folder one can write to, got {out_dir!r}")
    return Place(folder, Path(data_dir).expanduser(), hardware, checkpoint_epochs)


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
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        models = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0].split(":", 1)[1].strip() if models else name
    return f"cpu ({name}, {torch.get_num_threads()} threads)"
