"""Consensus retraining: train again on the examples whose prediction agrees with the release."""

from dataclasses import replace

from torch import Tensor

from labeldp_bench.supervision.interfaces import Classifier, Model, Session
from labeldp_bench.supervision.prediction import predict
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import check_choice

RETRAIN = ("none", "consensus")


def check_retrain(retrain: str) -> str:
    """Returns `learner.retrain` if it is known."""
    return check_choice("learner.retrain", retrain, RETRAIN)


def retrained(
    retrain: str,
    classifier: Classifier,
    model: Model,
    features: Tensor,
    supervision: Supervision,
    session: Session,
) -> Classifier:
    """Returns `classifier`, or for `consensus` a new one fitted from scratch to the agreeing part.

    Post-processing of releases, so it costs no privacy. An example agrees if the predicted class
    is among those that explain its release best.

    Source: Das et al. (2025), "Retraining with predicted hard labels provably increases model
    accuracy", arXiv:2406.11206.
    """
    if retrain == "none":
        return classifier
    predicted = predict(classifier.scores(features[supervision.indices]), session.seed)
    agrees = supervision.plausible.gather(1, predicted[:, None]).squeeze(1)
    session.notes["consensus_share"] = float(agrees.double().mean())
    if not agrees.any():
        return classifier
    again = replace(session, seed=seeding.derive(session.seed, "retrain"))
    return model.fit(features, supervision.take(agrees), again, None)
