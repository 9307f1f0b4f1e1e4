"""From overrides to a cell, by Hydra with its loader kept between cells. Imports no torch."""

import pickle
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import GroupDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import MISSING, Container, DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

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
from labeldp_bench.support.checkout import CONFIGS


class _Files(ConfigRepository):
    """The files of a search path, each read once, without what they say to Hydra itself."""

    def __init__(self, path: ConfigSearchPath) -> None:
        super().__init__(path)
        self._read: dict[str, ConfigResult] = {}
        self._placed: dict[tuple[str, str | None], Container] = {}

    def __deepcopy__(self, memo: dict) -> "_Files":
        return self  # CachingConfigRepository copies what it is given, to search other folders

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self._read:
            found = super().load_config(config_path)
            if found is None:
                return None
            entries = found.defaults_list or []
            found.defaults_list = [entry for entry in entries if not _is_of_hydra(entry)]
            self._read[config_path] = _without_hydra(found)
        return self._read[config_path]

    def placed(self, config_path: str, package: str | None) -> Container:
        """Returns a file's content under the key where it belongs; nobody may change it."""
        place = config_path, package
        if place not in self._placed:
            found = self.load_config(config_path)
            assert found is not None
            self._placed[place] = ConfigLoaderImpl._embed_result_config(found, package).config
        return self._placed[place]


def _is_of_hydra(entry: object) -> bool:
    return isinstance(entry, GroupDefault) and str(entry.group).startswith("hydra/")


def _without_hydra(found: ConfigResult) -> ConfigResult:
    if isinstance(found.config, DictConfig) and "hydra" in found.config:
        with open_dict(found.config):
            del found.config["hydra"]
    return found


@cache
def _files(loader: ConfigLoaderImpl) -> _Files:
    return _Files(loader.get_search_path())


def assemble(overrides: list[str]) -> tuple[DictConfig, dict[str, Any]]:
    """Returns what `hydra.compose` does without the node of Hydra itself, and all choices.

    `hydra.compose` reads each file again, and half of them are about Hydra itself: of a table's
    thousand cells it takes minutes. This takes its steps, `ConfigLoaderImpl.load_configuration`,
    with files that are read once; what they refuse is left to `hydra.compose`, which says why.
    """
    try:
        return _assemble(overrides)
    except (HydraException, OmegaConfBaseException):
        config = hydra.compose("config", overrides, return_hydra_config=True)
        choices = dict(config.hydra.runtime.choices)
        with open_dict(config):
            del config["hydra"]
        return config, choices


def _assemble(overrides: list[str]) -> tuple[DictConfig, dict[str, Any]]:
    files = _files(GlobalHydra.instance().config_loader())
    parsed = OverridesParser.create().parse_overrides(overrides)
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    found = create_defaults_list(
        CachingConfigRepository(files), "config", parsed, prepend_hydra=False, skip_missing=False
    )
    config = OmegaConf.create()
    for entry in found.defaults:
        assert entry.config_path is not None
        config.merge_with(files.placed(entry.config_path, entry.package))
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(found.config_overrides, config)
    return config, dict(found.overrides.known_choices)


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
"""Overrides that choose a file under configs/; all others set a value."""

LARGEST_SEED = 2**63 - 1
ENCODER = "${encoder}"
SHARED = ("encoder", "views")
"""Groups whose option others take into a place of their own."""


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
        release_only: a file; releases are written there, and the run ends before it learns.
        releases: such a file; the run learns from it and never reads training labels.
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
    release_only: str | None = None
    releases: str | None = None
    capture: bool = True
    minutes: float | None = None
    rerun: bool = False
    budget: Any = None  # the rules of configs/budget; its name is what counts
    # What an experiment or sweep YAML fills: a list of blocks {set: {...}, grid: {...}}.
    cells: Any = None
    # How a paper's table or figure shows them; no part of a cell.
    table: Any = None
    figure: Any = None
    # What the Sweeper fills: the override lists of the cells that one job runs.
    job: Any = None


ConfigStore.instance().store(name="run_config", node=RunConfig)
# A table is called as its file is, unless it is named.
OmegaConf.register_new_resolver("file_stem", lambda file: Path(str(file)).name.partition(".")[0])


def use_configs() -> None:
    """Lets Hydra find configs/."""
    if not GlobalHydra.instance().is_initialized():
        hydra.initialize_config_dir(str(CONFIGS), version_base="1.3")


def experiment_names() -> list[str]:
    """Returns what `experiment=` takes: `quickstart`, `<paper>/<table>`, ..."""
    return options_of("experiment")


def unknown_experiment(name: str, known: Collection[str]) -> InputError:
    """Returns what is said of a name that no experiment has; `known` are too many to list."""
    return InputError(
        f"there is no experiment {name!r}{did_you_mean(name, known)}; "
        "`python -m labeldp_bench --help experiment` shows all"
    )


def mechanism_names() -> list[str]:
    """Returns what `mechanism=` takes."""
    return options_of("mechanism")


def options_of(group: str) -> list[str]:
    """Returns what a group of configs/ takes, such as `sweep`."""
    root = CONFIGS / group
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
    return replace(cell, config=cell.config | {"seed": seed})


@cache
def _compose(overrides: tuple[str, ...]) -> Cell:
    # Most cells of a table make the same choices, and only values tell them apart: a tenth of the
    # time goes into those.
    chosen = tuple(text for text in overrides if CHOICE.match(text))
    pickled, choices = _compose_choices(chosen)
    values = [_parsed(text) for text in overrides if text not in chosen]
    config = pickle.loads(pickled)
    ConfigLoaderImpl._apply_overrides_to_config(values, config)  # as on the command line
    return cell_of(config, choices)


@cache
def _parsed(override: str) -> Override:
    return OverridesParser.create().parse_override(override)


@cache
def _compose_choices(chosen: tuple[str, ...]) -> tuple[bytes, dict[str, str]]:
    """Returns the config, pickled, since a deep copy takes five times as long, and its choices."""
    use_configs()
    config, choices = assemble(list(chosen))
    return pickle.dumps(config), choices


def cell_of(config: DictConfig, choices: dict[str, str]) -> Cell:
    """Returns the cell of a composed config.

    Args:
        config: with or without Hydra's own node.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
    """
    if not OmegaConf.is_missing(config, "mechanism") and "mechanism" in (config.mechanism or ()):
        raise InputError(
            f"the YAML of mechanism={choices['mechanism']} must begin with # @package _global_, as "
            "it has keys of the whole recipe"
        )
    shown = ("cells", "table", "figure", "job")
    local = ("hydra", *shown, *LOCAL, "minutes", "rerun", "trainer", "views", "encoder", "eps")
    plain = {str(key): _resolved(config, key) for key in config if key not in local}
    check_eps(config.get("eps", 1.0))
    known = RunConfig.__dataclass_fields__
    for key in plain:  # `+key=value` gets past Hydra, and would be ignored
        if key not in known:
            advice = did_you_mean(key, known) or f" (keys: {', '.join(known)})"
            raise InputError(f"unknown key {key}{advice}")
    check_integer("seed", plain["seed"], low=0, high=LARGEST_SEED)
    if check_choice("noise", plain["noise"], NOISES) == SEEDED:
        del plain["noise"]  # the only kind before there was a choice
    if choices.get("stages") and choices["learner"] != "multi_stage":
        raise InputError(
            f"stages={choices['stages']} is for learner=multi_stage (mechanism=lp_2st or lp_mst), "
            f"and here mechanism={choices['mechanism']} has learner={choices['learner']}"
        )
    # Who has a group's option in its own place, as `views@pretrain`, takes it.
    used = {group for group in SHARED if any(key.startswith(f"{group}@") for key in choices)}
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
    return Cell(plain, taken, frozenset(used))


def _resolved(config: DictConfig, key: Any) -> Any:
    value = config[key]
    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)


def _takes_the_encoder(config: DictConfig) -> bool:
    """Returns whether the network of the model is that of `encoder`, as written in a YAML."""
    written = OmegaConf.to_container(config.model, resolve=False)
    return isinstance(written, dict) and written.get("network") == ENCODER
