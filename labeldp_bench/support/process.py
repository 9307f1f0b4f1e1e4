"""The process: its threads and memory, a GPU's kernels, and Ctrl-C."""

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP_BYTES, KEEP_BLOCK = 2**31 - 1, 2**30


def prepare_threads() -> None:
    """Lets idle threads sleep. Call it before torch is imported, which reads the setting.

    Threads that spin while they wait steal the core from other processes: on two shared cores a
    training step took up to four times as long. A value that the user set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def prepare_training() -> None:
    """Keeps freed memory for the next step, and chooses a GPU's convolutions. Imports torch."""
    keep_memory()
    import torch

    # All batches but the last have one size: the search for the fastest kernel pays.
    torch.backends.cudnn.benchmark = True
    # TF32 has 10 bits of mantissa, so a record that says float32 would not be true.
    torch.backends.cudnn.allow_tf32 = False


def keep_memory() -> None:
    """Makes the C library keep freed memory instead of returning it to the system.

    Otherwise tens of megabytes of activations are mapped and unmapped in every step, and half of
    the time goes into page faults: a step of the MNIST CNN took 148 ms instead of 99, one thread.
    Does nothing where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEEP_BLOCK)
        mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)


def comes_from_ctrl_c(error: BaseException) -> bool:
    """Returns whether an error was raised while a library cleaned up after Ctrl-C."""
    context: BaseException | None = error
    seen: set[int] = set()  # an error that is raised again may be its own context
    while context is not None and id(context) not in seen:
        if isinstance(context, KeyboardInterrupt):
            return True
        seen.add(id(context))
        context = context.__cause__ or context.__context__
    return False


@contextmanager
def ignoring_ctrl_c() -> Iterator[None]:
    """Ignores Ctrl-C in the block, and in every process that starts inside, for good.

    Only the main thread may say so; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
