"""Exact k nearest neighbours in the plane, compiled by numba: several times as fast as a tree.

Votes need the set of neighbours only, and a tree pays for their order too. Here the points lie in a
grid. A square of cells around a query grows until it holds k points; the k-th distance in it bounds
a ball that holds the k nearest of all.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

CELLS_PER_POINT = 1.6
LARGEST_SIDE = 1024
BUCKETS = 128
# More than the rounding of a root and a difference, so that the ball leaves no point out.
ROUND_UP = 1 + 1e-12


@njit(cache=True, nogil=True)
def nearest(points: NDArray[np.float64], queries: NDArray[np.float64], k: int) -> NDArray[np.int32]:
    """Returns the k nearest points of each query, int32 (m, k), in no order.

    Of points at the same squared distance, computed in float64, the lower index comes first.

    Args:
        points: (n, 2), finite.
        queries: (m, 2), finite.
        k: in [1, n].
    """
    count = len(points)
    side = min(LARGEST_SIDE, max(1, int(np.sqrt(CELLS_PER_POINT * count))))
    low_x, low_y = points[:, 0].min(), points[:, 1].min()
    per_x = _cells_per_length(points[:, 0].max() - low_x, side)
    per_y = _cells_per_length(points[:, 1].max() - low_y, side)

    # Points in the order of their cells, row by row: neighbouring cells of one row hold one
    # stretch of points, from first[leftmost] to first[rightmost + 1].
    cell_of = np.empty(count, np.int64)
    first = np.zeros(side * side + 1, np.int64)
    for i in range(count):
        column = _bin(points[i, 0], low_x, per_x, side)
        cell_of[i] = _bin(points[i, 1], low_y, per_y, side) * side + column
        first[cell_of[i] + 1] += 1
    for cell in range(side * side):
        first[cell + 1] += first[cell]
    following = first[:-1].copy()
    index, x, y = np.empty(count, np.int32), np.empty(count), np.empty(count)
    for i in range(count):
        place = following[cell_of[i]]
        following[cell_of[i]] += 1
        index[place], x[place], y[place] = i, points[i, 0], points[i, 1]

    found = np.empty((len(queries), k), np.int32)
    squares, scratch = np.empty(count + 1), np.empty(count)
    candidates, tied = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    for q in range(len(queries)):
        query_x, query_y = queries[q, 0], queries[q, 1]
        column, row = _bin(query_x, low_x, per_x, side), _bin(query_y, low_y, per_y, side)
        reach, size = -1, 0
        while size < k:
            reach += 1
            left, right = max(0, column - reach), min(side - 1, column + reach)
            top, bottom = max(0, row - reach), min(side - 1, row + reach)
            size = 0
            for r in range(top, bottom + 1):
                size += first[r * side + right + 1] - first[r * side + left]
        size = 0
        for r in range(top, bottom + 1):
            for place in range(first[r * side + left], first[r * side + right + 1]):
                squares[size] = (x[place] - query_x) ** 2 + (y[place] - query_y) ** 2
                size += 1
        bound = _select(squares, size, k - 1, scratch)

        # Cells rise with the coordinate, so these are all that meet the ball.
        radius = np.sqrt(bound) * ROUND_UP
        left = _bin(query_x - radius, low_x, per_x, side)
        right = _bin(query_x + radius, low_x, per_x, side)
        top = _bin(query_y - radius, low_y, per_y, side)
        bottom = _bin(query_y + radius, low_y, per_y, side)
        size = 0
        for r in range(top, bottom + 1):
            for place in range(first[r * side + left], first[r * side + right + 1]):
                # Written in any case, kept if it counts: no branch to guess.
                squares[size] = (x[place] - query_x) ** 2 + (y[place] - query_y) ** 2
                candidates[size] = index[place]
                size += squares[size] <= bound
        farthest = _select(squares, size, k - 1, scratch)
        taken, ties = 0, 0
        for i in range(size):
            found[q, taken] = tied[ties] = candidates[i]
            taken += squares[i] < farthest
            ties += squares[i] == farthest
        found[q, taken:] = np.sort(tied[:ties])[: k - taken]
    return found


@njit(cache=True, nogil=True)
def _cells_per_length(length: float, side: int) -> float:
    return side / length if length > 0 else 0.0


@njit(cache=True, nogil=True)
def _bin(value: float, low: float, per_length: float, side: int) -> int:
    """Returns the cell of a coordinate; outside of the grid the one at its border."""
    return int(min(max((value - low) * per_length, 0.0), side - 1.0))


@njit(cache=True, nogil=True)
def _select(
    values: NDArray[np.float64], size: int, rank: int, scratch: NDArray[np.float64]
) -> float:
    """Returns the value at place `rank` of the first `size`, were they sorted; all are >= 0.

    Squared distances are spread evenly where points are, so one of 128 buckets holds a few of them
    and only that one is sorted. Counting has no branch to guess, unlike quickselect.
    """
    highest = values[0]
    for i in range(1, size):
        highest = max(highest, values[i])
    per_value = _cells_per_length(highest, BUCKETS)
    counts = np.zeros(BUCKETS, np.int32)
    for i in range(size):
        counts[_bin(values[i], 0.0, per_value, BUCKETS)] += 1
    bucket, below = 0, 0
    while below + counts[bucket] <= rank:
        below += counts[bucket]
        bucket += 1
    inside = 0
    for i in range(size):
        if _bin(values[i], 0.0, per_value, BUCKETS) == bucket:
            scratch[inside] = values[i]
            inside += 1
    return np.sort(scratch[:inside])[rank - below]
