"""What leaves a store, in a file: released in one process, learned from in another."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeldp.store import Drawn
from labeldp.support.files import replacing
from labeldp.support.validate import InputError

FORMAT = 1
PARTS = ("indices", "outputs", "prior")


def write_releases(path: Path, manifest: Mapping[str, object], drawn: dict[str, Drawn]) -> None:
    """Writes an .npz file of plain arrays; no array holds a true label, and none a random key.

    Args:
        path: of the file; an older one is replaced in one step.
        manifest: what was released, as JSON can hold it.
        drawn: what `LabelStore.state_dict` returns.
    """
    arrays: dict[str, Any] = {}
    for number, release in enumerate(drawn.values()):
        parts = (release["indices"], release["outputs"], release["prior"])
        for part, tensor in zip(PARTS, parts, strict=True):
            if tensor is not None:
                arrays[f"{number}_{part}"] = tensor.numpy()
    said = {**manifest, "format": FORMAT, "names": list(drawn)}
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, manifest=np.array(json.dumps(said, sort_keys=True)), **arrays)


def read_releases(path: Path) -> tuple[dict[str, Any], dict[str, Drawn]]:
    """Returns manifest and releases of a file that `write_releases` wrote.

    Raises:
        InputError: there is no such file, or it is not a file of releases.
    """
    if not path.is_file():
        raise InputError(f"releases must be a file: there is no {path} (release_only= makes one)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            manifest = json.loads(str(archive["manifest"]))
            if manifest["format"] != FORMAT:
                raise ValueError(
                    f"its format is {manifest['format']!r}, and this program reads {FORMAT}"
                )
            drawn: dict[str, Drawn] = {}
            for number, name in enumerate(manifest["names"]):
                found: list[Tensor | None] = [None, None, None]
                for place, part in enumerate(PARTS):
                    if f"{number}_{part}" in archive.files:
                        found[place] = torch.from_numpy(archive[f"{number}_{part}"])
                indices, outputs, prior = found
                if indices is None or outputs is None:
                    raise ValueError(f"release {number} is missing")
                drawn[name] = Drawn(indices=indices, outputs=outputs, prior=prior)
    except Exception as error:  # a torn or foreign file may raise anything
        reason = " ".join(str(error).split())[:80]
        if "pickle" in reason:  # what NumPy says of any file that it did not write, with bad advice
            reason = "it is not an .npz file"
        raise InputError(
            f"{path} is not a file of releases: {reason} (release_only= makes one)"
        ) from None
    return manifest, drawn
