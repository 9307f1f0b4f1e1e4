"""Least squares from one noisy product of features and labels."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.moments import ClassSums, NoisyMoments
from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Classifier, Learner, Model, Session


@dataclass(frozen=True)
class Moments(Learner):
    """Asks a curator for X'Y once, and lets the model make of it what it can.

    Source: WALR (Interoperable Private Attribution drafts, logistic_regression.md).

    Args:
        loss: `squared`.
    """

    needs_first: ClassVar[str] = "the features of a pre-trained network"

    loss: str = "squared"

    def __post_init__(self) -> None:
        if self.loss != "squared":
            raise InputError(
                f"learner=moments fits least squares: learner.loss must be squared, got "
                f"{self.loss!r}"
            )

    def check(self, mechanism: Mechanism, model: Model) -> None:
        """Refuses other mechanisms, and models that are not linear."""
        if not isinstance(mechanism, NoisyMoments):
            raise InputError(
                "learner=moments needs mechanism=noisy_moments (use learner=single_stage for "
                "releases of single labels)"
            )
        model.check_linear()

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the classifier that the noisy moments give."""
        self.check(mechanism, model)
        assert isinstance(mechanism, NoisyMoments)
        linear = model.linear(features, session)
        moments = store.release(ClassSums(mechanism, linear.rows))
        return linear.fitted(moments, mechanism.stddev)
