"""Settings of the process: threads and memory of a CPU, kernels of a GPU."""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP_BYTES, KEEP_BLOCK = 2**31 - 1, 2**30


def prepare_threads() -> None:
    """Lets idle threads sleep; call before torch is imported, which reads the setting.

    Threads that spin while they wait steal the core from any other process: on two shared cores
    a training step took up to four times as long. A value set by the user stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def prepare_training() -> None:
    """Keeps memory between steps, and says how a GPU convolves; imports torch."""
    keep_memory()
    import torch

    # Batches have one size, and one shorter: the fastest of all kernels is worth the search.
    torch.backends.cudnn.benchmark = True
    # TF32 has 10 bits of mantissa; a record that says float32 would not be true.
    torch.backends.cudnn.allow_tf32 = False


def keep_memory() -> None:
    """Makes the C library keep freed memory for the next step in place of returning it.

    Activations of tens of megabytes are otherwise mapped and unmapped in every step, and half of
    the time goes into page faults: 148 ms became 99 ms a step of the MNIST CNN, one thread.
    Nothing happens where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEEP_BLOCK)
        mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)
