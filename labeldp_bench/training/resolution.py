"""How large images are in each epoch of a training. Imports no torch."""

from collections.abc import Sequence

from labeldp.support.validate import InputError, check_list, check_number

Resolution = Sequence[Sequence[float]]
"""Pairs (share of the epochs, scale of the side), in the order of training; then full size."""

ROUNDING = 1e-9
"""0.7 + 0.1 is a little below 0.8."""


def check_resolution(resolution: object) -> None:
    """Refuses what `scale_of` does not know.

    Raises:
        InputError: no list of pairs, a number out of range, or shares that leave nothing for full
            size.
    """
    key, kind = "trainer.resolution", "pairs [share of the epochs, scale of the side], or []"
    total = 0.0
    for pair in check_list(key, resolution, kind):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InputError(f"{key} must be a list of {kind}, got {pair!r} in it")
        total += check_number(f"{key}: a share", pair[0], above=0)
        check_number(f"{key}: a scale", pair[1], above=0, high=1)
    if total >= 1:
        raise InputError(
            f"{key} must leave epochs for full size, where the classifier is used: its shares must "
            f"sum to less than 1, got {total:g}"
        )


def scale_of(resolution: Resolution, number: int, epochs: int) -> float:
    """Returns the scale of the images' side in epoch `number`, from 1; the last epoch's is 1.

    >>> [scale_of([[0.5, 0.5], [0.25, 0.75]], number, 4) for number in (1, 2, 3, 4)]
    [0.5, 0.5, 0.75, 1.0]
    """
    ended = 0.0
    for share, scale in resolution:
        ended += share
        if number / epochs <= ended + ROUNDING:
            return scale
    return 1.0
