"""Stochastic gradient descent of a network, from noisy gradients moved to where they can be."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Generator, Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.store.door import ReleaseDoor
from labeldp.support import seeding
from labeldp.support.validate import Diverged, InputError, check_number
from labeldp_bench.interfaces import Classifier, Learner, Model, Session
from labeldp_bench.learners.noisy_gradients import answering, check_descent
from labeldp_bench.models.gradient_network import GradientNetwork
from labeldp_bench.training.network_gradients import NetworkGradients


@dataclass(frozen=True)
class NoisySGD(Learner):
    """Descends the mean cross-entropy of a network; a curator answers every step.

    A step gets the noisy mean of clipped gradients over a secret batch. `projection` replaces it by
    the nearest mean gradient that soft labels of public examples can give: without labels it is
    known where gradients can be, and nearly all of the noise is elsewhere. The convex hull is that
    of AltConv in the paper, each example with the same weight; its examples are drawn anew for
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

    needs_first: ClassVar[str] = "the weights after the step before"

    loss: str = "plain"
    projection: str = "hull"
    clip: float = 1.0
    public_batch: int = 200
    iterations: int = 20
    learning_rate: float = 0.5
    momentum: float = 0.9
    averaged: float = 0.25

    def __post_init__(self) -> None:
        check_descent(
            "noisy_sgd", self.loss, self.projection, self.public_batch, self.iterations,
            self.learning_rate, self.averaged,
        )  # fmt: skip
        check_number("learner.clip", self.clip, above=0)
        check_number("learner.momentum", self.momentum, low=0, below=1)

    def check(self, mechanism: Mechanism, model: Model) -> None:
        """Refuses other mechanisms, and models that have a way of their own to learn."""
        answering("noisy_sgd", mechanism)
        _with_gradients(model)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the network with the averaged weights."""
        curator, network = answering("noisy_sgd", mechanism), _with_gradients(model)
        gradients = network.gradients(features, vault.num_classes, session, self.clip)
        descent = _Descent(gradients, self, curator.steps, session)
        session.notes["gradient_stddev"] = curator.descent_stddev
        weights = vault.release_descent(curator, descent, repr(self))
        if not bool(weights.isfinite().all()):
            raise Diverged("the network's weights are infinite (take a smaller learning_rate)")
        return gradients.trained(weights)


def _with_gradients(model: Model) -> GradientNetwork:
    if not isinstance(model, GradientNetwork):
        raise InputError(
            "learner=noisy_sgd needs model=tiny_cnn (linear models have learner=noisy_gradients)"
        )
    return model


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
