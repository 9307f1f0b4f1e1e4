"""What the trainer's loop feeds with batches: one network while it is trained."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import torch
from torch import Generator, Tensor

from labeldp.support.validate import Diverged
from labeldp_bench.interfaces import FitCheckpoint, State
from labeldp_bench.training.augment import Mixing
from labeldp_bench.training.classifier import NetworkClassifier


class Fit(ABC):
    """One network while it is trained.

    Args:
        classifier: trained in place.
        optimizer: called with the parameters and `fused=True`, the same update in one kernel.
        indices: int64 (n,), the training examples that are used.
        checkpoint: where the fit leaves its state after an epoch; None: nowhere.
    """

    def __init__(
        self,
        classifier: NetworkClassifier,
        optimizer: Callable[..., torch.optim.Optimizer],
        indices: Tensor,
        checkpoint: FitCheckpoint | None,
    ) -> None:
        self.classifier, self.indices, self.checkpoint = classifier, indices, checkpoint
        self.optimizer = optimizer(classifier.network.parameters(), fused=True)
        self.peak_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.loss_sum = torch.zeros((), device=classifier.device)
        self.number = 0
        self.streams: tuple[Generator, ...] = ()

    def set_rate(self, factor: float) -> None:
        """Sets the learning rate to `factor` of its peak."""
        for group, rate in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
            group["lr"] = rate * factor

    def resume(self, order: Generator, draws: Generator) -> int:
        """Restores the fit from its checkpoint, if there is one; returns how many epochs it did.

        Args:
            order: stream of the epochs' orders, restored too.
            draws: stream of the augmentation, restored too.
        """
        self.streams = (order, draws)
        saved = self.checkpoint.next_fit() if self.checkpoint is not None else None
        if self.checkpoint is None or saved is None:
            return 0
        with self.checkpoint.restoring():
            return self.restore(saved)

    def state(self) -> State:
        """Returns what the fit needs to go on, for a checkpoint."""
        return {
            "epoch": self.number,
            "network": self.classifier.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "streams": [stream.get_state() for stream in self.streams],
            "dropout": dropout_state(self.classifier.device),
        }

    def restore(self, saved: State) -> int:
        """Takes back what `state` returned; returns the number of finished epochs."""
        self.classifier.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for stream, state in zip(self.streams, saved["streams"], strict=True):
            stream.set_state(state)
        set_dropout_state(saved["dropout"], self.classifier.device)
        return int(saved["epoch"])

    def begin_epoch(self) -> None:
        """Clears the sums, which stay on the device and are read once, after the epoch."""
        self.classifier.network.train()
        self.loss_sum.zero_()

    @abstractmethod
    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch; reads nothing back from the device.

        Args:
            batch: float (B, C, H, W), augmented and mixed.
            rows: int64 (B,), the batch's positions in `indices`.
            mixing: how the batch was mixed; None: not at all.
        """

    @abstractmethod
    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Reports an epoch; returns whether to stop before the last one.

        Args:
            number: of the epoch, from 1.
            started: its start on the clock `time.perf_counter`.
            views: yields new augmented views of all examples, part by part.
        """

    def finish(self) -> None:
        """Ends the fit after its last epoch."""
        return None

    def descend(self, loss: Tensor) -> None:
        """Moves the weights by one step of the optimizer, down the gradient of `loss`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def mean_loss(self, number: int) -> float:
        """Returns the mean loss over the examples of epoch `number`; waits for the device.

        Raises:
            Diverged: the loss is NaN or infinite.
        """
        mean = float(self.loss_sum) / len(self.indices)
        if not math.isfinite(mean):
            raise Diverged(
                f"the loss became {mean} in epoch {number} "
                "(lower trainer.optimizer.lr, or set trainer.precision=float32)"
            )
        return mean


def dropout_state(device: torch.device) -> list[Tensor]:
    """Returns the state of the global streams, which dropout draws from."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_dropout_state(states: list[Tensor], device: torch.device) -> None:
    """Restores the state that `dropout_state` returned."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
