"""Worker processes: one piece of work on every core, whatever the number of cores gives."""

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any, TypeVar

import torch

from labeldp_bench.host import keep_memory

Block = TypeVar("Block")

_pool: ProcessPoolExecutor | None = None


def count() -> int:
    """Returns how many processes work: the number of torch's threads, so OMP_NUM_THREADS."""
    return torch.get_num_threads()


def spread(function: Callable[[Block], Any], blocks: Sequence[Block]) -> Iterator[Any]:
    """Yields function(block) of each block in order, computed in processes of one thread each.

    The processes stay for the next call: they take seconds to import torch. Ctrl-C and an
    exception end them; blocks should be short, as those that run are waited for.

    Args:
        function: a module's, or a partial of one; what it takes and returns can be pickled.
        blocks: what it is called with.
    """
    global _pool
    if _pool is None:
        _pool = ProcessPoolExecutor(
            count(), multiprocessing.get_context("spawn"), initializer=_start
        )
    done = False
    try:
        with _held_back(signal.SIGINT):  # workers inherit that: their parent hears Ctrl-C
            futures = [_pool.submit(_call, function, block) for block in blocks]
        for future in futures:
            # Bytes, as torch would send tensors through shared memory that dies with its process.
            yield pickle.loads(future.result())
        done = True
    finally:
        if not done:
            _end()


def _end() -> None:
    global _pool
    if _pool is not None:
        _pool.shutdown(cancel_futures=True)
        _pool = None


atexit.register(_end)


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Delivers a signal after the block; processes that start in it never get the signal."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start() -> None:
    """Prepares a worker: one thread, and gone with its parent."""
    torch.set_num_threads(1)
    keep_memory()
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _call(function: Callable[[Block], Any], block: Block) -> bytes:
    return pickle.dumps(function(block))
