"""One global prior from a held-out part, then one release of every other label."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.response import BlockRR, RandomizedResponseWithPrior
from labeldp.mechanisms.subsets import TopKSubset
from labeldp.store.door import ReleaseDoor
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_number
from labeldp_bench.interfaces import Classifier, Model, Session
from labeldp_bench.learners.consensus import RetrainingLearner


@dataclass(frozen=True)
class HeldOutPrior(RetrainingLearner):
    """Spends a held-out part on a noisy label histogram, and trains on the rest.

    The parts are disjoint, so both may spend the full eps (parallel composition). The histogram
    needs someone who sees the held-out labels: its ledger line says `central`.

    Source: Liu, Ding (2026), BlockRR, section 5.1 (1 % of the training set); the global prior of
    its RRWithPrior rows.

    Args:
        loss, retrain: as `RetrainingLearner`.
        fraction: share of the training set that is held out, in (0, 1).
        prior_eps: budget of the histogram; None for the mechanism's own eps.
    """

    trust: ClassVar[str] = "central"

    fraction: float = 0.01
    prior_eps: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("learner.fraction", self.fraction, above=0, below=1)
        if self.prior_eps is not None:
            check_number("learner.prior_eps", self.prior_eps, above=0)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns `model` fitted to one release of every label that was not held out."""
        size = round(self.fraction * len(features))
        if not 0 < size < len(features):
            raise InputError(
                f"learner.fraction must hold out at least one of {len(features)} examples, and "
                f"leave one, got {self.fraction}"
            )
        order = torch.randperm(len(features), generator=seeding.generator(session.seed, "held_out"))
        held_out, rest = order[:size].sort().values, order[size:].sort().values
        if (self.prior_eps or 0) > mechanism.eps:
            raise InputError(
                f"learner.prior_eps must be at most eps={mechanism.eps:g}, the budget of each "
                f"label, got {self.prior_eps:g}"
            )
        counts = vault.release_histogram(held_out, self.prior_eps or mechanism.eps)
        prior = prior_of(counts)
        session.notes["prior"] = [round(share, 6) for share in prior.tolist()]
        session.notes.update(prior_notes(mechanism, prior))
        release = vault.release(mechanism, rest, prior)
        supervision = Supervision.of([release], loss_named(self.loss))
        classifier = model.fit(features, supervision, session)
        return self.retrained(classifier, model, features, supervision, session)


def prior_of(noisy_counts: Tensor) -> Tensor:
    """Returns the histogram clipped at 0 and normalised; the uniform prior if nothing is left."""
    counts = noisy_counts.clamp_min(0)
    total = counts.sum()
    return counts / total if total > 0 else torch.full_like(counts, 1 / len(counts))


def prior_notes(mechanism: Mechanism, prior: Tensor) -> dict[str, object]:
    """Returns what a mechanism made of the drawn prior: its top k, or its blocks."""
    if isinstance(mechanism, BlockRR):
        frequent, favoured = mechanism.partition(prior)
        return {
            "rare_labels": torch.nonzero(~frequent).flatten().tolist(),
            "favoured_labels": torch.nonzero(favoured).flatten().tolist(),
        }
    if isinstance(mechanism, RandomizedResponseWithPrior | TopKSubset):
        return {"top_k": int(mechanism.top_k(prior[None]))}
    return {}
