"""Which of several GPUs a process takes: processes on one machine deal them out by locks."""

import getpass
import os
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from labeldp.support.validate import InputError


def own_card(device: torch.device) -> torch.device:
    """Returns the card that this process takes, where `cuda` names none of several.

    Each card has a lock that a process holds until it ends: the first one free is taken, and those
    beyond the number of cards share them evenly. So workers of a launcher, and shells beside each
    other, spread over the cards. A device with a number, or the only card, stays as it is.
    """
    if device.type != "cuda" or device.index is not None or torch.cuda.device_count() < 2:
        return device
    return torch.device("cuda", _kept_card()[0])


@cache
def _kept_card() -> tuple[int, FileLock]:
    """Returns this process's card; the lock lives as long as the process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else []
    number = torch.cuda.device_count()
    cards = names if len(names) == number else [str(card) for card in range(number)]
    return take_card(cards, Path(tempfile.gettempdir()) / f"labeldp-cards-{getpass.getuser()}")


def take_card(cards: list[str], folder: Path) -> tuple[int, FileLock]:
    """Returns the place of a card that the fewest processes hold, and the lock on it.

    Args:
        cards: what the machine calls them, such as `0`, the same in all processes.
        folder: of the locks, of this machine; made if need be.

    Raises:
        InputError: the locks cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for round_ in count():
            for place, card in enumerate(cards):
                lock = FileLock(folder / f"{card.strip().replace('/', '_')}.{round_}.lock")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue
                return place, lock
    except OSError as error:
        raise InputError(
            f"cannot deal out cards in {folder}: {error.strerror} (name one: device=cuda:0)"
        ) from error
    raise AssertionError("count() has no end")
