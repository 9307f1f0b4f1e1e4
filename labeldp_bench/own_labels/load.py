"""Reads a release back."""

from pathlib import Path

import numpy as np
import torch

from labeldp_bench.own_labels.file import read_parts
from labeldp_bench.own_labels.release import Release, checked_row_ids
from labeldp_bench.support.validate import InputError


def load_release(path: str | Path) -> Release:
    """Returns the release that `Release.save` wrote.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    outputs, row_ids, spent, manifest = read_parts(Path(path))
    try:
        ids = checked_row_ids(row_ids, len(outputs))
        release = Release(torch.from_numpy(outputs), ids, spent, manifest)
        if manifest.classes and len(release) and np.isnan(release.log_likelihood()).any():
            raise InputError("an output is no number")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError, IndexError, RuntimeError) as error:  # columns of other types
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path} holds no release: {reason}") from None
    return release
