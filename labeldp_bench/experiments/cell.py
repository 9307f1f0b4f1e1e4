"""One run before it runs: its identity, its title, its folder, its objects."""

import hashlib
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.errors import InstantiationException

from labeldp.support.validate import InputError
from labeldp_bench.experiments.identity import GROUPS, PAPER, SEEDED, canonical, identity_of

if TYPE_CHECKING:  # they import torch, which a title need not wait for
    from labeldp.mechanisms.measurement import Measurement
    from labeldp_bench.data.bundle import Dataset
    from labeldp_bench.interfaces import Learner, Model
    from labeldp_bench.pretraining.recipes import PretrainingRecipe

NO_GUARANTEE = "no guarantee"
"""Stands beside every number that nothing protects, though it looks like one that is protected."""


@dataclass(frozen=True)
class Parts:
    """The objects of a run."""

    dataset: "Dataset"
    mechanism: "Measurement"
    learner: "Learner"
    model: "Model"
    pretrain: "PretrainingRecipe | None" = None


@dataclass(frozen=True)
class Cell:
    """One run, before it runs.

    Attributes:
        config: the resolved config as plain containers, without machine-bound keys.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
        eps: the run's budget for each label, or for each unit; infinite where the mechanism
            promises nothing.
        used: which of the groups `encoder` and `views` it takes something from.
        as_stated: whether its identity is by the YAML alone. That imports no class, and so no
            torch; it is for a forecast, and no folder or record may have it.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    eps: float
    used: frozenset[str] = frozenset()
    as_stated: bool = False

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What decides the result, flat; imports the cell's classes."""
        if (base := vars(self).get("_base")) is not None:
            return base.identity | {"seed": self.seed}
        return identity_of(self.config, self.choices, defaults=not self.as_stated)

    @cached_property
    def config_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical identity."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()[:16]

    def with_seed(self, seed: int) -> "Cell":
        """Returns the same with another seed; all of them share the work for an identity."""
        other = replace(self, config=self.config | {"seed": seed})
        vars(other)["_base"] = self
        return other

    @property
    def seed(self) -> int:
        """The run's seed, from which all streams are derived."""
        return int(self.config["seed"])

    @property
    def noise(self) -> str:
        """`seeded`: the noise follows from the run's seed; `secret`: from nothing that is kept."""
        return str(self.config.get("noise", SEEDED))

    @property
    def title(self) -> str:
        """What a person calls this cell: 'rappor (bce) on mnist, cnn, eps=1, seed 0'."""
        mechanism, learner = self.choices["mechanism"], self.config["learner"]
        parts = [
            f"{mechanism} ({learner.get('loss')}) on {self.dataset_name}",
            self.choices["model"],
        ]
        if self.config["pretrain"]:
            parts.append(f"pretrain={self.choices['pretrain']}")
        if self.config["tuning"]:
            parts.append(f"tuning={self.choices['tuning']}")
        if self.has("mechanism.eps"):
            parts.append(f"eps={self.eps:g}")
        elif mechanism != "none":  # the baseline promises nothing
            parts.append(NO_GUARANTEE)
        if not self.has("dataset.name"):  # synthetic data
            parts += [f"N={self.setting('dataset.n_train')}"] if self.has("dataset.beta") else []
            parts += [f"K={self.num_classes}"] if self.has("dataset.num_classes") else []
        parts.append(f"seed {self.seed}")
        if self.noise != SEEDED:
            parts.append(f"{self.noise} noise")
        return ", ".join([*parts, *([f"budget {self.budget}"] if self.budget != PAPER else [])])

    @property
    def budget(self) -> str:
        """`paper`, or the smaller version that this cell is."""
        return str(self.config["budget"])

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
        """The data set with its settings, as text: runs on different data draw different noise."""
        return canonical(self._part_of_identity(("dataset",)))

    @property
    def dataset_name(self) -> str:
        """The data set's name; for `npz` that of the user's file."""
        return str(self.config["dataset"].get("name", self.choices["dataset"]))

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
        if not model.shares_work:  # type: ignore[attr-defined]
            return None
        return canonical(self._part_of_identity(("dataset", "model", "pretrain", "seed")))

    @property
    def model_name(self) -> str:
        """The model with its settings and its pre-training, as text: equal for equal models."""
        return canonical(self._part_of_identity(("model", "pretrain")))

    @property
    def pretrain_recipe(self) -> dict[str, Any]:
        """What decides the weights that training starts from; empty without pre-training."""
        if not self.config["pretrain"]:
            return {}
        return self._part_of_identity(("pretrain", "model.network"))

    def _part_of_identity(self, prefixes: tuple[str, ...]) -> dict[str, Any]:
        inside = tuple(f"{prefix}." for prefix in prefixes)
        return {
            key: value
            for key, value in self.identity.items()
            if key in prefixes or key.startswith(inside)
        }

    def build(self) -> Parts:
        """Returns the objects of the run.

        Raises:
            InputError: a value that its class refuses, a parameter it does not know, a mechanism
                with another budget than the run, or a pre-training that makes no sense here.
        """
        chosen = [group for group in ("pretrain", "tuning") if self.config[group]]
        built = {group: self._made(group) for group in (*GROUPS, *chosen)}
        tuning = built.pop("tuning", None)
        parts = Parts(**built)
        if parts.mechanism.eps != self.eps:
            raise InputError(
                f"mechanism.eps must be the run's budget, {self.eps:g}, got "
                f"{parts.mechanism.eps:g} (give eps= alone; a YAML of your own has eps: ${{eps}})"
            )
        if tuning is not None:
            parts = replace(parts, model=tuning.of(parts.model))
        self._check_pretrain(parts)
        only, learner = parts.model.trained_by, self.choices["learner"]
        if only and learner != only:
            raise InputError(
                f"model={self.choices['model']} is trained by learner={only} alone, got "
                f"learner={learner} (mechanism=labeldp_pro learner={only}, or model=cnn)"
            )
        parts.learner.check(parts.mechanism, parts.model)
        return parts

    def _made(self, group: str) -> Any:
        """Returns the object of a group."""
        try:
            made = hydra.utils.instantiate(self.config[group], _convert_="all")
        except InstantiationException as error:
            cause = error.__cause__ or error
            if isinstance(cause, InputError):
                raise InputError(_in_full(group, str(error), str(cause))) from None
            raise InputError(_constructor_error(group, str(cause))) from error
        if isinstance(made, dict):  # `+tuning.epochs=2` gets past Hydra
            raise InputError(
                f"{group}={self.choices[group]} has no keys, got {', '.join(made)} "
                f"(name another {group}= first; configs/{group} has them)"
            )
        return made

    def _check_pretrain(self, parts: Parts) -> None:
        """Refuses a pre-training that makes no sense here."""
        name, model, recipe = self.choices["pretrain"], self.choices["model"], parts.pretrain
        if recipe is None:
            if parts.model.needs_pretraining:
                raise InputError(f"model={model} needs a pre-trained network (pretrain=simclr)")
            return
        if "network" not in self.config["model"]:
            raise InputError(
                f"pretrain={name} needs a network, and model={model} has no weights (use "
                "pretrain=none, or model=resnet18)"
            )
        own = (self.dataset_name, self.config["dataset"].get("source"))
        if recipe.public_data is not None and recipe.public_data in own:
            raise InputError(
                f"pretrain={name} takes the labels of {recipe.public_data} as public, and this run "
                "is to protect them (use pretrain=none)"
            )
        trains = parts.model.recipe is not None or bool(parts.model.trained_by)
        if recipe.own_network and trains:
            raise InputError(
                f"pretrain={name} makes features that stay as they are, and model={model} trains a "
                "network (use model=ridge)"
            )


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
    if unknown and group == "learner":
        key = unknown[1].strip("'")
        return f"learner has no key '{key}' (if the mechanism brings it: add '~learner.{key}')"
    return f"{group} has no key {unknown[1]}" if unknown else f"{group}: {' '.join(text.split())}"
