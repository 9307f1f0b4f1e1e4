"""Several stages on disjoint parts: each stage's model is the next stage's prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.response import RandomizedResponseWithPrior
from labeldp.mechanisms.subsets import TopKSubset
from labeldp.store.door import ReleaseDoor
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_made, check_number
from labeldp_bench.interfaces import Classifier, Model, Session
from labeldp_bench.learners.consensus import RetrainingLearner


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

    needs_first: ClassVar[str] = "a model, which gives a later release its prior,"

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
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the last stage's model, trained on the releases of all stages."""
        loss = loss_named(self.loss)
        releases: list[Release] = []
        classifier: Classifier | None = None
        for stage, part in enumerate(split(len(features), self.fractions, session.seed)):
            if classifier is None:
                release = vault.release(self.first, part)
            else:
                prior = self.prior(classifier, features[part])
                release = vault.release(mechanism, part, prior)
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


def mean_top_k(release: Release) -> float:
    """Returns the mean number of labels that the priors left; K for mechanisms that leave all."""
    mechanism, prior = release.mechanism, release.prior
    if prior is None or not isinstance(mechanism, RandomizedResponseWithPrior | TopKSubset):
        return float(release.num_classes)
    return float(mechanism.top_k(prior).to(torch.float64).mean())


def filtered(release: Release, classifier: Classifier, features: Tensor, top: int) -> Release:
    """Returns the release without examples whose likely labels the model ranks below `top`."""
    ranked = classifier.scores(features[release.indices]).argsort(1, descending=True)
    best = torch.zeros_like(release.most_likely_labels).scatter_(1, ranked[:, : max(1, top)], True)
    return release.take((best & release.most_likely_labels).any(1))
