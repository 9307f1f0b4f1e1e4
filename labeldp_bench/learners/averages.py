"""Local averages of released labels, and the rates of the theory."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeldp.mechanisms import GroupMechanism, Measurement
from labeldp.mechanisms.groups import LocalFull
from labeldp.mechanisms.laplace import ClippingMechanism
from labeldp.store import LabelStore
from labeldp.support.validate import InputError, check_choice, check_eps, check_number
from labeldp_bench.interfaces import Fitted, Learner, Model, Session
from labeldp_bench.models.neighbours import Averages, GroupedModel

TRUSTS = ("none", "local", "central", "local_full")
"""Who protects what: nobody; labels by each holder; labels (or all) by a curator; all by holders.

Full central privacy has the rates of central label privacy.
"""


@dataclass(frozen=True)
class Problem:
    """What decides a rate.

    Attributes:
        task: `classification` or `regression`.
        trust: one of `TRUSTS`.
        num_examples: N.
        eps: privacy budget; not used by `none`.
        dimension, beta, gamma, moment, num_classes: see above; gamma and K of classification.
    """

    task: str
    trust: str
    num_examples: float
    eps: float
    dimension: int
    beta: float
    gamma: float = 1.0
    moment: float | None = None
    num_classes: int = 2

    @property
    def logarithm(self) -> float:
        """The factor ln K of the theorems on classification; 1 for regression."""
        return math.log(self.num_classes) if self.task == "classification" else 1.0

    @property
    def privacy_factor(self) -> float:
        """eps^2, at most 1: what a locally private label is worth."""
        return min(self.eps, 1.0) ** 2

    @property
    def dimensions(self) -> int:
        """d; twice as many where features are noisy too."""
        return 2 * self.dimension if self.trust == "local_full" else self.dimension

    def side_power(self, moment: float | None) -> float:
        """Returns the power by which the rule's side falls with the number of examples.

        Args:
            moment: p; None for bounded labels, the limit of all moments: (p - 1) / p -> 1.
        """
        # Noise on a sum of labels (central), or on every label.
        noise = 1 if self.trust == "central" else 2
        if moment is None:
            return 1 / (noise * self.beta + self.dimensions)
        return (moment - 1) / (noise * moment * self.beta + self.dimensions * (moment - 1))


def side(problem: Problem) -> float:
    """Returns the rule's side h of a cube; a ball of k neighbours has k = N h^d.

    Theorems 2, 4, 6, 8, 10 and 12; `local_full` by the same balance of bias and noise.
    """
    examples = problem.num_examples
    free = (problem.logarithm / examples) ** (1 / (2 * problem.beta + problem.dimension))
    if problem.trust == "none":
        return free
    power = problem.side_power(problem.moment)
    if problem.trust == "central":
        return free + (problem.logarithm / (problem.eps * examples)) ** power
    private = (examples * problem.privacy_factor / problem.logarithm) ** -power
    return private if problem.moment is None else max(free, private)


def clip(problem: Problem, cube_side: float) -> float:
    """Returns the rule's T for labels with a finite p-th moment, given the side in use.

    Theorems 10 and 12: the bias of clipping T^(1-p) equals the standard error of the noise.
    """
    if problem.moment is None:
        raise ValueError("bounded labels are not clipped")
    inside = problem.num_examples * cube_side**problem.dimension
    p = problem.moment
    if problem.trust == "central":
        return float((problem.eps * inside) ** (1 / p))
    if problem.trust == "local_full":
        inside *= cube_side**problem.dimension
    return float((inside * problem.privacy_factor) ** (1 / (2 * p)))


def exponents(problem: Problem) -> tuple[float, float]:
    """Returns how the excess risk falls: (power of N, power of eps) of the term that privacy adds.

    For `none` the second is 0. The central rows of table I add the first term of `none` to this
    one. Local rows hold for eps <= 1.
    """
    is_regression = problem.task == "regression"
    risk_power = problem.beta * (2 if is_regression else problem.gamma + 1)
    if problem.trust == "none":
        return -risk_power / (2 * problem.beta + problem.dimension), 0.0
    power = problem.side_power(problem.moment if is_regression else None)
    return -risk_power * power, -risk_power * power * (1 if problem.trust == "central" else 2)


def lower_bound(problem: Problem) -> float:
    """Returns the lower bound on the excess risk with 1 in place of its constants.

    The theorems state none: they are some functions of the constants of assumption 1. Local bounds
    with a p-th moment hold for small eps.

    Source: Zhao et al. (2025), theoretical_limits, theorems 1, 5, 9 (local) and 3, 7, 11 (central),
    the latter with equation 32 for whole examples; `none` and `local_full` are cited there.

    >>> round(lower_bound(Problem("regression", "central", 10_000, 0.01, dimension=1, beta=0.5)), 4)
    0.0564
    """
    free = problem.num_examples ** exponents(replace(problem, trust="none"))[0]
    if problem.trust == "none":
        return free
    eps = problem.eps if problem.trust == "central" else min(problem.eps, 1.0)
    in_n, in_eps = exponents(problem)
    private = problem.num_examples**in_n * eps**in_eps
    return free + private if problem.trust == "central" else max(free, private)


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
        rule: whose rule, one of `TRUSTS`; None for the mechanism's own.
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
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Fitted:
        """Returns the averages: of neighbours at the test points, of groups everywhere."""
        mechanism, averages = self._tuned(features, store, mechanism, model)
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
        outputs = store.release(mechanism.over(groups.members, groups.count))
        if outputs.dtype == torch.int64:  # one class for each cube
            outputs = torch.nn.functional.one_hot(outputs, store.num_classes).to(torch.float64)
        elif outputs.dim() == 1 and averages.disjoint and not isinstance(mechanism, GroupMechanism):
            sizes = torch.bincount(groups.members, minlength=groups.count)
            outputs = outputs / sizes.clamp_min(1)
        return groups.estimator(outputs)

    def _tuned(
        self, features: Tensor, store: LabelStore, mechanism: Measurement, model: Model
    ) -> tuple[Measurement, Averages]:
        """Returns the mechanism with its clip, and what averages, with its size."""
        if not isinstance(model, GroupedModel):
            raise InputError("learner=local_averages needs model=cubes, clusters or knn")
        num_examples, dimension = len(features), math.prod(features.shape[1:])
        if self.tuning == "fixed" or (self.tuning == "auto" and dimension > MOST_DIMENSIONS):
            return mechanism, model.averaging(None, num_examples, dimension)
        problem = self._problem(num_examples, dimension, store, mechanism)
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
        self, num_examples: int, dimension: int, store: LabelStore, mechanism: Measurement
    ) -> Problem:
        is_private = mechanism.private and math.isfinite(mechanism.eps)
        own = "local_full" if isinstance(mechanism, LocalFull) else mechanism.trust
        return Problem(
            task="regression" if store.bound is not None else "classification",
            trust=self.rule or (own if is_private else "none"),
            num_examples=num_examples,
            eps=self.rule_eps or mechanism.eps,
            dimension=dimension,
            beta=self.beta,
            moment=self.moment,
            num_classes=max(2, store.num_classes),
        )
