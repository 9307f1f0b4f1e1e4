"""A partition of a box into cubes; every cube has one class or one mean."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp_bench.models.group_estimator import GroupEstimator
from labeldp_bench.supervision.interfaces import Classifier, Model, Session
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.validate import InputError, check_integer, check_list, check_number

MOST_CUBES = 2**22


class LastPoints:
    """Remembers in which cube the last points lie, so that cells on the same points share it."""

    def __init__(self) -> None:
        self._points: Tensor | None = None
        self._answers: dict[int, Tensor] = {}

    def cubes(self, points: Tensor, model: "Cubes") -> Tensor:
        """Returns the number of each point's cube, int64 (N,)."""
        if self._points is not points:
            self._points, self._answers = points, {}
        if model.cells not in self._answers:
            self._answers[model.cells] = model.locate(points)
        return self._answers[model.cells]


@dataclass(frozen=True)
class Cubes(Model):
    """Cuts a box into `cells`^d cubes; points outside belong to the nearest cube.

    Source: Zhao et al. (2025), theoretical_limits, equations 14 and 15.

    Args:
        cells: cubes along each axis, >= 1.
        box: lowest and highest coordinate, the same for all axes; fixed without a look at data.
    """

    cells: int
    box: tuple[float, float] | list[float] = (0.0, 1.0)
    last: tuple[LastPoints, LastPoints] = field(
        default_factory=lambda: (LastPoints(), LastPoints()), init=False, repr=False, compare=False
    )

    shares_work: ClassVar[bool] = True
    disjoint: ClassVar[bool] = True
    fixed: ClassVar[bool] = True
    """Whether an example's group is its own features' matter, whatever the others are."""

    def __post_init__(self) -> None:
        check_integer("model.cells", self.cells, low=1)
        check_list("model.box", self.box, "numbers, [low, high]", length=2)
        check_number("model.box", self.box[1], above=check_number("model.box", self.box[0]))

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> "Cubes":
        """Returns the model with cubes of about this side, a share of the box, if one is given."""
        if side is None:
            return self
        largest = int(MOST_CUBES ** (1 / dimension))
        model = replace(self, cells=min(largest, max(1, round(1 / side))))
        object.__setattr__(model, "last", self.last)
        return model

    @property
    def notes(self) -> dict[str, Any]:
        """Returns the size, for the record."""
        return {"cells": self.cells}

    def locate(self, points: Tensor) -> Tensor:
        """Returns the number of each point's cube, int64 (N,) in [0, cells^d), at points (N, d)."""
        low, high = self.box
        flat = points.flatten(1).to(torch.float64)
        steps = ((flat - low) * (self.cells / (high - low))).long().clamp_(0, self.cells - 1)
        number = steps[:, 0]
        for axis in range(1, steps.shape[1]):
            number = number * self.cells + steps[:, axis]
        return number

    def groups(self, features: Tensor, session: Session) -> tuple[Tensor, int]:
        """Returns the cube of each example, int64 (N,), and the number of cubes."""
        return self.last[0].cubes(features, self), self._num_cubes(features)

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator that has one output per cube."""
        return GroupEstimator(partial(self.last[1].cubes, model=self), outputs)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of sums in a cube."""
        return "float64"

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> GroupEstimator:
        """Returns the classifier that adds up the votes in each cube."""
        votes = supervision.votes().to(torch.float64)
        sums = torch.zeros((self._num_cubes(features), votes.shape[1]), dtype=torch.float64)
        sums.index_add_(0, self.locate(features)[supervision.indices], votes)
        return self.estimator(sums)

    def _num_cubes(self, features: Tensor) -> int:
        dimension = math.prod(features.shape[1:])
        if dimension * math.log(self.cells) > math.log(MOST_CUBES) + 1e-9:
            raise InputError(
                f"model.cells={self.cells} in {dimension} dimensions makes more than {MOST_CUBES} "
                "cubes (fewer cells, or model=knn)"
            )
        cubes = self.cells**dimension
        if cubes > max(1, len(features)):
            raise InputError(
                f"model.cells={self.cells} in {dimension} dimensions makes {cubes:,} cubes for "
                f"{len(features):,} examples, so that most are empty (fewer cells, or model=knn)"
            )
        low, high = self.box
        outside = ((features < low) | (features > high)).flatten(1).any(1).double().mean()
        if cubes > 1 and outside > 0.5:
            raise InputError(
                f"model.box=[{low:g},{high:g}] leaves {100 * outside:.0f} % of the points outside, "
                "in cubes at its edge (give model.box=[low,high] that holds them)"
            )
        return cubes
