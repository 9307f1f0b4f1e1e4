"""A pretend GPU: tensors that say they lie on a card, where those of the CPU may not meet them.

Values lie in ordinary memory and every operation runs on the CPU, so that results are those of a
CPU. Refused is what a GPU refuses, tensors of both devices and a generator of the CPU for a tensor
on the card, and what makes it wait in secret: an index of the CPU. Values that the program waits
for are counted, and copies onto the card that wait for it. Not there: autocast, the
compiler, kernels of their own.
"""

import json
import traceback
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.shell import HANGS, SERVER

NAME = "card"
MOVES = ("aten::copy_", "aten::_to_copy", "aten::to")
WAITS = ("aten::nonzero", "aten::masked_select", "aten::equal", "aten::_local_scalar_dense")


class OnCard(torch.Tensor):
    """A tensor on the card."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values):
        where = dict(dtype=values.dtype, device=torch.device(NAME, 0))
        where |= dict(strides=values.stride(), storage_offset=values.storage_offset())
        return torch.Tensor._make_wrapper_subclass(cls, values.size(), **where)

    def __init__(self, values):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, operation, types, given=(), named=None):
        return Card.running.run(operation, given, named or {})

    def __reduce_ex__(self, protocol):
        return self.values.__reduce_ex__(protocol)  # files are read with map_location="cpu"

    def item(self):
        Card.running.waits += 1
        return self.values.item()

    def tolist(self):
        Card.running.waits += 1
        return self.values.tolist()

    def numpy(self):
        raise TypeError("a tensor on the card is no array")

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __bool__(self):
        return bool(self.item())


class Card(TorchDispatchMode):
    """The card, while this context is open.

    Attributes:
        operations: how many ran there.
        waits: how often the program waited for a value.
        uploads: how often it copied a tensor onto the card and waited for it.
    """

    running: "Card"

    def __init__(self):
        super().__init__()
        self.operations = self.waits = self.uploads = 0
        Card.running = self

    def __torch_dispatch__(self, operation, types, given=(), named=None):
        return self.run(operation, given, named or {})

    def run(self, operation: Any, given: tuple, named: dict) -> Any:
        name = operation.name().split(".")[0]
        leaves = tree_leaves((given, named))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        there = [tensor for tensor in tensors if isinstance(tensor, OnCard)]
        onto = bool(there)
        if named.get("device") is not None:
            onto = torch.device(named["device"]).type == NAME
            named = {**named, "device": torch.device("cpu")}
        elif name == "aten::copy_":
            onto = isinstance(given[0], OnCard)
        if there and name not in MOVES:
            # A number of the CPU may meet any tensor.
            if any(tensor.dim() for tensor in tensors if not isinstance(tensor, OnCard)):
                raise RuntimeError(f"{name}: tensors of two devices")
            self.waits += name in WAITS
        if onto and any(isinstance(leaf, torch.Generator) for leaf in leaves):
            raise RuntimeError(f"{name}: a generator of the CPU for a tensor on the card")
        self.operations += onto
        if onto and name in MOVES:
            source, *rest = given[1:] if name == "aten::copy_" else given
            overlaps = bool(rest and rest[-1]) or named.get("non_blocking", False)
            self.uploads += not isinstance(source, OnCard) and not overlaps
        known = {id(tensor.values): tensor for tensor in there}
        given, named = tree_map_only(OnCard, lambda tensor: tensor.values, (given, named))
        results = operation(*given, **named)

        def placed(result):
            if not onto:
                return result
            # In place: the same tensor again, or autograd would lose it.
            return known[id(result)] if id(result) in known else OnCard(result)

        return tree_map_only(torch.Tensor, placed, results)


def run_on_card(cells: list[list[str]], folder: Path, fail_at: int | None = None) -> dict[str, Any]:
    """Runs cells, given by their overrides, in a process of its own that has a card.

    Args:
        cells: of one job.
        folder: of the runs.
        fail_at: which epoch of all fits fails once; the cells run again.

    Returns:
        `operations`, `waits`, `uploads` of the card, and `errors`: the tracebacks of what failed.
    """
    process = SERVER.Process(target=_run, args=(cells, folder, fail_at))
    process.start()
    process.join(HANGS)
    assert process.exitcode == 0
    return json.loads((folder / "card.json").read_text())


def _run(cells: list[list[str]], folder: Path, fail_at: int | None) -> None:
    from torch.utils import backend_registration as registration

    class Backend(registration._DummyBackendModule):
        def get_amp_supported_dtype(self):
            return []  # but autocast asks

    registration._setup_privateuseone_for_python_backend(NAME, Backend())
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=card) would pass us by
    torch.set_num_threads(1)
    composed = [compose_cell([*cell, "trainer.precision=float32"]) for cell in cells]
    data_dir = next(text for text in cells[0] if text.startswith("data_dir=")).split("=", 1)[1]
    environment = Environment(folder, Path(data_dir), torch.device(NAME, 0), checkpoint_epochs=1)
    with Card() as card:
        if fail_at is not None:
            _fail_once(composed, environment, fail_at)
        errors: list[str] = []

        def keep(cell, folder, error):
            errors.append("".join(traceback.format_exception(error)))

        run_cells(composed, environment, keep)
    told = {"operations": card.operations, "waits": card.waits, "uploads": card.uploads}
    told["errors"] = errors
    (folder / "card.json").write_text(json.dumps(told))


def _fail_once(cells: list, environment: Environment, epoch: int) -> None:
    from labeldp_bench.training.network_fit import NetworkFit

    plain, calls = NetworkFit.begin_epoch, []

    def once(fit):
        calls.append(1)
        if len(calls) == epoch:
            raise RuntimeError("cut off")
        plain(fit)

    NetworkFit.begin_epoch = once
    assert run_cells(cells, environment) == 1
    NetworkFit.begin_epoch = plain
    assert list(environment.out_dir.rglob("checkpoint.pt"))
