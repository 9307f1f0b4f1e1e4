"""Averages of releases in cubes or among neighbours, sized by the theory's rule."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeldp.mechanisms.base import GroupMechanism, Mechanism
from labeldp.mechanisms.groups import LocalFull
from labeldp.mechanisms.laplace import ClippingMechanism
from labeldp.store.door import ReleaseDoor
from labeldp.support.validate import InputError, check_choice, check_eps, check_number
from labeldp_bench.interfaces import Averages, Fitted, Learner, Model, Session
from labeldp_bench.learners.rates import TRUSTS, Problem, clip, side

ADDS_UP = ("plain", "bce", "squared")
TUNINGS = ("auto", "theory", "fixed")
MOST_DIMENSIONS = 2
"""With more, the rule's sides exceed the box unless N is huge: `auto` leaves the size alone."""


@dataclass(frozen=True)
class LocalAverages(Learner):
    """Releases every label once, as part of the group that its features put it in, and averages.

    The side h of a cube (or k = N h^d neighbours) and the clip T follow the theorems' rules, times
    a constant that was fixed once, times a factor by which a grid moves around it.

    Source: Zhao et al. (2025), theoretical_limits, equations 13 to 38.

    Args:
        loss: `plain`, `bce` or `squared`: sums of what was released are compared as they are.
        tuning: `theory`; `fixed`: the model's own size and the mechanism's own clip; `auto`:
            `theory` in one or two dimensions, else `fixed`.
        beta: smoothness that the rule assumes, in (0, 1].
        moment: order p of the finite moment that the rule assumes; None for bounded labels.
        constant, factor: multiply the side of the rule.
        clip_constant, clip_factor: multiply the clip of the rule.
        rule: whose rule, one of `rates.TRUSTS`; None for the mechanism's own.
        rule_eps: eps in the rule; None for the mechanism's own. With `rule` it gives no privacy
            the same h as a private run has.
    """

    loss: str
    tuning: str = "auto"
    beta: float = 1.0
    moment: float | None = None
    constant: float = 1.0
    factor: float = 1.0
    clip_constant: float = 1.0
    clip_factor: float = 1.0
    rule: str | None = None
    rule_eps: float | None = None

    def __post_init__(self) -> None:
        if self.loss not in ADDS_UP:
            raise InputError(
                f"learner=local_averages adds up what was released: learner.loss must be one of "
                f"{', '.join(ADDS_UP)}, got {self.loss!r}"
            )
        check_choice("learner.tuning", self.tuning, TUNINGS)
        check_number("learner.beta", self.beta, above=0, high=1)
        check_number("learner.constant", self.constant, above=0)
        check_number("learner.factor", self.factor, above=0)
        check_number("learner.clip_constant", self.clip_constant, above=0)
        check_number("learner.clip_factor", self.clip_factor, above=0)
        if self.moment is not None:
            check_number("learner.moment", self.moment, low=2)
        if self.rule is not None:
            check_choice("learner.rule", self.rule, TRUSTS)
        if self.rule_eps is not None:
            check_eps(self.rule_eps, "learner.rule_eps")

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Fitted:
        """Returns the averages: of neighbours at the test points, of groups everywhere."""
        mechanism, averages = self._tuned(features, vault, mechanism, model)
        if isinstance(mechanism, GroupMechanism) and not averages.disjoint:
            raise InputError(
                f"{type(mechanism).__name__} answers about cubes, which neighbourhoods are not: "
                "they overlap (use model=cubes or clusters)"
            )
        if mechanism.protects != "labels" and not averages.fixed:
            raise InputError(
                f"{type(mechanism).__name__} protects {mechanism.protects}, and these groups "
                "depend on everybody's features: one moved example may change them all "
                "(use model=cubes)"
            )
        session.notes.update(averages.notes)
        if isinstance(mechanism, ClippingMechanism) and mechanism.clip is not None:
            session.notes["clip"] = round(mechanism.clip, 6)
        groups = averages.grouping(features, session)
        outputs = vault.release_groups(mechanism, groups.members, groups.count)
        if outputs.dtype == torch.int64:  # one class for each cube
            outputs = torch.nn.functional.one_hot(outputs, vault.num_classes).to(torch.float64)
        elif outputs.dim() == 1 and averages.disjoint and not isinstance(mechanism, GroupMechanism):
            sizes = torch.bincount(groups.members, minlength=groups.count)
            outputs = outputs / sizes.clamp_min(1)
        return groups.estimator(outputs)

    def _tuned(
        self, features: Tensor, vault: ReleaseDoor, mechanism: Mechanism, model: Model
    ) -> tuple[Mechanism, Averages]:
        """Returns the mechanism with its clip, and what averages, with its size."""
        num_examples, dimension = len(features), math.prod(features.shape[1:])
        if self.tuning == "fixed" or (self.tuning == "auto" and dimension > MOST_DIMENSIONS):
            return mechanism, model.averaging(None, num_examples, dimension)
        problem = self._problem(num_examples, dimension, vault, mechanism)
        cube_side = self.constant * self.factor * side(problem)
        if (
            self.moment is not None
            and isinstance(mechanism, ClippingMechanism)
            and mechanism.clip is None
        ):
            tuned = self.clip_constant * self.clip_factor * clip(problem, cube_side)
            mechanism = replace(mechanism, clip=tuned)
        return mechanism, model.averaging(cube_side, num_examples, dimension)

    def _problem(
        self, num_examples: int, dimension: int, vault: ReleaseDoor, mechanism: Mechanism
    ) -> Problem:
        is_private = mechanism.private and math.isfinite(mechanism.eps)
        own = "local_full" if isinstance(mechanism, LocalFull) else mechanism.trust
        return Problem(
            task="regression" if vault.bound is not None else "classification",
            trust=self.rule or (own if is_private else "none"),
            num_examples=num_examples,
            eps=self.rule_eps or mechanism.eps,
            dimension=dimension,
            beta=self.beta,
            moment=self.moment,
            num_classes=max(2, vault.num_classes),
        )
