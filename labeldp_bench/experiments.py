"""What an experiment's YAML says: its cells, and how they are shown. Imports no torch."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import hydra
from omegaconf import OmegaConf

from labeldp_bench.config import Cell, compose_cell, use_configs
from labeldp_bench.sweeper import expand


@dataclass(frozen=True)
class Experiment:
    """One file of configs/experiment, with the files that it builds on.

    Attributes:
        name: what `experiment=` takes, e.g. `blockrr/table4`.
        blocks: its cells as `expand` takes them; None for arithmetic, which has no runs.
        table: the node that makes its table; None for the usual kind.
        figure: how its cells are drawn, as `figure_spec.read_spec` takes it; None for tables.
    """

    name: str
    blocks: list[dict[str, Any]] | None
    table: dict[str, Any] | None
    figure: dict[str, Any] | None = None

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return f"python -m labeldp_bench experiment={self.name}"

    def cells(self) -> list[Cell]:
        """Returns its cells, each once."""
        if self.blocks is None:
            return []
        cells = [compose_cell(overrides) for overrides in expand(self.blocks, {})]
        return list({cell.config_hash: cell for cell in cells}.values())


@cache
def read_experiment(name: str) -> Experiment:
    """Returns the experiment called `name`, as Hydra composes it."""
    use_configs()
    config = hydra.compose("config", overrides=[f"experiment={name}"])
    shown = (
        OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
        for node in (config.cells, config.table, config.figure)
    )
    return Experiment(name, *shown)  # type: ignore[arg-type]
