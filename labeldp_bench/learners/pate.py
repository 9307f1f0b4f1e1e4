"""PATE: teachers vote on a few images, and a student learns from the winners."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.pate import REFUSED, PateFM
from labeldp.store.door import ReleaseDoor
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_made
from labeldp_bench.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.learners.fixmatch import check_student, fitted
from labeldp_bench.learners.teachers import Teachers
from labeldp_bench.training.classifier import check_images
from labeldp_bench.training.fixmatch import Consistency


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

    needs_first: ClassVar[str] = "teachers"

    teachers: Teachers
    student: Consistency
    loss: str = "plain"

    def __post_init__(self) -> None:
        check_made("learner.teachers", self.teachers, Teachers, see="learner")
        check_made("learner.student", self.student, Consistency, see="learner")
        if self.loss != "plain":
            raise InputError(
                "learner=pate takes winners as labels: learner.loss must be plain, got "
                f"{self.loss!r}"
            )

    def check(self, mechanism: Mechanism, model: Model) -> None:
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
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the student."""
        self.check(mechanism, model)
        assert isinstance(mechanism, PateFM)
        check_images(features)  # before hundreds of teachers learn
        count, classes = len(features), vault.num_classes
        if count < max(mechanism.queries, mechanism.teachers):
            raise InputError(
                f"mechanism.teachers={mechanism.teachers} and mechanism.queries="
                f"{mechanism.queries} must be <= the number of training examples, {count}"
            )
        chance = seeding.generator(session.seed, "train", "teachers")
        parts = torch.randperm(count, generator=chance) % mechanism.teachers
        queries = torch.randperm(count, generator=chance)[: mechanism.queries]
        vote, settings = self.teachers.asked(features, queries, classes, model, session)
        released = vault.release_votes(mechanism, parts, vote, settings)
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
