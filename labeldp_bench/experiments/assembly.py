"""Puts the files of configs/ together as `hydra.compose` does, in a quarter of its time."""

from functools import cache
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import GroupDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import Container, DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException


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
