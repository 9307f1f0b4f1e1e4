"""What the trainer's loop feeds with batches: one network while it is trained."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import torch
from torch import Generator, Tensor

from labeldp_bench.support.validate import Diverged
from labeldp_bench.training.augment import Mixing
from labeldp_bench.training.classifier import NetworkClassifier


class Fit(ABC):
    """One network while it is trained.

    Args:
        classifier: trained in place.
        optimizer: called with the parameters and `fused=True`, the same update in one kernel.
        indices: int64 (n,), the training examples that are used.
    """

    def __init__(
        self,
        classifier: NetworkClassifier,
        optimizer: Callable[..., torch.optim.Optimizer],
        indices: Tensor,
    ) -> None:
        self.classifier, self.indices = classifier, indices
        self.optimizer = optimizer(classifier.network.parameters(), fused=True)
        self.peak_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.loss_sum = torch.zeros((), device=classifier.device)

    def set_rate(self, factor: float) -> None:
        """Sets the learning rate to `factor` of its peak."""
        for group, rate in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
            group["lr"] = rate * factor

    def resume(self, order: Generator, draws: Generator) -> int:
        """Restores a saved fit, if there is one; returns the number of its finished epochs.

        Args:
            order: stream of the epochs' orders, restored too.
            draws: stream of the augmentation, restored too.
        """
        return 0

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
