"""Teachers: each learns from the labels of its own part, and votes on queries."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from labeldp.losses import loss_named
from labeldp.store.noise import digest
from labeldp.store.teacher_votes import Vote
from labeldp.supervision import Supervision, predict
from labeldp.support import seeding
from labeldp.support.validate import check_made, check_number
from labeldp_bench.interfaces import Model, Session
from labeldp_bench.learners.fixmatch import check_network
from labeldp_bench.models.network import NetworkModel
from labeldp_bench.training.trainer import Trainer


class Teachers(ABC):
    """A way to train teachers."""

    @abstractmethod
    def asked(
        self,
        features: Tensor,
        queries: Tensor,
        num_classes: int,
        model: Model,
        session: Session,
    ) -> tuple[Vote, str]:
        """Returns what trains one teacher and returns its votes, and what names these settings.

        The first keeps no label. The second is of all that votes depend on beside labels.

        Args:
            features: of all examples, (N, ...); public.
            queries: int64 (Q,), the examples that are asked about.
            num_classes: K.
            model: the student's.
            session: of the run.
        """


@dataclass(frozen=True)
class LinearTeachers(Teachers):
    """Least squares on what the model makes of the features before it is trained.

    A small part has fewer labels than a network needs; milliseconds for each teacher. With
    `pretrain` the features are those of the pre-trained network, else pixels.

    Args:
        penalty: > 0, on the squared weights of rows of length 1.
    """

    penalty: float = 1.0

    def __post_init__(self) -> None:
        check_number("learner.teachers.penalty", self.penalty, above=0)

    def asked(
        self,
        features: Tensor,
        queries: Tensor,
        num_classes: int,
        model: Model,
        session: Session,
    ) -> tuple[Vote, str]:
        """Returns what fits one teacher in closed form."""
        rows = model.representation(features, session)
        rows = nn.functional.normalize(rows - rows.mean(0))
        wanted = rows[queries]

        def vote(indices: Tensor, labels: Tensor) -> Tensor:
            own = rows[indices]
            targets = nn.functional.one_hot(labels, num_classes).float()
            # In the space of the examples, which are few. Classes are as frequent as in the part.
            kernel = own @ own.T + self.penalty * torch.eye(len(own))
            shares = targets.mean(0)
            weights = own.T @ torch.linalg.solve(kernel, targets - shares)
            return predict(wanted @ weights + shares, session.seed)

        return vote, f"{self!r} {digest(rows)} {digest(queries)}"


@dataclass(frozen=True)
class NetworkTeachers(Teachers):
    """A network like the student's for each teacher, as in the paper; FixMatch is the student's.

    Args:
        trainer: of each teacher.
    """

    trainer: Trainer

    def __post_init__(self) -> None:
        check_made("learner.teachers.trainer", self.trainer, Trainer, see="learner")

    def asked(
        self,
        features: Tensor,
        queries: Tensor,
        num_classes: int,
        model: Model,
        session: Session,
    ) -> tuple[Vote, str]:
        """Returns what trains one network; nothing of its training is shown or kept."""
        network = replace(check_network(model), trainer=self.trainer)
        silent = Session(session.seed, session.device, stage=1)
        loss = loss_named("plain")

        def vote(indices: Tensor, labels: Tensor) -> Tensor:
            known = nn.functional.one_hot(labels, num_classes).bool()
            supervision = Supervision(indices, labels, known, loss)
            teacher = network.fit(features, supervision, replace(silent, notes={}))
            return predict(teacher.scores(features[queries]), session.seed)

        begun = first_weights(network, features, num_classes, session)
        return vote, f"{self!r} {digest(begun)} {digest(queries)}"


def first_weights(
    network: NetworkModel, features: Tensor, num_classes: int, session: Session
) -> Tensor:
    """Returns what every teacher begins with, float64 (P,), CPU."""
    with seeding.global_stream(session.seed, session.device):
        begun = network.untrained(
            features,
            num_classes,
            session.device,
            pixels=network.trainer.pixels,
            precision="float32",
        )
    parts = begun.network.state_dict().values()
    return torch.cat([each.detach().cpu().double().flatten() for each in parts])
