"""Trains a row of the leaderboard anew and writes the small file that `labeldp_bench.load` reads.

    python scripts/ship_model.py name=mnist/subset_selection/eigenmaps/eps=0.2 [data_dir=FOLDER]

Runs the row's first seed as its own command does: the learner sees releases alone. Then it packs
the model (weights in half precision; points of neighbours on 32 axes, in whole numbers), reads the
file back, and scores it on the test images. Prints the accuracy of the committed record, of this
run and of the file; exit status 1, and no new file, if it is over half a point below the record.
`name` is `<dataset>/<mechanism>/<model>/eps=<eps>`; of several such rows the best one is taken.
"""

import json
import shlex
import sys
import tempfile
from dataclasses import dataclass, field, replace
from typing import Any

from safetensors.torch import save
from torch import Tensor

from labeldp_bench.cli.script import command, default_data_dir, read_arguments
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.mechanisms import Mechanism
from labeldp_bench.privacy.door import ReleaseDoor
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import environment_of
from labeldp_bench.runs.job import run_cells
from labeldp_bench.supervision.interfaces import Learner, Model, Session
from labeldp_bench.supervision.prediction import Fitted
from labeldp_bench.support.files import replacing
from labeldp_bench.support.process import prepare_training
from labeldp_bench.support.progress import say
from labeldp_bench.support.validate import InputError
from labeldp_bench.trained.load import LEADERBOARD, WEIGHTS, file_of, load, row_of
from labeldp_bench.trained.pack import packed

OWN = {"name": "", "data_dir": ""}
LARGEST_LOSS = 0.005
"""Of accuracy, by packing or other hardware."""
LEFT_OUT = ("config", "checksum", "mechanism_summary")


@dataclass(frozen=True)
class Keeping(Learner):
    """A learner that keeps what it fitted; what it learns from stays the same."""

    learner: Learner
    kept: list[Fitted] = field(default_factory=list)

    def fit(
        self,
        features: Tensor,
        vault: ReleaseDoor,
        mechanism: Mechanism,
        model: Model,
        session: Session,
    ) -> Fitted:
        """Returns and keeps the fitted classifier."""
        self.kept.append(self.learner.fit(features, vault, mechanism, model, session))
        return self.kept[-1]


@dataclass(frozen=True)
class KeptCell(Cell):
    """A cell whose learner keeps what it fitted."""

    kept: list[Fitted] = field(default_factory=list)

    def build(self) -> Parts:
        """Returns the objects of the run."""
        parts = super().build()
        return replace(parts, learner=Keeping(parts.learner, self.kept))


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes one model's file; returns the exit status."""
    own = read_arguments(arguments, OWN)
    name = own["name"]
    row = row_of(name, json.loads(LEADERBOARD.read_text()))
    if row is None or row["command"] is None:
        raise InputError(f"name must be a row of {LEADERBOARD.name} with a command, got {name!r}")
    seed = row["seeds"][0]
    cell = compose_cell([*_overrides(row["command"]), f"seed={seed}"])
    if cell.config_hash not in row["records"]:
        raise InputError(f"{name}: its command has no record of seed {seed}")
    committed = read_committed()[cell.config_hash]
    if committed["selection"] != "last":
        raise InputError(f"{name}: no single model has its accuracy ({committed['selection']})")
    prepare_training()
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_of(folder, own["data_dir"] or default_data_dir(), "cpu")
        kept = KeptCell(cell.config, cell.choices)
        if run_cells([kept], environment):
            return 1
        record = read_record(environment.out_dir / cell.folder)
    data = cell.build().dataset.draw(environment.data_dir, seed)
    form, settings, tensors = packed(kept.kept[-1])
    settings |= {"num_classes": data.num_classes, "image_shape": list(data.test_features.shape[1:])}
    if any(key.startswith("network.") for key in tensors):
        settings["network"] = _network_of(cell)
    kept_record = {key: record[key] for key in record if key not in LEFT_OUT}
    kept_record |= {"shipped_accuracy": 0.0, "committed_accuracy": float(committed["accuracy"])}
    about = {"form": form, "settings": settings, "record": kept_record}
    WEIGHTS.mkdir(exist_ok=True)
    path = file_of(name)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):  # to score the file, then with its score inside
        with replacing(path) as partial:
            partial.write_bytes(save(tensors, {"model": json.dumps(about, allow_nan=False)}))
        right = load(name).predict(data.test_features) == data.test_labels.numpy()
        kept_record["shipped_accuracy"] = float(right.mean())
    scores = committed["accuracy"], record["accuracy"], right.mean()
    say(f"{name}, record {cell.config_hash}, seed {seed}, {path.stat().st_size / 1e6:.2f} MB")
    say("test accuracy: committed {:.4f}, this run {:.4f}, the file {:.4f}".format(*scores))
    if right.mean() < committed["accuracy"] - LARGEST_LOSS:
        path.unlink()
        if before is not None:
            path.write_bytes(before)
        say("the file is too far below the record: not written")
        return 1
    return 0


def _overrides(text: str) -> list[str]:
    """Returns the overrides of a command less the seeds: all after `python -m labeldp_bench`."""
    return [part for part in shlex.split(text)[3:] if part != "-m" and not part.startswith("seed=")]


def _network_of(cell: Cell) -> dict[str, Any]:
    """Returns class and parameters of the network that a cell trains, or takes as encoder."""
    if cell.choices["pretrain"] == "patches":
        own = {
            key: cell.setting(f"pretrain.{key}")
            for key in ("filters", "size", "cells", "threshold")
        }
        return {"class": "PatchNetwork", **own}
    network = dict(cell.config["model"]["network"])
    network.pop("_partial_")
    return {"class": network.pop("_target_").rpartition(".")[2], **network}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
