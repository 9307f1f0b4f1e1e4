"""What a machine computes on, as far as one can say before torch is imported."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
DRIVERS = tuple(map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))
"""Of NVIDIA, of AMD, and of a GPU that Windows lends to Linux."""


def cpu_name(threads: int) -> str:
    """Returns the CPU's name for the record."""
    name = platform.processor() or platform.machine()
    return f"cpu ({_of_cpu('model name') or name}, {threads} threads)"


def cpu_without_torch(device: str) -> str | None:
    """Returns the name of the CPU that `device=` takes; None where only torch can tell."""
    may_be_gpu = platform.system() == "Windows" or any(path.exists() for path in DRIVERS)
    if device != "cpu" and (device != "auto" or may_be_gpu):
        return None
    return cpu_name(os.cpu_count() or 1)


def _of_cpu(field: str) -> str:
    """Returns a field of the first processor; empty where the system says none."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.is_file() else []
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(field))
    return next(values, "")
