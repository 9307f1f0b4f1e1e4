"""From Hydra's config to one cell: its identity, its folder, its objects."""

import copy
import hashlib
import inspect
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import InstantiationException
from omegaconf import MISSING, DictConfig, OmegaConf, open_dict

from labeldp_bench.validate import InputError, check_eps, check_integer, did_you_mean

CHECKOUT = Path(__file__).resolve().parents[1]
"""The checkout's root; in an installed wheel a folder without configs or results."""

CONFIGS = CHECKOUT / "configs"

GROUPS = ("dataset", "mechanism", "learner", "model")
CHOICES = (*GROUPS, "trainer", "pretrain", "budget", "sweep", "experiment")
CHOICE = re.compile(rf"[+~]*({'|'.join(CHOICES)})(@|=|$)")
"""Overrides that choose a file under configs/; all others set a value."""

LARGEST_SEED = 2**63 - 1
PAPER = "paper"
"""The budget that changes nothing, and is no part of an identity."""
NO_GUARANTEE = "no guarantee"
"""Stands wherever a number does that nothing protects, though it looks like one that is."""


@dataclass
class RunConfig:
    """Types of the top-level keys; a group's schema is its class signature."""

    dataset: Any = MISSING
    mechanism: Any = MISSING
    learner: Any = MISSING
    model: Any = MISSING
    trainer: Any = MISSING
    pretrain: Any = None
    eps: float = 1.0
    seed: int = 0
    device: str = "auto"
    data_dir: str = "${oc.env:LABELDP_DATA,data}"
    out_dir: str = "results/runs"
    checkpoint_epochs: int | None = None
    budget: Any = None  # the rules of configs/budget; its name is what counts
    # What an experiment or sweep YAML fills: a list of blocks {set: {...}, grid: {...}}.
    cells: Any = None
    # How a paper's table or figure shows them; no part of a cell.
    table: Any = None
    figure: Any = None
    # What the Sweeper fills: the override lists of the cells that one job runs.
    job: Any = None


ConfigStore.instance().store(name="run_config", node=RunConfig)


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
        shared = ("dataset", "model", "seed")
        return canonical({k: v for k, v in self.identity.items() if k.split(".")[0] in shared})

    @property
    def pack_key(self) -> str | None:
        """A key that is equal for cells which can train as one (pack.py); None for a cell alone.

        They differ in mechanism and loss only, have a small network, and fit it once.
        """
        network, learner = self.config["model"].get("network"), self.config["learner"]
        if not network or "pretrain" in self.identity or learner.get("retrain", "none") != "none":
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
        network = self.config["model"].get("network") or {"_target_": "builtins.object"}
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
        if "pretrain" in self.identity:
            self._check_pretrain()
        for group in (*GROUPS, *(["pretrain"] if "pretrain" in self.identity else [])):
            try:
                parts[group] = hydra.utils.instantiate(self.config[group], _convert_="all")
            except InstantiationException as error:
                cause = error.__cause__ or error
                if isinstance(cause, InputError):
                    raise cause from None
                raise InputError(_constructor_error(group, str(cause))) from error
        return parts

    def _check_pretrain(self) -> None:
        name = self.identity["pretrain"]
        if "network" not in self.config["model"]:
            raise InputError(
                f"pretrain={name} needs a network, and model={self.identity['model']} has no "
                "weights (use pretrain=none, or model=resnet18)"
            )
        public = self.config["pretrain"]["dataset"]["name"]
        if public in (self.dataset_name, self.config["dataset"].get("source")):
            raise InputError(
                f"pretrain={name} takes the labels of {public} as public, and this run is to "
                "protect them (use pretrain=none)"
            )


def use_configs() -> None:
    """Lets Hydra find configs/: the checkout's, else those inside the wheel."""
    if GlobalHydra.instance().is_initialized():
        return
    if (CHECKOUT / "configs" / "config.yaml").is_file():
        hydra.initialize_config_dir(str(CHECKOUT / "configs"), version_base="1.3")
    else:
        hydra.initialize_config_module("labeldp_bench.configs", version_base="1.3")


def experiment_names() -> list[str]:
    """Returns what `experiment=` takes: `quickstart`, `<paper>/<table>`, ..."""
    folder = resources.files("labeldp_bench.configs") if not CONFIGS.is_dir() else CONFIGS
    root = Path(str(folder)) / "experiment"
    return sorted(
        path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml")
    )


def compose_cell(overrides: list[str]) -> Cell:
    """Returns the cell that a list of Hydra overrides spells."""
    # Hydra takes a tenth of a second, and a table has many cells that differ in the seed alone.
    seeds = [text for text in overrides if re.fullmatch(r"seed=\d+", text)]
    cell = _compose(tuple(text for text in overrides if text not in seeds))
    if not seeds:
        return cell
    seed = check_integer("seed", int(seeds[-1].partition("=")[2]), low=0, high=LARGEST_SEED)
    return Cell(cell.config | {"seed": seed}, cell.identity | {"seed": seed})


@cache
def _compose(overrides: tuple[str, ...]) -> Cell:
    # Most cells of a table make the same choices, and only values tell them apart: a tenth of the
    # time goes into those.
    chosen = tuple(text for text in overrides if CHOICE.match(text))
    config, choices = _compose_choices(chosen)
    values = [_parsed(text) for text in overrides if text not in chosen]
    config = copy.deepcopy(config)
    ConfigLoaderImpl._apply_overrides_to_config(values, config)  # as on the command line
    return cell_of(config, choices)


@cache
def _parsed(override: str) -> Override:
    return OverridesParser.create().parse_override(override)


@cache
def _compose_choices(chosen: tuple[str, ...]) -> tuple[DictConfig, dict[str, str]]:
    use_configs()
    config = hydra.compose("config", overrides=list(chosen), return_hydra_config=True)
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]  # most of the config, and no part of a cell
    return config, choices


def cell_of(config: DictConfig, choices: dict[str, str]) -> Cell:
    """Returns the cell of a composed config.

    Args:
        config: with or without Hydra's own node.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
    """
    shown = ("cells", "table", "figure", "job")
    place = ("data_dir", "out_dir", "device", "checkpoint_epochs")
    local = ("hydra", *shown, *place, "trainer", "eps")
    if "hydra" in config:
        config = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(resolved, dict)
    plain = {str(key): value for key, value in resolved.items() if key not in local}
    check_eps(resolved.get("eps", 1.0))
    known = RunConfig.__dataclass_fields__
    for key in plain:  # `+key=value` gets past Hydra, and would be ignored
        if key not in known:
            raise InputError(f"unknown key {key}{did_you_mean(key, known)}")
    identity: dict[str, Any] = {
        "seed": check_integer("seed", plain["seed"], low=0, high=LARGEST_SEED)
    }
    plain["budget"] = choices.get("budget") or PAPER
    if plain["budget"] != PAPER:
        identity["budget"] = plain["budget"]
    for group in GROUPS:
        identity[group] = choices[group]
        identity |= _flat(group, _without_defaults(plain[group]))
    if plain["pretrain"]:  # left out otherwise, as in runs from before there was any
        identity["pretrain"] = choices["pretrain"]
        identity |= _flat("pretrain", _without_defaults(plain["pretrain"]))
    return Cell(plain, dict(sorted(identity.items())))


def canonical(identity: dict[str, Any]) -> str:
    """Returns the one JSON text of an identity: sorted keys, no spaces, "inf" for infinity."""
    return json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _without_defaults(node: Any) -> Any:
    """Returns a config node without keys that repeat their constructor's default.

    So a new optional parameter leaves the identity of older runs as it was.
    """
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    if isinstance(node, float):
        if not math.isfinite(node):
            return str(node)  # "inf"; JSON has no such number
        return int(node) if node.is_integer() and abs(node) < 2**53 else node
    if not isinstance(node, dict):
        return node
    defaults = {}
    if "_target_" in node:
        signature = _signature(node["_target_"])
        defaults = {name: _plain(p.default) for name, p in signature.parameters.items()}
    kept = {
        key: _without_defaults(value)
        for key, value in node.items()
        if not key.startswith("_") and not (key in defaults and defaults[key] == value)
    }
    if "_target_" in node:
        kept["_target_"] = node["_target_"].rsplit(".", 1)[-1]
    return kept


def _size_of(identity: dict[str, Any]) -> list[str]:
    """Returns what tells synthetic data sets of one name apart; nothing for others."""
    classes = identity.get("dataset.num_classes")
    examples = identity.get("dataset.n_train")
    size = [f"N={examples}"] if "dataset.beta" in identity else []
    return size + ([f"K={classes}"] if classes else [])


def _signature(path: Any) -> inspect.Signature:
    try:
        return inspect.signature(hydra.utils.get_object(path))
    except Exception as error:  # whatever an import may raise
        raise InputError(f"_target_ must name something to call, got {path!r}") from error


def _constructor_error(group: str, text: str) -> str:
    missing = re.search(r"missing \d+ required .*argument.*: (.*)", text)
    if missing:
        return f"{group}: {missing[1]} must be given"
    unknown = re.search(r"unexpected keyword argument ('\w+')", text)
    return f"{group} has no key {unknown[1]}" if unknown else f"{group}: {' '.join(text.split())}"


def _plain(default: Any) -> Any:
    """Returns a constructor's default as YAML would hold it: tuples are lists there."""
    return [_plain(item) for item in default] if isinstance(default, tuple) else default


def _flat(prefix: str, node: dict[str, Any]) -> dict[str, Any]:
    """Returns {"model.k": 200, ...}; classes of nested nodes stand under the node's own key."""
    # The trainer is a group of its own on the command line; in the objects it is the model's.
    prefix = "trainer" if prefix == "model.trainer" else prefix
    flat: dict[str, Any] = {}
    for key, value in node.items():
        name = f"{prefix}.{key}"
        if key == "_target_":
            if "." in prefix:
                flat[prefix] = value
        elif isinstance(value, dict):
            flat |= _flat(name, value)
        else:
            flat[name] = value
    return flat
