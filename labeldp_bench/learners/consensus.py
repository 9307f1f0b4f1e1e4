"""Consensus retraining: train again on the examples whose prediction agrees with the release."""

from dataclasses import dataclass, field, replace

from torch import Tensor

from labeldp.losses import loss_named
from labeldp.supervision import Supervision, predict
from labeldp.support import seeding
from labeldp.support.validate import check_choice
from labeldp_bench.interfaces import Classifier, Learner, Model, Session

RETRAIN = ("none", "consensus")


@dataclass(frozen=True)
class RetrainingLearner(Learner):
    """A learner of classes that may fit its model a second time.

    Args:
        loss: how one learns from releases: the name of one in labeldp/losses.py, or your own
            `module.Class`.
        retrain: `none`, or `consensus` after the last fit.
    """

    loss: str
    retrain: str = field(default="none", kw_only=True)

    def __post_init__(self) -> None:
        loss_named(self.loss)
        check_choice("learner.retrain", self.retrain, RETRAIN)

    def retrained(
        self,
        classifier: Classifier,
        model: Model,
        features: Tensor,
        supervision: Supervision,
        session: Session,
    ) -> Classifier:
        """Returns `classifier`, or for `consensus` a new one, fitted to the agreeing examples.

        Post-processing of releases, so it costs no privacy. An example agrees if the predicted
        class is among those that explain its release best. The new fit starts from scratch.

        Source: Das et al. (2025), "Retraining with predicted hard labels provably increases model
        accuracy", arXiv:2406.11206.
        """
        if self.retrain == "none":
            return classifier
        predicted = predict(classifier.scores(features[supervision.indices]), session.seed)
        agrees = supervision.most_likely_labels.gather(1, predicted[:, None]).squeeze(1)
        session.notes["consensus_share"] = float(agrees.double().mean())
        if not agrees.any():
            return classifier
        again = replace(session, seed=seeding.derive(session.seed, "retrain"), start=None)
        return model.fit(features, supervision.take(agrees), again)
