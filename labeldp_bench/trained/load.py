"""One line loads a trained model; what cannot be loaded is told how to be trained."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from labeldp_bench.supervision.prediction import Classifier
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.validate import InputError, did_you_mean
from labeldp_bench.trained.forms import LinearScores, NeighbourScores, network_of
from labeldp_bench.trained.model import TrainedModel

WEIGHTS = Path(__file__).with_name("weights")
"""One file for each model, a few hundred kB to 3 MB."""
LEADERBOARD = CHECKOUT / "results" / "leaderboard.json"
"""In a checkout only; a wheel has none."""
SUFFIX = ".safetensors"


def load(name: str) -> TrainedModel:
    """Returns a model that comes trained.

    It was fitted to releases alone; `.record` says which, and what they cost. The noise of a
    benchmark has a public seed: the file shows what such a budget buys and protects nobody's label.

    Args:
        name: `<dataset>/<mechanism>/<model>/eps=<eps>`, e.g.
            `"mnist/subset_selection/eigenmaps/eps=0.2"`.

    Raises:
        InputError: there is no such model; the line lists those that are there, or says how to
            train a row of the leaderboard.
    """
    if name not in available():
        raise InputError(_missing(name))
    path = file_of(name)
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["model"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error} (fetch it again from the project)") from None
    shape = tuple(about["settings"]["image_shape"])
    return TrainedModel(name, about["record"], shape, _classifier(about, tensors))


def available() -> list[str]:
    """Returns the names that `load` takes, sorted."""
    return sorted(_name_of(path) for path in WEIGHTS.glob(f"*{SUFFIX}"))


def file_of(name: str) -> Path:
    """Returns where a model lies: slashes of its name are `__` there."""
    return WEIGHTS / (name.replace("/", "__") + SUFFIX)


def row_of(name: str, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the best row of the leaderboard that has this name; None without one."""
    same = [row for row in rows if _title(row) == name]
    return max(same, key=lambda row: row["accuracy"], default=None)


def _title(row: dict[str, Any]) -> str:
    return f"{row['dataset']}/{row['mechanism']}/{row['model']}/eps={float(row['eps']):g}"


def _name_of(path: Path) -> str:
    return path.name.removesuffix(SUFFIX).replace("__", "/")


def _classifier(about: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Classifier:
    settings = about["settings"]
    if about["form"] == "network":
        return network_of(settings, tensors, encoder=False)
    if about["form"] == "linear":
        return LinearScores.of(settings, tensors)
    return NeighbourScores.of(settings, tensors)


def _missing(name: object) -> str:
    """Returns the line for a name that is not there."""
    known = available()
    there = f"load takes: {', '.join(known)}"
    if not isinstance(name, str) or not LEADERBOARD.is_file():
        return f"no trained model {name!r}{did_you_mean(name, known)}; {there}"
    row = row_of(name, json.loads(LEADERBOARD.read_text()))
    if row is None:
        return f"no trained model {name!r}{did_you_mean(name, known)}; {there}"
    how = row["command"] or "its records have no command of this version"
    return f"{name} comes without weights; to train it: {how}; {there}"
