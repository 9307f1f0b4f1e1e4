"""A partition of a box into cubes; every cube has one class or one mean."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError, check_integer, check_list, check_number
from labeldp_bench.interfaces import Session
from labeldp_bench.models.groups import GroupModel, Groups

MOST_CUBES = 2**22
KEPT = 8
"""Sets of located points: cells of one job differ in the size of their cubes."""


@dataclass(frozen=True)
class Cubes(GroupModel):
    """Cuts a box into `cells`^d cubes; points outside belong to the nearest cube.

    Source: Zhao et al. (2025), theoretical_limits, equations 14 and 15.

    Args:
        cells: cubes along each axis, >= 1.
        box: lowest and highest coordinate, the same for all axes; fixed without a look at data.
    """

    cells: int
    box: tuple[float, float] | list[float] = (0.0, 1.0)
    located: LastResults[Tensor] = field(
        default_factory=lambda: LastResults(KEPT), init=False, repr=False, compare=False
    )

    fixed: ClassVar[bool] = True  # a point's cube depends on its own coordinates alone

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
        object.__setattr__(model, "located", self.located)
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

    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns the cube of each example."""
        count = self._num_cubes(features)
        return Groups(self._kept_locate(features), count, self._kept_locate)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of sums in a cube."""
        return "float64"

    def _kept_locate(self, points: Tensor) -> Tensor:
        """Returns what `locate` does; cells on the same points compute it once."""
        return self.located.get((self.cells, points), lambda: self.locate(points))

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
