"""Learners with a curator who sees the labels: noisy moments, noisy gradients, noisy steps."""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from labeldp.mechanisms.measurement import Measurement
from labeldp.mechanisms.moments import LabelDPPro, NoisyMoments
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.progress import progress_bar
from labeldp.support.validate import Diverged, InputError, check_choice, check_integer, check_number
from labeldp_bench.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.models.linear_heads import Ridge
from labeldp_bench.models.networks import GradientNetwork
from labeldp_bench.training.network_gradients import NetworkGradients, nearest_point


def check_linear(model: Model) -> None:
    """Refuses a model that is not linear."""
    if not isinstance(model, Ridge):
        raise InputError(
            f"{type(model).__name__} is not linear: learner=moments and learner=noisy_gradients "
            "need model=ridge"
        )


@dataclass(frozen=True)
class Moments(Learner):
    """Asks a curator for X'Y once, and lets the model make of it what it can.

    Source: WALR (Interoperable Private Attribution drafts, logistic_regression.md).

    Args:
        loss: `squared`.
    """

    loss: str = "squared"

    def __post_init__(self) -> None:
        if self.loss != "squared":
            raise InputError(
                f"learner=moments fits least squares: learner.loss must be squared, got "
                f"{self.loss!r}"
            )

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses other mechanisms, and models that are not linear."""
        if not isinstance(mechanism, NoisyMoments):
            raise InputError(
                "learner=moments needs mechanism=noisy_moments (use learner=single_stage for "
                "releases of single labels)"
            )
        check_linear(model)

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the classifier that the noisy moments give."""
        assert isinstance(mechanism, NoisyMoments) and isinstance(model, Ridge)
        linear = model.linear(features, session)
        moments = store.release(replace(mechanism, rows=linear.rows))
        return linear.fitted(moments, mechanism.stddev)


PROJECTIONS = ("hull", "none")


@dataclass(frozen=True)
class NoisyGradients(Learner):
    """Descends the mean cross-entropy of a linear classifier on public features of length 1.

    The gradient over a batch is a sum of x (p - s) over its examples, s being one-hot labels. Every
    step gets the noisy sum of x s from the curator, `projection` replaces it by the nearest one
    that soft labels s of public examples can give, and the learner adds the sum of x p, over all
    examples: it does not know the batch. The last weights are averaged. All of it is
    post-processing.

    The convex hull is that of AltConv in the paper: its public examples are drawn again for every
    step, from all of them. A span in place of the hull does nothing here: of more examples than
    features it holds every sum.

    Source: Ghazi et al. (2024), LabelDP-Pro, ICLR, algorithm 1.

    Args:
        loss: `plain`, cross-entropy.
        projection: one of `PROJECTIONS`; `none` is DP-SGD with labels alone protected.
        public_batch: examples whose soft labels span the hull.
        iterations: of Frank and Wolfe, for each projection.
        learning_rate: the largest. It is made smaller so that noise alone moves a logit by no more
            than `noise_reach`.
        noise_reach: standard deviation that the noise of all steps may give a logit, > 0.
        averaged: share of the steps, the last ones, whose weights are averaged, in (0, 1].
    """

    loss: str = "plain"
    projection: str = "hull"
    public_batch: int = 2000
    iterations: int = 20
    learning_rate: float = 30.0
    noise_reach: float = 1.0
    averaged: float = 0.5

    def __post_init__(self) -> None:
        check_descent("noisy_gradients", self)
        check_number("learner.noise_reach", self.noise_reach, above=0)

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses other mechanisms, and models that are not linear."""
        check_answers("noisy_gradients", mechanism)
        check_linear(model)

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the classifier with the averaged weights."""
        assert isinstance(mechanism, LabelDPPro) and isinstance(model, Ridge)
        linear = model.linear(features, session)
        released = store.release(replace(mechanism, rows=linear.rows)) / mechanism.share
        noise = mechanism.stddev / (mechanism.share * len(linear.rows))  # of the mean gradient
        rate = self.learning_rate
        if noise > 0:
            rate = min(rate, self.noise_reach / (noise * math.sqrt(mechanism.steps)))
        session.notes["learning_rate"] = rate
        weights = self._descended(linear.rows, released, rate, session)
        if not bool(weights.isfinite().all()):
            raise Diverged("the classifier's weights are infinite (take a smaller learning_rate)")
        return linear.classifier(weights)

    def _descended(self, rows: Tensor, released: Tensor, rate: float, session: Session) -> Tensor:
        """Returns the average of the last weights, float32 (d, K).

        Args:
            rows: of all examples, float32 (N, d).
            released: noisy sums of the rows of each class, as if over all examples, (T, d, K).
            rate: learning rate, of the mean loss.
            session: where it runs.
        """
        stream = seeding.generator(session.seed, "train", "public_batches")
        rows = rows.to(session.device)
        steps, count = len(released), len(rows)
        weights = torch.zeros(tuple(released.shape[1:]), device=session.device)
        total, kept = torch.zeros_like(weights), max(1, round(self.averaged * steps))
        for step in progress_bar(range(steps), steps, "steps"):
            sums = released[step].to(weights)
            if self.projection == "hull":
                chosen = torch.randperm(count, generator=stream)[: self.public_batch]
                public = rows[chosen.to(session.device)] * (count / len(chosen))
                sums = nearest_in_hull(public, sums, self.iterations)
            known = rows.T @ (rows @ weights).softmax(1)
            weights = weights - rate * (known - sums) / count
            if step >= steps - kept:
                total += weights
        return total / kept


def check_descent(learner: str, recipe: "NoisyGradients | NoisySGD") -> None:
    """Refuses what no descent on noisy gradients can have; `learner` is its name, for messages."""
    if recipe.loss != "plain":
        raise InputError(
            f"learner={learner} descends the cross-entropy: learner.loss must be plain, got "
            f"{recipe.loss!r}"
        )
    check_choice("learner.projection", recipe.projection, PROJECTIONS)
    check_integer("learner.public_batch", recipe.public_batch, low=1)
    check_integer("learner.iterations", recipe.iterations, low=1)
    check_number("learner.learning_rate", recipe.learning_rate, above=0)
    check_number("learner.averaged", recipe.averaged, above=0, high=1)


def check_answers(learner: str, mechanism: Measurement) -> None:
    """Refuses a mechanism that answers no gradients; `learner` is who asks, for messages."""
    if not isinstance(mechanism, LabelDPPro):
        raise InputError(
            f"learner={learner} needs mechanism=labeldp_pro (use learner=single_stage for releases "
            "of single labels)"
        )


def nearest_in_hull(rows: Tensor, sums: Tensor, iterations: int) -> Tensor:
    """Returns nearly the nearest X'S to `sums` over all soft labels S, float32 (d, K).

    Args:
        rows: X, float32 (m, d).
        sums: (d, K).
        iterations: >= 1.
    """

    def corner(direction: Tensor) -> Tensor:
        best = (rows @ direction).argmin(1)
        return torch.zeros_like(sums).index_add_(1, best, rows.T)

    uniform = rows.sum(0)[:, None].expand(sums.shape) / sums.shape[1]
    return nearest_point(sums, uniform, corner, iterations)


@dataclass(frozen=True)
class NoisySGD(Learner):
    """Descends the mean cross-entropy of a network; a curator answers every step.

    A step gets the noisy mean of clipped gradients over a secret batch. `projection` replaces it by
    the nearest mean gradient that soft labels of public examples can give: without labels it is
    known where gradients can be, and nearly all of the noise is elsewhere. The convex hull is that
    of AltConv in the paper, each example with the same weight; its examples are drawn again for
    every step. The last weights are averaged. All but the noisy means is post-processing.

    Source: Ghazi et al. (2024), LabelDP-Pro, ICLR, algorithm 1; products with the Jacobian in place
    of a list of gradients, and Frank and Wolfe: ours.

    Args:
        loss: `plain`, cross-entropy.
        projection: `hull`, or `none`: DP-SGD with labels alone protected.
        clip: > 0, the length at which the gradient of an example is cut off.
        public_batch: examples whose soft labels span the hull.
        iterations: of Frank and Wolfe, for each projection.
        learning_rate: > 0, for gradients in units of `clip`.
        momentum: in [0, 1).
        averaged: share of the steps, the last ones, whose weights are averaged, in (0, 1].
    """

    loss: str = "plain"
    projection: str = "hull"
    clip: float = 1.0
    public_batch: int = 200
    iterations: int = 20
    learning_rate: float = 0.5
    momentum: float = 0.9
    averaged: float = 0.25

    def __post_init__(self) -> None:
        check_descent("noisy_sgd", self)
        check_number("learner.clip", self.clip, above=0)
        check_number("learner.momentum", self.momentum, low=0, below=1)

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses other mechanisms, and models that have a way of their own to learn."""
        check_answers("noisy_sgd", mechanism)
        if not isinstance(model, GradientNetwork):
            raise InputError(
                "learner=noisy_sgd needs model=tiny_cnn (linear models have "
                "learner=noisy_gradients)"
            )

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the network with the averaged weights."""
        assert isinstance(mechanism, LabelDPPro) and isinstance(model, GradientNetwork)
        gradients = model.gradients(features, store.num_classes, session, self.clip)
        descent = _Descent(gradients, self, mechanism.steps, session)
        session.notes["gradient_stddev"] = mechanism.descent_stddev
        weights = store.release(replace(mechanism, descent=descent, settings=repr(self)))
        if not bool(weights.isfinite().all()):
            raise Diverged("the network's weights are infinite (take a smaller learning_rate)")
        return gradients.trained(weights)


@dataclass
class _Descent:
    """Where a descent is; a curator calls it, and it keeps no label.

    Attributes:
        gradients_of: the network's.
        recipe: how it steps.
        steps: T.
        session: of the run.
    """

    gradients_of: NetworkGradients
    recipe: NoisySGD
    steps: int
    session: Session
    done: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.now = self.gradients_of.weights.to(self.session.device)
        self.velocity, self.total = torch.zeros_like(self.now), torch.zeros_like(self.now)
        self.kept = max(1, round(self.recipe.averaged * self.steps))
        self.stream: Generator = seeding.generator(self.session.seed, "train", "public_batches")

    @property
    def weights(self) -> Tensor:
        """The first weights, and after the last step the average, float32 (P,), CPU."""
        return (self.now if self.done < self.steps else self.total / self.kept).cpu()

    def gradients(self, indices: Tensor, labels: Tensor) -> Tensor:
        """Returns the gradient of each example at the present weights, float32 (m, P), CPU."""
        return self.gradients_of.of(self.now, indices, labels).cpu()

    def step(self, gradient: Tensor) -> None:
        """Moves the weights along a noisy mean gradient, (P,)."""
        recipe, moved = self.recipe, gradient.to(self.now)
        if recipe.projection == "hull":
            count = len(self.gradients_of.features)
            public = torch.randperm(count, generator=self.stream)[: recipe.public_batch]
            moved = self.gradients_of.nearest_in_hull(self.now, moved, public, recipe.iterations)
        self.velocity = recipe.momentum * self.velocity + moved
        self.now = self.now - recipe.learning_rate * self.velocity
        self.done += 1
        if self.done > self.steps - self.kept:
            self.total += self.now
