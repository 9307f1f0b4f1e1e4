"""What a machine computes on, as far as one can say before torch is imported."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

CPUINFO = Path("/proc/cpuinfo")
BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
DRIVERS = tuple(map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))
"""Of NVIDIA, of AMD, and of a GPU that Windows lends to Linux."""


class Hardware(NamedTuple):
    """What a forecast depends on.

    Attributes:
        name: as a record names it.
        precision: what networks compute in: bf16 or float32.
    """

    name: str
    precision: str


def cpu_name(threads: int) -> str:
    """Returns the CPU's name for the record."""
    name = platform.processor() or platform.machine()
    return f"cpu ({_of_cpu('model name') or name}, {threads} threads)"


def cpu_without_torch(device: str) -> Hardware | None:
    """Returns the CPU that `device=` names; None where it may be a GPU, which torch must tell."""
    may_be_gpu = platform.system() == "Windows" or any(path.exists() for path in DRIVERS)
    if device != "cpu" and (device != "auto" or may_be_gpu):
        return None
    has_bf16 = bool(BF16_FLAGS & {*_of_cpu("flags").split()})
    return Hardware(cpu_name(os.cpu_count() or 1), "bf16" if has_bf16 else "float32")


def _of_cpu(field: str) -> str:
    """Returns a field of the first processor; empty where the system says none."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.is_file() else []
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(field))
    return next(values, "")
