"""Release every label once, train once."""

from dataclasses import dataclass

from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.store.door import ReleaseDoor
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Classifier, Model, Session
from labeldp_bench.learners.consensus import RetrainingLearner


@dataclass(frozen=True)
class SingleStage(RetrainingLearner):
    """The learner of RR, RAPPOR and all mechanisms that need no prior.

    Args:
        loss, retrain: as `RetrainingLearner`.
    """

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
        classifier = model.fit(features, supervision, session)
        return self.retrained(classifier, model, features, supervision, session)
