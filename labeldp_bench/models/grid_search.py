"""Exact k nearest neighbours in the plane, compiled by numba: ten times as fast as a tree.

Votes need the set of neighbours only; a tree also sorts them. Here the points lie in a grid. A
square of cells around a query grows until the ball of its k nearest is likely to fit; if the ball
sticks out, the square grows by what is missing. Loops have no branches and add up whole numbers,
so that the compiler vectorises them.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]

CELLS_PER_POINT = 1.6
LARGEST_SIDE = 1024
# Where points lie evenly, a square around a ball holds 4 / pi times the ball's points. With a
# smaller factor most balls need a second look; with a larger one too many distances are computed.
SQUARE_PER_BALL = 1.4
# Most rounds of counting to find the k-th distance; five suffice where points lie evenly.
COUNTS = 40
# Factor from a first guess that found too few points to the second guess.
STEP_OUT = 1.3
# Exceeds the rounding error of a root and a difference, so that the ball leaves no point out.
ROUND_UP = 1 + 1e-12


@njit(cache=True, nogil=True)
def nearest(points: Floats, queries: Floats, k: int) -> Indices:
    """Returns the k nearest points of each query, int32 (m, k), in no order.

    Of points at the same squared distance, computed in float64, the lower index comes first.

    Args:
        points: (n, 2), below 1e150 in size; either axis spans 0 or more than 1e-140.
        queries: (m, 2), below 1e150 in size.
        k: in [1, n].
    """
    count = len(points)
    side = min(LARGEST_SIDE, max(1, int(np.sqrt(CELLS_PER_POINT * count))))
    low_x, low_y = points[:, 0].min(), points[:, 1].min()
    length_x, length_y = points[:, 0].max() - low_x, points[:, 1].max() - low_y
    per_x, per_y = _cells_per_length(length_x, side), _cells_per_length(length_y, side)
    disc_per_cell = length_x * length_y / (np.pi * side * side)

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
    squares, candidates = np.empty(count), np.empty(count, np.int32)
    kept = np.empty(count + 1, np.int32)
    wanted = min(count, int(np.ceil(SQUARE_PER_BALL * k)))
    for q in range(len(queries)):
        query_x, query_y = queries[q, 0], queries[q, 1]
        column, row = _bin(query_x, low_x, per_x, side), _bin(query_y, low_y, per_y, side)
        reach, size = -1, 0
        while size < wanted:
            reach += 1
            left, right = max(0, column - reach), min(side - 1, column + reach)
            top, bottom = max(0, row - reach), min(side - 1, row + reach)
            size = 0
            for r in range(top, bottom + 1):
                size += first[r * side + right + 1] - first[r * side + left]
        inside = False
        while not inside:
            size = 0
            for r in range(top, bottom + 1):
                start, stop = first[r * side + left], first[r * side + right + 1]
                upto = size + stop - start
                _measure(index, x, y, start, query_x, query_y, candidates, squares, size, upto)
                size = upto
            # The squared radius of a disc with k points, if they lie evenly in the square.
            area = (right - left + 1) * (bottom - top + 1) * disc_per_cell
            farthest, within = _kth_smallest(squares[:size], k, area * k / size)
            # Cells rise with the coordinate, so these are all that meet the ball.
            radius = np.sqrt(farthest) * ROUND_UP
            ball_left = _bin(query_x - radius, low_x, per_x, side)
            ball_right = _bin(query_x + radius, low_x, per_x, side)
            ball_top = _bin(query_y - radius, low_y, per_y, side)
            ball_bottom = _bin(query_y + radius, low_y, per_y, side)
            inside = (
                left <= ball_left
                and ball_right <= right
                and top <= ball_top
                and ball_bottom <= bottom
            )
            left, right = min(left, ball_left), max(right, ball_right)
            top, bottom = min(top, ball_top), max(bottom, ball_bottom)
        near, apart = candidates[:size], squares[:size]
        if within == k:
            _keep(near, apart, 0.0, farthest, kept)
            for i in range(k):  # a loop costs less than NumPy's assignment
                found[q, i] = kept[i]
        else:  # several at the k-th distance
            taken = _keep(near, apart, 0.0, np.nextafter(farthest, -1.0), kept)
            found[q, :taken] = kept[:taken]
            ties = _keep(near, apart, farthest, farthest, kept)
            found[q, taken:] = np.sort(kept[:ties])[: k - taken]
    return found


@njit(cache=True, nogil=True)
def _cells_per_length(length: float, side: int) -> float:
    return side / length if length > 0 else 0.0


@njit(cache=True, nogil=True)
def _bin(value: float, low: float, per_length: float, side: int) -> int:
    """Returns the cell of a coordinate; outside of the grid the one at its border."""
    return int(min(max((value - low) * per_length, 0.0), side - 1.0))


@njit(cache=True, nogil=True)
def _measure(
    index: Indices, x: Floats, y: Floats, start: int, query_x: float, query_y: float,
    candidates: Indices, squares: Floats, size: int, upto: int,
) -> None:  # fmt: skip
    """Writes points from `start` on, and their squared distances to a query, to size...upto."""
    # An index that may be negative is checked, and such a loop cannot be vectorised.
    source, target = np.uint64(start), np.uint64(size)
    for step in range(upto - size):
        i = np.uint64(step)
        candidates[target + i] = index[source + i]
        squares[target + i] = (x[source + i] - query_x) ** 2 + (y[source + i] - query_y) ** 2


@njit(cache=True, nogil=True)
def _kth_smallest(values: Floats, k: int, guess: float) -> tuple[float, int]:
    """Returns a value with the k smallest at or below it, and how many values are.

    Either exactly k are, and the value lies below the next one; or more than k are, because of
    ties, and the value is the k-th itself. Squared distances are spread evenly where points are, so
    the share that is missing tells where to count next.

    Args:
        values: at least k, finite, >= 0.
        k: >= 1.
        guess: where to count first, >= 0.
    """
    low, below = 0.0, 0
    high, upto = np.inf, len(values)
    middle = guess
    for counts in range(COUNTS):
        count = 0
        for i in range(len(values)):
            count += values[i] <= middle
        if count == k:
            return middle, k
        if count < k:
            low, below = middle, count
        else:
            high, upto = middle, count
        if high < np.inf:
            middle = low + (high - low) * (k - below) / (upto - below)
        elif counts == 0:
            middle *= STEP_OUT
        else:  # the guess does not help, as for points on a line
            middle = values.max()
    kth = np.sort(values)[k - 1]
    return kth, int((values <= kth).sum())


@njit(cache=True, nogil=True)
def _keep(candidates: Indices, squares: Floats, low: float, high: float, kept: Indices) -> int:
    """Writes the candidates with a square in [low, high] to the front of `kept`, returns how many.

    Every candidate is written; the next one replaces those that do not count.
    """
    size = np.uint64(0)  # as in _measure
    for i in range(len(candidates)):
        kept[size] = candidates[i]
        size += np.uint64((squares[i] >= low) & (squares[i] <= high))
    return int(size)
