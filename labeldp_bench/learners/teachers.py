"""PATE: teachers vote on queries, and a student learns from the votes."""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from labeldp.losses import loss_named
from labeldp.mechanisms.base import local
from labeldp.mechanisms.measurement import Measurement
from labeldp.mechanisms.pate import REFUSED, PateFM, Vote
from labeldp.store import LabelStore, digest
from labeldp.supervision import Supervision, predict
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_made, check_number
from labeldp_bench.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.fit import check_images
from labeldp_bench.training.fixmatch import Consistency, FixMatchFit


@dataclass(frozen=True)
class FixMatch(Learner):
    """The learner of local mechanisms whose network also learns from its own sure guesses.

    Post-processing of one release of every label: it costs no privacy.

    Source: Sohn et al. (2020), arXiv:2001.07685; on releases, ours.

    Args:
        loss: on releases; the name of one in labeldp/losses.py, or your own `module.Class`.
        student: what is added to it.
    """

    loss: str
    student: Consistency

    def __post_init__(self) -> None:
        loss_named(self.loss)
        check_made("learner.student", self.student, Consistency, see="learner")

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses a model that is no network, and a trainer that FixMatch cannot take."""
        check_student(model)

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns a network fitted to one release of every label."""
        supervision = Supervision.of([store.release(local(mechanism))], loss_named(self.loss))
        return fitted(model, features, supervision, session, self.student)


def check_student(model: Model) -> None:
    """Refuses a model that is no network, and a trainer that FixMatch cannot take."""
    if not isinstance(model, NetworkModel):
        raise InputError(
            f"FixMatch trains a network, and {type(model).__name__} is not one (use model=cnn and "
            "tuning=none, or learner=single_stage)"
        )
    trainer = model.trainer
    if trainer.mixup is not None or trainer.views != 1 or trainer.resolution:
        raise InputError(
            "FixMatch has a view and a distorted one of each image: trainer.mixup must be "
            "null, trainer.views 1 and trainer.resolution []"
        )


def fitted(
    model: Model,
    features: Tensor,
    supervision: Supervision,
    session: Session,
    student: Consistency,
) -> Classifier:
    """Returns the network of `model`, fitted to releases and to its own sure guesses.

    Args:
        model: a network.
        features: of all examples.
        supervision: of some of them, or of all.
        session: of the run.
        student: what FixMatch adds.
    """
    assert isinstance(model, NetworkModel)
    kind = partial(FixMatchFit, features=features, consistency=student)
    return model.fit_by(kind, features, supervision, session)


@dataclass(frozen=True)
class LinearTeachers:
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
        """Returns what fits one teacher in closed form, and what names these settings.

        The first keeps no label. The second is of all that votes depend on beside labels.

        Args:
            features: of all examples, (N, ...); public.
            queries: int64 (Q,), the examples that are asked about.
            num_classes: K.
            model: the student's.
            session: of the run.
        """
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
class Pate(Learner):
    """Trains teachers on disjoint random parts of the labels, and a student on what they agree on.

    Queries are training images, drawn at random: features are public. The student is trained by
    FixMatch on the released winners, and on all images without a label. Where the paper trains each
    teacher by FixMatch too, teachers here have their own labels alone.

    Source: Papernot et al. (2017), arXiv:1610.05755; PATE-FM: Malek Esmaeili et al. (2021),
    arXiv:2106.03408, section 4.

    Args:
        loss: `plain`; winners count as labels.
        teachers: how they learn.
        student: what FixMatch adds.
    """

    teachers: LinearTeachers
    student: Consistency
    loss: str = "plain"

    def __post_init__(self) -> None:
        check_made("learner.teachers", self.teachers, LinearTeachers, see="learner")
        check_made("learner.student", self.student, Consistency, see="learner")
        if self.loss != "plain":
            raise InputError(
                "learner=pate takes winners as labels: learner.loss must be plain, got "
                f"{self.loss!r}"
            )

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses other mechanisms, a model that is no network, and trainers as FixMatch does."""
        if not isinstance(mechanism, PateFM):
            raise InputError(
                "learner=pate needs mechanism=pate_fm (use learner=fixmatch for releases of single "
                "labels)"
            )
        check_student(model)

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the student."""
        assert isinstance(mechanism, PateFM)
        check_images(features)  # before hundreds of teachers learn
        count, classes = len(features), store.num_classes
        if count < max(mechanism.queries, mechanism.teachers):
            raise InputError(
                f"mechanism.teachers={mechanism.teachers} and mechanism.queries="
                f"{mechanism.queries} must be <= the number of training examples, {count}"
            )
        chance = seeding.generator(session.seed, "train", "teachers")
        parts = torch.randperm(count, generator=chance) % mechanism.teachers
        queries = torch.randperm(count, generator=chance)[: mechanism.queries]
        vote, settings = self.teachers.asked(features, queries, classes, model, session)
        asked = replace(mechanism, parts=parts, vote=vote, settings=settings)
        released = store.release(asked)
        answered = released != REFUSED
        session.notes["answers"] = int(answered.sum())
        if not answered.any():
            raise InputError(
                f"no query was answered: fewer than {mechanism.threshold:g} of "
                f"{mechanism.teachers} teachers agreed (take a smaller mechanism.threshold)"
            )
        winners = released[answered]
        known = nn.functional.one_hot(winners, classes).bool()
        supervision = Supervision(queries[answered], winners, known, loss_named(self.loss))
        return fitted(model, features, supervision, session, self.student)
