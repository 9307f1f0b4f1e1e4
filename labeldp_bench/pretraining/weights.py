"""The files of pre-trained weights, and how they are made once."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from labeldp.support.files import only_one, replacing
from labeldp.support.progress import say
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.interfaces import NetworkFactory
from labeldp_bench.pretraining.recipes import Combined, PretrainingRecipe, Weights
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.training.checkpoint import Checkpoint

FOLDER = "pretrained"
"""Where the weights lie, under data_dir."""
COMMITTED = CHECKOUT / "results" / FOLDER
"""Weights that a checkout brings along: hours that nobody need spend again."""
NETWORK = "model.network"


def pretrained(
    pretraining: PretrainingRecipe,
    network: NetworkFactory,
    features: Tensor,
    recipe: Mapping[str, object],
    data_dir: Path,
    device: torch.device,
    checkpoint_epochs: int | None = None,
) -> Weights:
    """Returns the weights of `recipe`; trains them unless they lie in `data_dir` or `COMMITTED`.

    Their notes: the file's SHA-256, the torch version and the precision that trained it, and the
    recipe's loss or test accuracy. Of several recipes side by side each has its file, and notes
    under its name.

    Args:
        pretraining: trains them.
        network: as NetworkModel's.
        features: the run's training images.
        recipe: all that decides the weights; its hash names the file.
        data_dir: holds the data sets and the folder `pretrained`.
        device: where to train.
        checkpoint_epochs: of the training, from one checkpoint to the next; None: one a minute.

    Raises:
        InputError: as `train`; or nothing can be written there; or a damaged file.
    """
    if isinstance(pretraining, Combined):
        both = Weights({}, {})
        for number, (name, part) in enumerate(pretraining.parts.items()):
            tensors, notes = pretrained(
                part, network, features, part_of(recipe, name), data_dir, device, checkpoint_epochs
            )
            both.tensors.update({f"parts.{number}.{key}": each for key, each in tensors.items()})
            both.notes.update({f"{name}_{key}": value for key, value in notes.items()})
        return both
    if pretraining.own_network:
        recipe = {key: value for key, value in recipe.items() if not key.startswith(NETWORK)}
    name = f"{recipe_hash(recipe)}.safetensors"
    if (COMMITTED / name).is_file():
        return read(COMMITTED / name)
    path = data_dir / FOLDER / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = "waiting for the process that pre-trains the same network"
        with only_one(path, lambda: say(waiting)):
            if not path.exists():
                about = {
                    "torch_version": str(torch.__version__),
                    "precision": pretraining.precision_on(device),
                }
                checkpoint = Checkpoint(
                    path.with_suffix(".checkpoint.pt"),
                    about,
                    every=checkpoint_epochs,
                    what="pre-training",
                )
                data = pretraining.public_data or "the run's features, without labels"
                say(f"pre-training on {data}, once; later runs read the weights")
                checkpoint.resume()
                new = pretraining.train(network, features, data_dir, device, checkpoint)
                notes = {"recipe": json.dumps(recipe, sort_keys=True), **new.notes, **about}
                with replacing(path) as partial:
                    partial.write_bytes(_in_order(save(new.tensors, notes)))
                checkpoint.remove()
            return read(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read or written: {error.strerror}") from error
    except Diverged as error:  # it names the keys of a run's own trainer
        raise Diverged(str(error).replace("trainer.", "pretrain.trainer.")) from None


def part_of(recipe: Mapping[str, object], name: str) -> dict[str, object]:
    """Returns the recipe of the part `name`: what a run with that part alone would have.

    >>> part_of({"pretrain": "both", "pretrain.parts.a": "A", "pretrain.parts.a.seed": 1}, "a")
    {'pretrain': 'a', 'pretrain.seed': 1}
    """
    inside = f"pretrain.parts.{name}"
    kept = {key: value for key, value in recipe.items() if not key.startswith("pretrain")}
    own = {key: value for key, value in recipe.items() if key.startswith(f"{inside}.")}
    own = {f"pretrain{key.removeprefix(inside)}": value for key, value in own.items()}
    return {"pretrain": name, **own, **kept}


def recipe_hash(recipe: Mapping[str, object]) -> str:
    """Returns 16 hex digits of the SHA-256 of a recipe.

    >>> recipe_hash({"b": 1, "a": 2}) == recipe_hash({"a": 2, "b": 1})
    True
    """
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> Weights:
    """Returns the weights of a file; nothing in it is executed.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            # Sorted, as the package leaves the order to chance, and a record keeps it.
            about = dict(sorted((file.metadata() or {}).items()))
    except SafetensorError as error:
        raise InputError(
            f"{path} is damaged: {error} (delete it, and the next run trains it again)"
        ) from error
    about.pop("recipe", None)  # the record's own config has it
    about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return Weights(tensors, {f"pretrained_{key}": value for key, value in about.items()})


def _in_order(content: bytes) -> bytes:
    """Returns the bytes of a safetensors file with its metadata sorted.

    The package leaves their order to chance: the same weights would have another SHA-256, and
    records of the same run would differ. The format: length of the header, 8 bytes, little-endian;
    the header, JSON padded with blanks to a multiple of 8; the tensors.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]
