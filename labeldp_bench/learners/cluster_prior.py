"""Priors from noisy label counts of clusters, then one release of every label."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.groups import NoisyClusters
from labeldp.store.door import ReleaseDoor
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.interfaces import Classifier, Model, Session
from labeldp_bench.learners.consensus import RetrainingLearner
from labeldp_bench.learners.held_out_prior import prior_of
from labeldp_bench.learners.multi_stage import mean_top_k

AT_ONCE = 4096
"""Examples in a step of k-means."""


@dataclass(frozen=True)
class ClusterPrior(RetrainingLearner):
    """Counts the labels of each cluster with a part of eps, and releases with the rest.

    Clusters come from k-means on what the model makes of the features, which are public. Every
    label is counted once and released once, so its two costs add up to eps; the ledger has a line
    for each. Someone must see the labels to count them: the counts are `central`.

    Source: Ghazi et al. (2021), arXiv:2102.06062, Algorithm 4.

    Args:
        loss, retrain: as `RetrainingLearner`.
        prior_eps: eps of the counts, taken off the mechanism's own, > 0.
        clusters: C >= 1.
    """

    trust: ClassVar[str] = "central"

    prior_eps: float = 0.05
    clusters: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("learner.prior_eps", self.prior_eps, above=0)
        check_integer("learner.clusters", self.clusters, low=1)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns `model` fitted to one release of every label."""
        if mechanism.eps <= self.prior_eps:
            raise InputError(
                f"learner.prior_eps must be less than eps={mechanism.eps:g}, of which it is a "
                f"part, got {self.prior_eps:g}"
            )
        if self.clusters > len(features):
            raise InputError(
                f"learner.clusters must be <= the number of training examples, got "
                f"{self.clusters} for {len(features)}"
            )
        groups = clusters_of(model.representation(features, session), self.clusters, session.seed)
        # With eps=inf nothing is hidden, so the counts are exact too.
        counter = NoisyClusters(math.inf if math.isinf(mechanism.eps) else self.prior_eps)
        counts = vault.release_groups(counter, groups, self.clusters)
        priors = torch.stack([prior_of(row) for row in counts])
        rest = replace(mechanism, eps=mechanism.eps - self.prior_eps)
        release = vault.release(rest, prior=priors[groups])
        session.notes.update(
            prior_eps=self.prior_eps, clusters=self.clusters, mean_top_k=mean_top_k(release)
        )
        supervision = Supervision.of([release], loss_named(self.loss))
        classifier = model.fit(features, supervision, session)
        return self.retrained(classifier, model, features, supervision, session)


def clusters_of(rows: Tensor, count: int, seed: int) -> Tensor:
    """Returns the cluster of each row, int64 (N,) in [0, count).

    Args:
        rows: float32 (N, d).
        count: C <= N.
        seed: of the run.
    """
    stream = seeding.derive(seed, "train", "clusters") % 2**32  # what NumPy's seeds can be
    from sklearn.cluster import MiniBatchKMeans  # a second, which other learners need not wait for

    search = MiniBatchKMeans(count, batch_size=AT_ONCE, n_init=3, random_state=stream)
    return torch.from_numpy(search.fit_predict(rows.numpy())).to(torch.int64)
