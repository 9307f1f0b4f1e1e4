"""The nearest point of a convex set, from its corners alone."""

from collections.abc import Callable

from torch import Tensor


def nearest_point(
    target: Tensor, start: Tensor, corner: Callable[[Tensor], Tensor], iterations: int
) -> Tensor:
    """Returns nearly the nearest point to `target` in a convex set, of the shape of `target`.

    Exact steps towards one corner after the other.

    Source: Frank, Wolfe (1956).

    Args:
        target: any tensor.
        start: a point of the set, of that shape.
        corner: returns the corner of the set with the least inner product with a direction.
        iterations: >= 1.
    """
    nearest = start
    for _ in range(iterations):
        direction = corner(nearest - target) - nearest
        length = float(direction.square().sum())
        if length == 0:
            break
        step = float(((target - nearest) * direction).sum()) / length
        if step <= 0:
            break
        nearest = nearest + min(step, 1.0) * direction
    return nearest
