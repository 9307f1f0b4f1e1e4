"""Release every label once, train once."""

from dataclasses import dataclass

from torch import Tensor

from labeldp_bench.learners.base import Classifier, Model, Session, Supervision
from labeldp_bench.losses import loss_named
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.vault import LabelVault


@dataclass(frozen=True)
class SingleStage:
    """The learner of RR, RAPPOR and all mechanisms that need no prior.

    Args:
        loss: one of `labeldp_bench.losses.LOSSES`.
    """

    loss: str

    def __post_init__(self) -> None:
        loss_named(self.loss)

    def fit(
        self,
        features: Tensor,
        vault: LabelVault,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns `model` fitted to one release of every label."""
        release = vault.release(mechanism)
        return model.fit(features, Supervision.of(release, loss_named(self.loss)), session)
