"""Protocols between a run, its learner and its model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from labeldp.losses import Loss
from labeldp.mechanisms.measurement import Measurement, Trust
from labeldp.store import LabelStore
from labeldp.supervision import Classifier, Fitted, Supervision

State = dict[str, Any]
"""Tensors, numbers, texts, None, and lists and dicts of them: read back without executing code."""


@dataclass(frozen=True)
class Epoch:
    """What one training epoch reports; everything comes from releases."""

    number: int
    total: int
    loss: float
    released_hits: float
    lr: float
    seconds: float
    num_examples: int
    is_scored: bool = True
    """Whether the classifier so far is to be scored on test labels (`trainer.eval_every`)."""


class FitCheckpoint(Protocol):
    """Where a fit leaves its state after an epoch, and finds it after an interruption."""

    def next_fit(self) -> State | None:
        """Returns the saved state of the run's next fit, counted from the first; None: new."""

    def restoring(self) -> AbstractContextManager[None]:
        """Returns the context in which a fit takes up its saved state."""

    def after_epoch(self, state: Callable[[], State], *, finished: bool) -> None:
        """Saves, if it is time, the state of the fit under way."""


def _unheard(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Session:
    """Where and how a fit runs.

    Attributes:
        seed: the run's seed; fits use its stream "train".
        device: where networks live.
        on_epoch: called after every epoch with the classifier so far; by default nobody looks.
        say: prints one line for the user; by default nobody reads it.
        queries: test features, for learners that average around given points. Features are
            public, test labels stay away.
        notes: what a fit wants in the record; made from releases and features only.
        stage: which of the learner's `stages` this fit is, counted from 0.
        stages: how many there are.
        start: whose weights a fit begins with, if the model has any; None: fresh ones.
        checkpoint: where fits leave their state after an epoch; None: nowhere.
        captures: whether a GPU's steps are recorded as one CUDA graph.
        epochs_key: what a user sets for more epochs.
    """

    seed: int
    device: torch.device
    on_epoch: Callable[[Epoch, Classifier], None] = _unheard
    say: Callable[[str], None] = _unheard
    queries: Tensor | None = None
    notes: dict[str, object] = field(default_factory=dict)
    stage: int = 0
    stages: int = 1
    start: Classifier | None = None
    checkpoint: FitCheckpoint | None = None
    captures: bool = False
    epochs_key: str = "trainer.epochs"


SELECTIONS = {"last": 1, "mean_last_10": 10, "best_validation": 1}
"""{rule: how many of the last epochs the reported accuracy is the mean of}."""


class TrainingRecipe(Protocol):
    """What a run asks of a trainer."""

    @property
    def epochs(self) -> int:
        """How many epochs a fit has."""

    @property
    def selection(self) -> str:
        """Which epochs the reported accuracy comes from."""


NetworkFactory = Callable[..., nn.Module]
"""Called with `num_classes` and `image_shape` (H, W, C)."""


WeightsFor = Callable[[NetworkFactory], tuple[NetworkFactory, Mapping[str, Tensor]]]
"""Takes a model's network; returns the one that is pre-trained, often the same, and its weights."""


class Model(ABC):
    """What configs/model builds: something that can be fitted to supervision."""

    shares_work: ClassVar[bool] = False
    """Whether cells that differ in mechanism or loss alone can share work in one job."""
    needs_pretraining: ClassVar[bool] = False
    """Whether it makes no sense without `pretrain=`."""
    trained_by: ClassVar[str] = ""
    """The one learner that can train it; empty where releases of labels can."""

    @property
    def recipe(self) -> TrainingRecipe | None:
        """The trainer of a model that is trained in epochs; None for others."""
        return None

    @abstractmethod
    def precision_on(self, device: torch.device) -> str:
        """Returns what a fit on `device` computes in: `bf16`, `float32` or `float64`."""

    @abstractmethod
    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> Classifier:
        """Returns the classifier, fitted from scratch or, if it has weights, from session.start."""

    def check_loss(self, loss: Loss) -> None:
        """Refuses a loss that the model cannot take; asked before any work.

        Raises:
            InputError: it cannot.
        """
        return None

    def representation(self, features: Tensor, session: Session) -> Tensor:
        """Returns where each example lies, float32 (N, d), CPU, for clusters of public features.

        Features as they are; a model on frozen features has those.
        """
        return features.flatten(1).to(torch.float32)


@runtime_checkable
class Pretrainable(Protocol):
    """A model with a network, whose first weights may be pre-trained."""

    def check_images(self, features: Tensor) -> None:
        """Refuses images that the model cannot take; asked before a network is pre-trained.

        Args:
            features: of the training examples, (N, H, W, C).

        Raises:
            InputError: it cannot.
        """

    def pretrained(self, weights_for: WeightsFor) -> Model:
        """Returns the model with a network that starts from the weights returned for it."""


class Learner(ABC):
    """What configs/learner builds: asks the store for releases and fits a model to them."""

    trust: ClassVar[Trust] = Trust.LOCAL
    """`CENTRAL` where the learner itself has a curator count labels, whatever the mechanism is."""

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses what the learner cannot work with; a run asks before any work.

        Raises:
            InputError: the mechanism or the model makes no sense here.
        """
        return None

    @abstractmethod
    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Fitted:
        """Returns the fitted classifier, or the estimator of real labels.

        Args:
            features: of the training examples, (N, ...); public.
            store: leads to releases within the run's budget.
            mechanism: draws the noise.
            model: is fitted to what was released.
            session: seed, device, reports.
        """
