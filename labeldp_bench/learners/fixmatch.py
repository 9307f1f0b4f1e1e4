"""Release every label once, and train a network by FixMatch."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.store.door import ReleaseDoor
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError, check_made
from labeldp_bench.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.models.network import NetworkModel
from labeldp_bench.training.fixmatch import Consistency, FixMatchFit, check_trainer


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

    def check(self, mechanism: Mechanism, model: Model) -> None:
        """Refuses a model that is no network, and a trainer that FixMatch cannot take."""
        check_student(model)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns a network fitted to one release of every label."""
        supervision = Supervision.of([vault.release(mechanism)], loss_named(self.loss))
        return fitted(model, features, supervision, session, self.student)


def check_student(model: Model) -> None:
    """Refuses a model without epochs, and a trainer that FixMatch cannot take.

    Raises:
        InputError: the model is not a network, or its trainer mixes or shrinks images.
    """
    check_trainer(check_network(model).trainer)


def check_network(model: Model) -> NetworkModel:
    """Returns the model if it has epochs.

    Raises:
        InputError: the model is not a network.
    """
    if not isinstance(model, NetworkModel):
        raise InputError(
            f"FixMatch trains a network, and {type(model).__name__} is not one (use model=cnn and "
            "tuning=none, or learner=single_stage)"
        )
    return model


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
    kind = partial(FixMatchFit, features=features, consistency=student)
    return model.fit_by(kind, features, supervision, session)
