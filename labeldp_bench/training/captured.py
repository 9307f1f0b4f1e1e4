"""The step of a GPU as one CUDA graph: recorded once, then replayed by a single launch."""

from collections.abc import Callable

import torch
from torch import Tensor

from labeldp_bench.interfaces import Session

KINDS = ("cuda",)
"""Kinds of devices that record steps."""
WARM_UP = 3
"""Ordinary steps before: they compile, choose kernels and make the optimizer's state."""


class CapturedStep:
    """A step of training that is recorded once, and from then on replayed.

    A replay reads and writes the memory of the recording: inputs are copied to where they were
    then, and the learning rate is a number on the card. Random numbers of the step, such as
    dropout's, go on from replay to replay, since torch registers the card's generator. Images of
    another size are recorded anew. A step that cannot be recorded is said once, and runs as before.

    Source: torch's notes on CUDA graphs, whole-network capture.

    Args:
        learn: one step, of tensors whose shapes seldom change; reads nothing back from the card.
        optimizer: the one that `learn` uses; its rates are those of each replay.
        session: is told where recording fails; its notes say `captured` where it succeeds.
    """

    def __init__(
        self,
        learn: Callable[..., None],
        optimizer: torch.optim.Optimizer,
        session: Session,
    ) -> None:
        self.learn, self.optimizer, self.session = learn, optimizer, session
        self.ordinary_steps: float = WARM_UP
        self.replay: Callable[[], None] | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.rates: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> None:
        """Learns from one batch."""
        if self.replay is not None and inputs[0].shape != self.inputs[0].shape:
            self.replay, self.ordinary_steps = None, WARM_UP
        if self.replay is None and self.ordinary_steps == 0:
            self._record(inputs)
        if self.replay is None:
            self.ordinary_steps -= 1
            self.learn(*inputs)
            return
        for kept, given in zip(self.inputs, inputs, strict=True):
            kept.copy_(given)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])  # an argument of a kernel: no copy, no wait
        self.replay()

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = tuple(given.clone() for given in inputs)
        groups, device = self.optimizer.param_groups, inputs[0].device
        self.rates = [torch.tensor(group["lr"], device=device) for group in groups]
        before = [dict(group) for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
            if "capturable" in group:
                group["capturable"] = True
        try:
            self.replay = record(lambda: self.learn(*self.inputs))
            self.session.notes["captured"] = True
        except RuntimeError as error:
            self.ordinary_steps = float("inf")
            reason = " ".join(str(error).split())[:100]
            self.session.say(f"  recording the step failed ({reason}), so training goes on without")
        for group, kept in zip(groups, before, strict=True):
            group.update(kept)  # ordinary steps, and checkpoints, have numbers


def record(work: Callable[[], None]) -> Callable[[], None]:
    """Returns what does `work` again on the card; records it without doing it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
