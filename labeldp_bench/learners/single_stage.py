"""Release every label once, train once."""

from dataclasses import dataclass

from torch import Tensor

from labeldp_bench.learners.consensus import check_retrain, retrained
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.privacy.door import ReleaseDoor
from labeldp_bench.supervision.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.supervision.losses import loss_named
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.validate import InputError


@dataclass(frozen=True)
class SingleStage(Learner):
    """The learner of RR, RAPPOR and all mechanisms that need no prior.

    Args:
        loss: one of `labeldp_bench.supervision.losses.LOSSES`.
        retrain: `none` or `consensus`.
    """

    loss: str
    retrain: str = "none"

    def __post_init__(self) -> None:
        loss_named(self.loss)
        check_retrain(self.retrain)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns `model` fitted to one release of every label."""
        if vault.bound is not None:
            raise InputError(
                "learner=single_stage is for classes, and this data set has real labels "
                "(use learner=local_averages)"
            )
        supervision = Supervision.of([vault.release(mechanism)], loss_named(self.loss))
        classifier = model.fit(features, supervision, session, None)
        return retrained(self.retrain, classifier, model, features, supervision, session)
