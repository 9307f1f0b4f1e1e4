"""The step of a GPU: one compile for all runs of a process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

BACKENDS = {"cuda": "inductor"}
"""Where steps are compiled, by kind of device; on a CPU a step took longer compiled than eager."""
# The inductor draws random numbers of its own. With this option it calls the eager kernels: dropout
# then draws from the stream that a checkpoint saves, as it does in a batch that is not compiled.
OPTIONS: dict[str, dict[str, Any]] = {"inductor": {"fallback_random": True}}
# Six losses, with and without mixup, several architectures. Torch's own limit is 8 graphs, after
# which it goes on uncompiled.
GRAPHS = 64


def accelerated(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Returns `function`, compiled where the device's kind has a backend.

    Weights are arguments of the function, so that the next run, whatever its seed, mechanism or
    eps, finds the graph of its architecture, loss and batch size compiled. Where compiling fails
    torch says so and goes on without.
    """
    backend = BACKENDS.get(device.type)
    return function if backend is None else _compiled(function, backend)


@cache
def _compiled(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    import torch._dynamo
    import torch._functorch.config as ahead_of_time

    torch._dynamo.config.recompile_limit = GRAPHS
    torch._dynamo.config.suppress_errors = True  # such as a machine without a C compiler
    # Otherwise the backward pass is compiled when it first runs, where no error is suppressed.
    if hasattr(ahead_of_time, "force_non_lazy_backward_lowering"):  # not in every version of torch
        ahead_of_time.force_non_lazy_backward_lowering = True
    options = OPTIONS.get(backend) if isinstance(backend, str) else None
    return torch.compile(function, backend=backend, options=options, dynamic=False)


@contextmanager
def kernel_search(searches: bool) -> Iterator[None]:
    """Lets cuDNN time its kernels for the sizes in the block, or take one by rule.

    The search takes seconds for each new batch size. It pays for the batches that come in every
    step, not for the last one of an epoch, whose size is another for each number of examples.
    """
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=searches and torch.backends.cudnn.benchmark,
        deterministic=torch.backends.cudnn.deterministic,
        allow_tf32=torch.backends.cudnn.allow_tf32,
    ):  # fmt: skip
        yield


def compilation_notes(device: torch.device) -> dict[str, float | int]:
    """Returns what this process compiled so far, for the record; empty where nothing is compiled.

    Returns:
        `compiled_graphs`: how many; `failed_graphs`: how often torch gave up and went on eager;
        `compile_seconds`: in all.
    """
    if device.type not in BACKENDS:
        return {}
    from torch._dynamo.utils import compilation_time_metrics, counters

    frames = counters["frames"]
    whole = compilation_time_metrics.get("_compile.compile_inner", [])
    return {
        "compiled_graphs": counters["stats"]["unique_graphs"],
        "failed_graphs": frames["total"] - frames["ok"],
        "compile_seconds": round(sum(whole), 1),
    }
