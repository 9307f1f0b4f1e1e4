"""One run before it runs: its identity, its title, its folder, its objects. Imports no torch."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import InstantiationException

from labeldp_bench.identity import GROUPS, PAPER, canonical
from labeldp_bench.validate import InputError

NO_GUARANTEE = "no guarantee"
"""Stands wherever a number does that nothing protects, though it looks like one that is."""


@dataclass(frozen=True)
class Cell:
    """One run, before it runs.

    Attributes:
        config: the resolved config as plain containers, without machine-bound keys.
        identity: what decides the result, flat and without defaults (contract: config_hash).
    """

    config: dict[str, Any]
    identity: dict[str, Any]

    @property
    def config_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical identity."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()[:16]

    @property
    def seed(self) -> int:
        """The run's seed, from which all streams are derived."""
        return int(self.config["seed"])

    @property
    def title(self) -> str:
        """What a person calls this cell: 'rappor (bce) on mnist, cnn, eps=1, seed 0'."""
        mechanism = f"{self.identity['mechanism']} ({self.identity['learner.loss']})"
        parts = [f"{mechanism} on {self.dataset_name}", self.identity["model"]]
        if "pretrain" in self.identity:
            parts.append(f"pretrain={self.identity['pretrain']}")
        if "mechanism.eps" in self.identity:
            parts.append(f"eps={self.identity['mechanism.eps']}")
        elif self.identity["mechanism"] != "none":  # the baseline claims to protect nothing
            parts.append(NO_GUARANTEE)
        if "dataset.name" not in self.identity:  # synthetic data
            parts += _size_of(self.identity)
        parts.append(f"seed {self.seed}")
        return ", ".join([*parts, *([f"budget {self.budget}"] if self.budget != PAPER else [])])

    @property
    def budget(self) -> str:
        """`paper`, or the smaller version that this cell is."""
        return str(self.identity.get("budget", PAPER))

    @property
    def num_classes(self) -> int:
        """K."""
        return int(self.config["dataset"]["num_classes"])

    def setting(self, key: str) -> Any:
        """Returns the value that `key=` would set, e.g. `trainer.epochs`; None without one."""
        parent, last = self._parent(key)
        return parent.get(last)

    def has(self, key: str) -> bool:
        """Returns whether `key` sets anything in this cell."""
        parent, last = self._parent(key)
        return last in parent

    def _parent(self, key: str) -> tuple[dict[str, Any], str]:
        # The trainer is a group of its own on the command line; in the objects it is the model's.
        *path, last = re.sub(r"^trainer\b", "model.trainer", key).split(".")
        node: Any = self.config
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        return (node if isinstance(node, dict) else {}), last

    @property
    def data_name(self) -> str:
        """The data set and all that was chosen of it, as text: it keeps their noise apart."""
        chosen = {
            key: value
            for key, value in self.identity.items()
            if key == "dataset" or key.startswith("dataset.")
        }
        return canonical(chosen)

    @property
    def dataset_name(self) -> str:
        """The data set's name; for `npz` that of the user's file."""
        return str(self.config["dataset"].get("name", self.identity["dataset"]))

    @property
    def folder(self) -> Path:
        """Where the run is kept, relative to out_dir."""
        eps = self.identity.get("mechanism.eps", "inf")
        names = (self.dataset_name, self.identity["mechanism"], self.identity["model"])
        return Path(*names, f"eps={eps}", f"seed={self.seed}-{self.config_hash[:8]}")

    @property
    def shared_work(self) -> str | None:
        """A key that is equal for cells which can share work in one job; None for a cell alone."""
        model = hydra.utils.get_class(self.config["model"]["_target_"])
        if not getattr(model, "shares_work", False):
            return None
        shared = ("dataset", "model", "pretrain", "seed")
        return canonical({k: v for k, v in self.identity.items() if k.split(".")[0] in shared})

    @property
    def pack_key(self) -> str | None:
        """A key that is equal for cells which can train as one (pack.py); None for a cell alone.

        They differ in mechanism and loss only, have a small network, and fit it once.
        """
        learner, trained = self.config["learner"], "trainer" in self.config["model"]
        alone = "pretrain" in self.identity or learner.get("retrain", "none") != "none"
        if alone or not trained:
            return None
        small = bool(self.packs_on)
        once = getattr(hydra.utils.get_class(learner["_target_"]), "fits_once", False)
        if not (small and once):
            return None
        own = {key for key in self.identity if key.split(".")[0] == "mechanism"} | {"learner.loss"}
        return canonical({k: v for k, v in self.identity.items() if k not in own})

    @property
    def packs_on(self) -> tuple[str, ...]:
        """The kinds of device on which its network trains faster in a pack than alone."""
        network = self.config["model"].get("network")
        if not isinstance(network, dict):  # none, or what `build` refuses
            return ()
        return getattr(hydra.utils.get_object(network["_target_"]), "packs_on", ())

    @property
    def pretrain_recipe(self) -> dict[str, Any]:
        """What decides the weights that training starts from; empty without pre-training."""
        if "pretrain" not in self.identity:
            return {}
        return {
            key: value
            for key, value in self.identity.items()
            if key.split(".")[0] == "pretrain" or key.startswith("model.network")
        }

    def build(self) -> dict[str, Any]:
        """Returns the objects of the run: dataset, mechanism, learner, model, pretrain if any.

        Raises:
            InputError: a value that its class refuses, a parameter it does not know, or a
                pre-training that makes no sense here.
        """
        parts = {}
        for group in (*GROUPS, *(["pretrain"] if "pretrain" in self.identity else [])):
            try:
                parts[group] = hydra.utils.instantiate(self.config[group], _convert_="all")
            except InstantiationException as error:
                cause = error.__cause__ or error
                if isinstance(cause, InputError):
                    raise InputError(_in_full(group, str(error), str(cause))) from None
                raise InputError(_constructor_error(group, str(cause))) from error
        if "pretrain" not in parts and getattr(parts["model"], "needs_pretraining", False):
            raise InputError(
                f"model={self.identity['model']} needs a pre-trained network (pretrain=simclr)"
            )
        if "pretrain" in parts:
            self._check_pretrain(parts["pretrain"].public_data)
        return parts

    def _check_pretrain(self, public: str | None) -> None:
        name = self.identity["pretrain"]
        if "network" not in self.config["model"]:
            raise InputError(
                f"pretrain={name} needs a network, and model={self.identity['model']} has no "
                "weights (use pretrain=none, or model=resnet18)"
            )
        own = (self.dataset_name, self.config["dataset"].get("source"))
        if public is not None and public in own:
            raise InputError(
                f"pretrain={name} takes the labels of {public} as public, and this run is to "
                "protect them (use pretrain=none)"
            )


def _size_of(identity: dict[str, Any]) -> list[str]:
    """Returns what tells synthetic data sets of one name apart; nothing for others."""
    classes = identity.get("dataset.num_classes")
    examples = identity.get("dataset.n_train")
    size = [f"N={examples}"] if "dataset.beta" in identity else []
    return size + ([f"K={classes}"] if classes else [])


def _in_full(group: str, where: str, text: str) -> str:
    """Returns the message of a class, in which an object inside `group` has its own key.

    A trainer says `trainer.epochs`, which is the model's; the client's is `learner.client.epochs`.
    """
    inside = re.search(r"full_key: (\w+)", where)
    if group == "model" or not inside:
        return text
    return re.sub(r"^(trainer\.|mechanism\.|dataset\.|(?=eps ))", f"{group}.{inside[1]}.", text)


def _constructor_error(group: str, text: str) -> str:
    missing = re.search(r"missing \d+ required .*argument.*: (.*)", text)
    if missing:
        return f"{group}: {missing[1]} must be given"
    unknown = re.search(r"unexpected keyword argument ('\w+')", text)
    return f"{group} has no key {unknown[1]}" if unknown else f"{group}: {' '.join(text.split())}"
