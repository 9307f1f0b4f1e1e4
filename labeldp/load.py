"""Reads a release back."""

from pathlib import Path

import numpy as np
import torch

from labeldp.file import read_parts
from labeldp.mechanisms.encodings import ENTRIES, AsReleased
from labeldp.names import checked_row_ids
from labeldp.release import Release
from labeldp.support.validate import InputError


def load_release(path: str | Path) -> Release:
    """Returns the release that `Release.save` wrote.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    messages, row_ids, spent, manifest = read_parts(Path(path))
    try:
        ids = checked_row_ids(row_ids, len(messages))
        release = Release(torch.from_numpy(messages), ids, spent, manifest)
        _check(release)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError, IndexError, RuntimeError) as error:  # columns of other types
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path} holds no release: {reason}") from None
    return release


def _check(release: Release) -> None:
    """Refuses what the mechanism cannot have drawn; some rows at a time."""
    if not release.classes:
        return
    form, count = release.manifest.encoding(), len(release.classes)
    form.checked(release.messages)
    if form.name == AsReleased.name:
        for rows in release.batches(max(1, ENTRIES // count)):
            if np.isnan(rows.log_likelihood()).any():
                raise InputError("an output is not a number")
