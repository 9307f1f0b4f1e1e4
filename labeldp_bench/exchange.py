"""What vault, learner and model hand to each other: features and releases, never true labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from labeldp_bench.door import ReleaseDoor
from labeldp_bench.losses import Loss
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.release import Release

if TYPE_CHECKING:
    from labeldp_bench.checkpoint import Checkpoint


@dataclass(frozen=True)
class Supervision:
    """What a model may know of the training labels.

    Attributes:
        indices: int64 (n,), which training examples.
        targets: what the loss compares with, first axis n.
        plausible: bool (n, K), the classes that explain each release best.
        loss: how targets are used.
        refine: called after each epoch with its number and the mean log probabilities that the
            network, in evaluation mode, gives to fresh views of each example, float32 (n, K), in
            the order of `indices`; returns the next epoch's targets. None: they stay.
        validate: the score of a classifier on validation labels; asked for after each epoch by
            `trainer.selection=best_validation`. None: there are no such labels.
    """

    indices: Tensor
    targets: Tensor
    plausible: Tensor
    loss: Loss
    refine: Callable[[int, Tensor], Tensor] | None = None
    validate: Callable[["Classifier"], float] | None = None

    @classmethod
    def of(cls, releases: Sequence[Release], loss: Loss) -> "Supervision":
        """Returns the supervision that `loss` draws from releases of different examples."""
        return cls(
            _joined([release.indices for release in releases]),
            _joined([loss.targets(release) for release in releases]),
            _joined([release.plausible for release in releases]),
            loss,
        )

    def take(self, kept: Tensor) -> "Supervision":
        """Returns the supervision of the examples where `kept`, bool (n,), holds."""
        assert self.refine is None, "refined targets belong to all examples"
        return replace(
            self,
            indices=self.indices[kept],
            targets=self.targets[kept],
            plausible=self.plausible[kept],
        )

    @property
    def num_classes(self) -> int:
        """K."""
        return self.plausible.shape[1]

    def votes(self) -> Tensor:
        """Returns what each example adds to a vote, float32 (n, K)."""
        return self.loss.votes(self.targets, self.num_classes)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # torch.cat copies even one


@dataclass(frozen=True)
class Epoch:
    """What one training epoch reports; all from releases."""

    number: int
    total: int
    loss: float
    released_hits: float
    lr: float
    seconds: float
    num_examples: int


class Classifier(Protocol):
    """A fitted model."""

    def scores(self, features: Tensor) -> Tensor:
        """Returns one score per class, float (m, K), CPU; the largest is the prediction."""

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns class probabilities, float64 (m, K), CPU, rows sum to 1; T < 1 sharpens."""


@dataclass(frozen=True)
class Session:
    """Where and how a fit runs.

    Attributes:
        seed: the run's seed; fits use its stream "train".
        device: where networks live.
        on_epoch: called after every epoch with the classifier so far; nothing comes back, so
            that no test label can reach a learner.
        say: prints one line for the user.
        queries: test features, for learners that average around given points; features are
            public, test labels stay away.
        notes: what a fit wants in the record; releases and features only.
        stage: which of the learner's `stages` this fit is, counted from 0.
        stages: how many there are.
        checkpoint: where fits leave their state after an epoch; None for nowhere.
    """

    seed: int
    device: torch.device
    on_epoch: Callable[[Epoch, Classifier], None]
    say: Callable[[str], None]
    queries: Tensor | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    stage: int = 0
    stages: int = 1
    checkpoint: "Checkpoint | None" = None


class Model(Protocol):
    """What configs/model builds: something that can be fitted to supervision."""

    def resolved_precision(self, device: torch.device) -> str:
        """Returns `bf16` or `float32`: what a fit on `device` computes in."""

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None,
    ) -> Classifier:
        """Returns the fitted classifier; `start` gives initial weights to a model that has any."""


class Learner(Protocol):
    """What configs/learner builds: asks the vault for releases and fits a model to them."""

    loss: str

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the fitted classifier; `vault` leads to the run's budget."""
