"""From overrides to a cell, by `hydra.compose`. Imports no torch."""

import copy
import math
import pickle
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import hydra
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult
from omegaconf import MISSING, DictConfig, OmegaConf, open_dict

from labeldp.support.validate import (
    InputError,
    check_choice,
    check_eps,
    check_integer,
    did_you_mean,
)
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.grid import LOCAL
from labeldp_bench.experiments.identity import GROUPS, NOISES, PAPER, SEEDED
from labeldp_bench.experiments.kept import keep, kept
from labeldp_bench.support.checkout import CONFIGS

CHOICES = (
    *GROUPS,
    "trainer",
    "views",
    "encoder",
    "pretrain",
    "tuning",
    "stages",
    "budget",
    "sweep",
    "experiment",
)
CHOICE = re.compile(rf"[+~]*({'|'.join(CHOICES)})(@|=|$)")
"""Overrides that choose a file under configs/."""
VALUE = re.compile(r"[\w.]+=")
"""Overrides that set a value, among those that choose no file."""

LARGEST_SEED = 2**63 - 1
ENCODER = "${encoder}"
OWN = "command-line"
"""What Hydra calls the folder of `--config-dir`."""
LEFT_OUT = [f"~hydra/{group}" for group in ("help", "hydra_help", "output", "launcher", "sweeper")]
"""Parts of Hydra's own node that no cell needs; they take a third of the time."""
SHARED_GROUPS = ("encoder", "views")
"""Groups whose choice other groups include."""


@dataclass
class RunConfig:
    """Types of the top-level keys; a group's schema is its class signature.

    Attributes:
        eps: privacy budget of each label, at least 1e-5, in natural-log units; inf: no noise.
        seed: of data, noise and training; an integer >= 0.
        noise: seeded: the same for the same seed; secret: nobody can draw it again.
        device: where networks train: auto, cpu, cuda or cuda:0.
        data_dir: the folder with <dataset>.npz; downloads go there.
        out_dir: the folder of runs, records and tables.
        checkpoint_epochs: epochs between two saves of a training; null: after a minute or more.
        capture: whether a GPU's step is recorded once, as a CUDA graph, and replayed.
        minutes: how long a sweep may take; it starts no run that would take longer, and exits with
            75 if some are left.
        rerun: whether an experiment trains again what results/records.csv holds.
    """

    dataset: Any = MISSING
    mechanism: Any = MISSING
    learner: Any = MISSING
    model: Any = MISSING
    trainer: Any = MISSING
    views: Any = MISSING
    encoder: Any = MISSING
    pretrain: Any = None
    tuning: Any = None
    eps: float = 1.0
    seed: int = 0
    noise: str = SEEDED
    device: str = "auto"
    data_dir: str = "${oc.env:LABELDP_DATA,data}"
    out_dir: str = "results/runs"
    checkpoint_epochs: int | None = None
    capture: bool = True
    minutes: float | None = None
    rerun: bool = False
    budget: Any = None  # the rules of configs/budget; its name is what counts
    # What an experiment or sweep YAML fills: a list of blocks {set: {...}, grid: {...}}.
    cells: Any = None
    # How a paper's table shows them; no part of a cell.
    table: Any = None


ConfigStore.instance().store(name="run_config", node=RunConfig)
# A table is called as its file is, unless it is named.
OmegaConf.register_new_resolver("file_stem", lambda file: Path(str(file)).name.partition(".")[0])


def choices_of(group: str) -> dict[str, Path]:
    """Returns {choice: its file} of a group, those of `--config-dir` among them."""
    found: dict[str, Path] = {}
    for folder in _folders():
        root = folder / group
        files = root.rglob("*.yaml")
        found |= {file.relative_to(root).with_suffix("").as_posix(): file for file in files}
    return dict(sorted(found.items()))


def _folders() -> list[Path]:
    """Returns where Hydra finds files, the one that wins last (see `start`)."""
    if not GlobalHydra.instance().is_initialized():
        return [CONFIGS]
    known = GlobalHydra.instance().config_loader().get_search_path().get_path()
    own = [part.path.removeprefix("file://") for part in known if part.provider == OWN]
    return [CONFIGS, *map(Path, own)]


def experiment_names() -> list[str]:
    """Returns what `experiment=` takes: `quickstart`, `<paper>/<table>`, ..."""
    return list(choices_of("experiment"))


@cache  # each of nine thousand records asks for it when all are checked
def mechanism_names() -> list[str]:
    """Returns what `mechanism=` takes."""
    return list(choices_of("mechanism"))


def unknown_experiment(name: str, known: Collection[str]) -> InputError:
    """Returns what is said of a name that no experiment has; `known` are too many to list."""
    return InputError(
        f"there is no experiment {name!r}{did_you_mean(name, known)}; "
        "`python -m labeldp_bench --help experiment` shows all"
    )


def compose_cell(overrides: list[str]) -> Cell:
    """Returns the cell that a list of Hydra overrides spells."""
    # Hydra takes a tenth of a second, and a table has many cells that differ in the seed alone.
    seeds = [text for text in overrides if re.fullmatch(r"seed=\d+", text)]
    cell = _compose(tuple(text for text in overrides if text not in seeds))
    if not seeds:
        return cell
    seed = check_integer("seed", int(seeds[-1].partition("=")[2]), low=0, high=LARGEST_SEED)
    return cell.with_seed(seed)


@cache
def _compose(overrides: tuple[str, ...]) -> Cell:
    def made() -> list[Any]:
        cell = _composed(overrides)
        return [cell.config, cell.choices, cell.eps, sorted(cell.used)]

    config, choices, eps, used = composed_before(["cell", *overrides], made)
    return Cell(config, choices, eps, frozenset(used))


def _composed(overrides: tuple[str, ...]) -> Cell:
    # Most cells of a table make the same choices, and only values tell them apart. Hydra composes
    # each combination of choices once; values are set on a copy, as Hydra does it.
    values = [text for text in overrides if VALUE.match(text) and not CHOICE.match(text)]
    budget = [text for text in overrides if text.startswith("budget=")]
    chosen = [text for text in overrides if text not in values and text not in budget]
    pickled, choices = _compose_choices(tuple(sorted(chosen, key=key_of)))
    if budget:  # the cell names it; its rules are no part of the cell
        name = budget[-1].partition("=")[2]
        known = name in choices_of("budget")  # Hydra need not be asked, and takes its time
        name = name if known else _compose_choices((budget[-1],))[1]["budget"]
        choices = choices | {"budget": name}
    config = pickle.loads(pickled)
    for text in values:
        OmegaConf.update(config, key_of(text), _parsed(text), merge=True)
    return cell_of(config, choices)


def composed_before(key: Sequence[str], make: Callable[[], Any]) -> Any:
    """Returns what `make` returns, plain containers, unless a program has kept it by this key."""
    if _folders() != [CONFIGS]:  # files of `--config-dir` change between two programs
        return make()
    if (value := kept(key)) is None:
        keep(key, value := make())
    return value


@cache
def _parsed(override: str) -> Any:
    return OverridesParser.create().parse_override(override).value()


def compose(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str]]:
    """Returns what Hydra composes, without Hydra's own node, and the option of each group."""
    pickled, choices = _compose_choices(tuple(overrides))
    return pickle.loads(pickled), dict(choices)


@cache
def _compose_choices(overrides: tuple[str, ...]) -> tuple[bytes, dict[str, str]]:
    """Returns the config, pickled, since a deep copy takes five times as long, and its choices."""
    config = pickle.loads(_compose_whole((*overrides, *LEFT_OUT)))
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    return pickle.dumps(config), choices


def compose_whole(overrides: Sequence[str]) -> DictConfig:
    """Returns what Hydra composes, with Hydra's own node."""
    config: DictConfig = pickle.loads(_compose_whole(tuple(overrides)))
    return config


@cache
def _compose_whole(overrides: tuple[str, ...]) -> bytes:
    if not GlobalHydra.instance().is_initialized():
        start()
    return pickle.dumps(hydra.compose("config", list(overrides), return_hydra_config=True))


class _Files(ConfigRepository):
    """Reads each file once: Hydra reads all of them again for each composition."""

    def __init__(self, places: ConfigSearchPath) -> None:
        super().__init__(places)
        self._read: dict[str, bytes] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Returns what a file holds, a copy that a composition may change."""
        if config_path not in self._read:
            self._read[config_path] = pickle.dumps(super().load_config(config_path))
        result: ConfigResult | None = pickle.loads(self._read[config_path])
        return result

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Looks for files in other places."""
        self._read = {}
        super().initialize_sources(config_search_path)

    def __deepcopy__(self, memo: object) -> Self:
        """Returns what one composition uses, which may look in other places."""
        return copy.copy(self)


def start(own: str | None = None) -> None:
    """Makes Hydra find the files in configs/, and before them those in the folder `own`.

    Raises:
        InputError: there is no such folder.
    """
    if own is None and GlobalHydra.instance().is_initialized() and _folders() == [CONFIGS]:
        return
    version.setbase("1.3")
    paths = create_config_search_path(str(CONFIGS))
    if own is not None:
        if not Path(own).is_dir():
            raise InputError(f"--config-dir must be a folder, got {own!r}")
        # As Hydra places what its own option names.
        before = SearchPathQuery(provider="schema")
        paths.prepend(OWN, f"file://{Path(own).resolve()}", before)
    for composed in (_compose, _compose_choices, _compose_whole):
        composed.cache_clear()
    GlobalHydra.instance().clear()
    loader = Hydra.create_main_hydra2("labeldp_bench", paths).config_loader
    assert isinstance(loader, ConfigLoaderImpl)
    loader.repository = _Files(paths)


def key_of(override: str) -> str:
    """Returns the key of an override, also of `++key=value`."""
    return override.partition("=")[0].lstrip("+~")


def cell_of(config: DictConfig, choices: dict[str, str]) -> Cell:
    """Returns the cell of a composed config.

    Args:
        config: without Hydra's own node.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
    """
    if not OmegaConf.is_missing(config, "mechanism") and "mechanism" in (config.mechanism or ()):
        raise InputError(
            f"the YAML of mechanism={choices['mechanism']} must begin with # @package _global_, as "
            "it has keys of the whole recipe"
        )
    eps = check_eps(config.get("eps", 1.0))
    shown = ("cells", "table")
    local = (*shown, *LOCAL, "minutes", "rerun", "trainer", "views", "encoder", "eps")
    plain = {str(key): _resolved(config, key) for key in config if key not in local}
    known = RunConfig.__dataclass_fields__
    for key in plain:  # `+key=value` gets past Hydra, and would be ignored
        if key not in known:
            advice = did_you_mean(key, known) or f" (keys: {', '.join(known)})"
            raise InputError(f"unknown key {key}{advice}")
    for key in ("seed", "noise"):
        if key not in plain:
            raise InputError(f"{key} must be given (leave ~{key} out)")
    check_integer("seed", plain["seed"], low=0, high=LARGEST_SEED)
    if check_choice("noise", plain["noise"], NOISES) == SEEDED:
        del plain["noise"]  # the only kind before there was a choice
    elif (plain.get("dataset") or {}).get("classes") == "public":
        raise InputError(
            "dataset.classes=public reads off the labels which classes there are, and noise=secret "
            "is for labels that nobody may know (name all: dataset.classes=[no,yes])"
        )
    if choices.get("stages") and choices["learner"] != "multi_stage":
        raise InputError(
            f"stages={choices['stages']} is for learner=multi_stage (mechanism=lp_2st or lp_mst), "
            f"and here mechanism={choices['mechanism']} has learner={choices['learner']}"
        )
    if "eps" not in (plain.get("mechanism") or {}):
        eps = math.inf  # it promises nothing, so that there is no budget to keep
    # A group may be used in another place, as `views@pretrain`.
    used = {group for group in SHARED_GROUPS if any(key.startswith(f"{group}@") for key in choices)}
    if _takes_the_encoder(config):
        used.add("encoder")
        if choices["model"] != choices["encoder"]:
            raise InputError(
                f"mechanism={choices['mechanism']} trains the network of "
                f"encoder={choices['encoder']}, and model={choices['model']} is another (leave "
                "model out; encoder chooses it)"
            )
    plain["budget"] = choices.get("budget") or PAPER
    taken = {group: str(choices[group]) for group in (*GROUPS, "pretrain", "tuning")}
    return Cell(plain, taken, eps, frozenset(used))


def _resolved(config: DictConfig, key: Any) -> Any:
    value = config[key]
    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)


def _takes_the_encoder(config: DictConfig) -> bool:
    """Returns whether the network of the model is that of `encoder`, as written in a YAML."""
    written = OmegaConf.to_container(config.model, resolve=False)
    return isinstance(written, dict) and written.get("network") == ENCODER
