"""A card that is not there: a CUDA wheel traces and compiles for it, and what it does is counted.

Tensors on it are fake: shape, type, strides and no values. Operations between them are torch's own
rules for each operation on CUDA, generated code is run as far as its checks and calls, and Triton's
kernels are compiled by ptxas and never launched. Seen are the types and layouts that convolutions
get, values that the program waits for, and strides that differ from what generated code was told.
Not seen: numbers, times, which kernels cuDNN and cuBLAS choose.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from labeldp.support.files import replacing
from labeldp.support.validate import InputError

SOURCE = Path(__file__).with_name("fake_card.c")
LIBRARY = "libcuda.so.1"
WAITS = ("aten._local_scalar_dense", "aten.nonzero", "aten.masked_select", "aten.equal")
MOVES = ("aten._to_copy", "aten.copy_", "prims.device_put")


def require_wheel() -> None:
    """Refuses a torch that was not built for CUDA, or one with a real card.

    Raises:
        InputError: saying how to get the other one.
    """
    if torch.version.cuda is None:
        raise InputError(
            f"torch {torch.__version__} is for CPUs, and knows no rules for CUDA (install the "
            "extra cuda-dry-run into an environment of its own: docs/gpu.md)"
        )
    if "fake" not in os.environ.get("LD_PRELOAD", "") and torch.cuda.is_available():
        raise InputError("there is a real card: use benchmarks.training and benchmarks.trainers")


def restart_with_card(folder: Path, module: str, arguments: Sequence[str]) -> None:
    """Starts the program again with the fake card in place; returns where it already is.

    Args:
        folder: as `card_environment`.
        module: of the program.
        arguments: its own.

    Raises:
        InputError: as `card_environment`.
    """
    if "fake" in os.environ.get("LD_PRELOAD", ""):
        return
    own = card_environment(folder)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], {**os.environ, **own})


def card_environment(folder: Path) -> dict[str, str]:
    """Returns the environment in which a process finds the fake card.

    Args:
        folder: for the library and what is compiled; made if need be.

    Raises:
        InputError: no C compiler, or a wheel without headers.
    """
    library = folder / "fake" / LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    _build(library)
    return {
        "LD_PRELOAD": str(library),
        "TRITON_LIBCUDA_PATH": str(library.parent),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Of generated code that looks where its arguments lie, which fake ones do not tell.
        "PYTHONWARNINGS": "ignore:Accessing the data pointer:UserWarning",
    }


def _build(library: Path) -> None:
    packages = Path(torch.__file__).parents[1]
    headers = [
        packages / "nvidia" / "cu13" / "include",
        packages / "triton/backends/nvidia/include",
    ]
    if not (headers[0] / "driver_types.h").is_file():
        raise InputError(
            f"torch {torch.__version__} has no headers of CUDA 13 beside it (use torch==2.11.0)"
        )
    with replacing(library) as partial:
        command = [
            "gcc", "-w", "-shared", "-fPIC", *(f"-I{folder}" for folder in headers),
            f"-Wl,-soname,{LIBRARY}", "-o", str(partial), "-xc", str(SOURCE),
        ]  # fmt: skip
        try:
            told = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise InputError("the fake card needs a C compiler (install gcc)") from None
        if told.returncode:
            raise InputError(f"gcc cannot build {SOURCE.name}: {told.stderr.strip()[:200]}")


class FakeCard(FakeTensorMode):
    """Fake tensors on CUDA, real ones on the CPU, and counts of what passes while it watches.

    Attributes:
        watches: whether anything is counted.
        waits: what the program waited for, by operation.
        convolutions: what those of both directions were given, by type and layout.
        checks: of sizes and strides, in generated code.
        mismatches: what these found, and gradients that are not laid out as their weights.
        launches: of Triton's kernels.
    """

    running: ClassVar["FakeCard | None"] = None

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.watches = False
        self.waits: Counter[str] = Counter()
        self.convolutions: Counter[str] = Counter()
        self.checks, self.launches = 0, 0
        self.mismatches: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs one operation: on the CPU for real, on the card by its rule of shapes."""
        named = dict(kwargs or {})
        if torch._guards.TracingContext.try_get() is None:  # no compiler is at work
            fake = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, named)))
            if not fake and "cuda" not in _devices(args, named):
                return func(*args, **named)
            if self.watches:
                self._see(str(func).rpartition(".")[0], args, named)
            if func is torch.ops.aten._local_scalar_dense.default:
                return 1.0
        return super().__torch_dispatch__(func, types, args, named)

    def _see(self, name: str, given: Any, named: Mapping[str, Any]) -> None:
        if name in WAITS:
            self.waits[name] += 1
        elif name in MOVES:
            overlaps = named.get("non_blocking", False) or (len(given) > 2 and given[2] is True)
            if len(_devices(given, named)) > 1 and not overlaps:
                self.waits[f"{name}, blocking"] += 1
        elif name.startswith("aten.convolution"):
            for tensor in given[: 2 + name.endswith("backward")]:
                last = tensor.is_contiguous(memory_format=torch.channels_last)
                kind = str(tensor.dtype).removeprefix("torch.")
                self.convolutions[f"{kind} {'channels_last' if last else 'other layout'}"] += 1
        elif name.startswith("aten._fused_"):
            self.mismatches += [
                f"gradient {tuple(gradient.shape)}"
                for weights, gradient in zip(given[0], given[1], strict=True)
                if weights.stride() != gradient.stride()
            ]

    @contextmanager
    def in_place(self) -> Iterator["FakeCard"]:
        """Lets everything in the block meet this card in place of a real one."""
        from torch._inductor import config
        from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        guards = torch._C._dynamo.guards
        fold = UniformValueConstantFolder.run

        def folded(folder: Any) -> Any:
            with _OnCpu():
                return fold(folder)

        def empty(size: Any, stride: Any, dtype: torch.dtype) -> Tensor:
            return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

        def view(base: Tensor, size: Any, stride: Any, start: int = 0) -> Tensor:
            return base.as_strided(size, stride, base.storage_offset() + start)

        def check(tensor: Tensor, size: Any, stride: Any, operation: str = "") -> None:
            card = FakeCard.running  # code that was generated for another one asks here too
            if card is not None and card.watches:
                card.checks += 1
                if tuple(tensor.shape) != tuple(size) or not _alike(tensor, stride):
                    card.mismatches.append(f"{operation or 'input'} {tuple(tensor.shape)}")

        def launch(kernel: Any, *given: Any, **named: Any) -> None:
            self.launches += self.watches

        with (
            # Whether matrices are worth padding is timed on the card.
            config.patch(shape_padding=False),
            mock.patch.object(UniformValueConstantFolder, "run", folded),
            mock.patch.object(CachingAutotuner, "run", launch),
            mock.patch.object(guards, "_empty_strided_cuda", empty),
            mock.patch.object(guards, "_reinterpret_tensor", view),
            mock.patch.object(guards, "assert_size_stride", check),
            mock.patch.object(nn.Module, "to", _moved),
            mock.patch.object(FakeCard, "running", self),
            self,
        ):
            yield self


class _OnCpu(TorchDispatchMode):
    """Computes constants that the compiler folds on the CPU."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        cpu = torch.device("cpu")
        given, named = tree_map_only(torch.device, lambda _: cpu, (args, dict(kwargs or {})))
        return func(*given, **named)


def _devices(*given: Any) -> set[str]:
    """Returns the kinds of devices that arguments of an operation lie on or name."""
    leaves = tree_leaves(given)
    found = {leaf.device.type for leaf in leaves if isinstance(leaf, Tensor)}
    return found | {leaf.type for leaf in leaves if isinstance(leaf, torch.device)}


def _alike(tensor: Tensor, stride: Sequence[int]) -> bool:
    """Returns whether strides are the same where they matter: on axes longer than 1."""
    axes = zip(tensor.shape, tensor.stride(), stride, strict=True)
    return all(own == told for length, own, told in axes if length > 1)


def _moved(
    network: nn.Module, device: torch.device, memory_format: torch.memory_format
) -> nn.Module:
    """Does what `nn.Module.to` does, which cannot exchange a real tensor for a fake one."""
    for module in network.modules():
        for name, weights in module.named_parameters(recurse=False):
            kept = memory_format if weights.dim() == 4 else torch.preserve_format
            moved = weights.detach().to(device, memory_format=kept)
            module.register_parameter(name, nn.Parameter(moved))
        for name, values in module.named_buffers(recurse=False):
            module.register_buffer(name, values.to(device))
    return network
