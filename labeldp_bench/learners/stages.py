"""Learners that fit a model once or stage by stage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism, local
from labeldp.mechanisms.groups import LaplaceHistogram, NoisyClusters
from labeldp.mechanisms.measurement import Measurement, Trust
from labeldp.mechanisms.response import BlockRR, RandomizedResponseWithPrior
from labeldp.store import LabelStore, StoredRelease
from labeldp.supervision import Supervision, predict
from labeldp.support import seeding
from labeldp.support.validate import (
    InputError,
    check_choice,
    check_integer,
    check_made,
    check_number,
)
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

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses a loss that the model cannot take."""
        model.check_loss(loss_named(self.loss))

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


@dataclass(frozen=True)
class SingleStage(RetrainingLearner):
    """The learner of RR, RAPPOR and all mechanisms that need no prior.

    Args:
        loss, retrain: as `RetrainingLearner`.
    """

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns `model` fitted to one release of every label."""
        if store.bound is not None:
            raise InputError(
                "learner=single_stage is for classes, and this data set has real labels "
                "(use learner=local_averages)"
            )
        supervision = Supervision.of([store.release(local(mechanism))], loss_named(self.loss))
        classifier = model.fit(features, supervision, session)
        return self.retrained(classifier, model, features, supervision, session)


@dataclass(frozen=True)
class MultiStage(RetrainingLearner):
    """Releases and trains stage by stage, over random disjoint parts of the training set.

    Each label is released once, at the full eps: parallel composition. A stage's prior comes from
    a model that saw only releases of other examples, so it costs nothing.

    Source: Ghazi et al. (2021), arXiv:2102.06062, Algorithm 3 (LP-MST) and its released code.

    Args:
        loss, retrain: as `RetrainingLearner`.
        fractions: share of the examples in each stage; positive, sum 1.
        first: mechanism of the first stage, which has no prior.
        temperature: of the prior; below 1 sharpens.
        filter_earlier: drop an earlier example whose release is outside the stage model's top k,
            k being the whole part of the mean k of the new stage (post-processing).
        warm_start: start each stage's network from the one before; the paper's pseudocode does
            not, its released code does.
        domain_weight: share in [0, 1] of the stage's mean prediction, at the same temperature, in
            each prior; the released code's profiles have 0.
    """

    fractions: Sequence[float]
    first: Mechanism
    temperature: float = 1.0
    filter_earlier: bool = False
    warm_start: bool = False
    domain_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_made("learner.first", self.first, Mechanism, see="learner")
        check_number("learner.temperature", self.temperature, above=0)
        check_number("learner.domain_weight", self.domain_weight, low=0, high=1)
        given = self.fractions if isinstance(self.fractions, list | tuple) else [self.fractions]
        shares = [check_number("learner.fractions", share, above=0) for share in given]
        if len(shares) < 2 or abs(sum(shares) - 1) > 1e-6:
            raise InputError(
                f"learner.fractions must be two or more shares that sum to 1, got {shares}"
            )

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the last stage's model, trained on the releases of all stages."""
        loss = loss_named(self.loss)
        releases: list[StoredRelease] = []
        classifier: Classifier | None = None
        for stage, part in enumerate(split(len(features), self.fractions, session.seed)):
            if classifier is None:
                release = store.release(self.first, part)
            else:
                prior = self.prior(classifier, features[part])
                release = store.release(local(mechanism), part, prior)
                top = mean_top_k(release)
                session.notes[f"stage_{stage + 1}_mean_top_k"] = top
                if self.filter_earlier:
                    releases = [filtered(r, classifier, features, int(top)) for r in releases]
            releases.append(release)
            supervision = Supervision.of(releases, loss)
            at_stage = replace(
                session,
                seed=seeding.derive(session.seed, "stage", stage),
                stage=stage,
                stages=len(self.fractions),
                start=classifier if self.warm_start else None,
            )
            classifier = model.fit(features, supervision, at_stage)
        assert classifier is not None
        last = replace(at_stage, seed=session.seed)
        return self.retrained(classifier, model, features, supervision, last)

    def prior(self, classifier: Classifier, features: Tensor) -> Tensor:
        """Returns the prior of each example, float64 (n, K): evaluation mode, no augmentation."""
        prior = classifier.probabilities(features, self.temperature)
        if self.domain_weight == 0:
            return prior
        domain = classifier.probabilities(features).mean(0, keepdim=True) ** (1 / self.temperature)
        return (1 - self.domain_weight) * prior + self.domain_weight * domain / domain.sum()


def split(num_examples: int, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Returns disjoint random parts that cover all examples; the last takes the remainder."""
    order = torch.randperm(num_examples, generator=seeding.generator(seed, "stages"))
    ends = [round(sum(fractions[: i + 1]) * num_examples) for i in range(len(fractions) - 1)]
    parts = [part.sort().values for part in order.tensor_split(ends)]
    if not all(len(part) for part in parts):
        raise InputError(
            f"learner.fractions leave a stage of {num_examples} examples empty, "
            f"got {list(fractions)}"
        )
    return parts


def mean_top_k(release: StoredRelease) -> float:
    """Returns the mean number of labels that the priors left; K for mechanisms that leave all."""
    mechanism, prior = release.mechanism, release.prior
    if prior is None or not isinstance(mechanism, RandomizedResponseWithPrior):
        return float(release.num_classes)
    return float(mechanism.top_k(prior).to(torch.float64).mean())


def filtered(
    release: StoredRelease, classifier: Classifier, features: Tensor, top: int
) -> StoredRelease:
    """Returns the release without examples whose likely labels the model ranks below `top`."""
    ranked = classifier.scores(features[release.indices]).argsort(1, descending=True)
    best = torch.zeros_like(release.most_likely_labels).scatter_(1, ranked[:, : max(1, top)], True)
    return release[(best & release.most_likely_labels).any(1)]


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

    trust: ClassVar[Trust] = Trust.CENTRAL

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
        store: LabelStore,
        mechanism: Measurement,
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
        counts = store.release(LaplaceHistogram(self.prior_eps or mechanism.eps), held_out)
        prior = prior_of(counts)
        session.notes["prior"] = [round(share, 6) for share in prior.tolist()]
        session.notes.update(prior_notes(mechanism, prior))
        release = store.release(local(mechanism), rest, prior)
        supervision = Supervision.of([release], loss_named(self.loss))
        classifier = model.fit(features, supervision, session)
        return self.retrained(classifier, model, features, supervision, session)


def prior_of(noisy_counts: Tensor) -> Tensor:
    """Returns the histogram clipped at 0 and normalised; the uniform prior if nothing is left."""
    counts = noisy_counts.clamp_min(0)
    total = counts.sum()
    return counts / total if total > 0 else torch.full_like(counts, 1 / len(counts))


def prior_notes(mechanism: Measurement, prior: Tensor) -> dict[str, object]:
    """Returns what a mechanism made of the drawn prior: its top k, or its blocks."""
    if isinstance(mechanism, BlockRR):
        frequent, favoured = mechanism.partition(prior)
        return {
            "rare_labels": torch.nonzero(~frequent).flatten().tolist(),
            "favoured_labels": torch.nonzero(favoured).flatten().tolist(),
        }
    if isinstance(mechanism, RandomizedResponseWithPrior):
        return {"top_k": int(mechanism.top_k(prior[None]))}
    return {}


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

    trust: ClassVar[Trust] = Trust.CENTRAL

    prior_eps: float = 0.05
    clusters: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("learner.prior_eps", self.prior_eps, above=0)
        check_integer("learner.clusters", self.clusters, low=1)

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
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
        counts = store.release(counter.over(groups, self.clusters))
        priors = torch.stack([prior_of(row) for row in counts])
        rest = replace(local(mechanism), eps=mechanism.eps - self.prior_eps)
        release = store.release(rest, prior=priors[groups])
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
