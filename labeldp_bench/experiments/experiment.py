"""What an experiment's YAML says: its cells, and how they are shown. Imports no torch."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from labeldp.support.validate import InputError
from labeldp_bench.experiments.assembly import assemble
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import (
    compose_cell,
    experiment_names,
    unknown_experiment,
    use_configs,
)
from labeldp_bench.experiments.grid import Axes, Spelled, spelled_cells
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.experiments.scale import scaled

PROGRAM = "python -m labeldp_bench"


@dataclass(frozen=True)
class Experiment:
    """One file of configs/experiment, with the files that it builds on.

    Attributes:
        name: what `experiment=` takes, e.g. `blockrr/table4`.
        blocks: its cells as `spelled_cells` takes them; None for arithmetic, which has no runs.
        table: the node that makes its table; None for the usual kind.
        figure: how its cells are drawn, as `figures.spec.read_spec` takes it; None for tables.
    """

    name: str
    blocks: list[dict[str, Any]] | None
    table: dict[str, Any] | None
    figure: dict[str, Any] | None = None
    _cells: dict[str, list[Cell]] = field(default_factory=dict, init=False, compare=False)

    @property
    def command(self) -> str:
        """What fills missing cells."""
        return f"{PROGRAM} experiment={self.name}"

    def command_at(self, budget: str) -> str:
        """Returns what fills the cells of a budget's version."""
        return self.command + ("" if budget == PAPER else f" budget={budget}")

    def cells(self, budget: str = PAPER) -> list[Cell]:
        """Returns its cells in the version of a budget, each once."""
        if self.blocks is None:
            return []
        if budget not in self._cells:
            self._cells[budget] = cells_of(self.blocks, {"budget": [budget]})
        return self._cells[budget]


def cells_of(blocks: list[dict[str, Any]], axes: Axes) -> list[Cell]:
    """Returns the cells that blocks and the user's axes spell, scaled by a budget, each once."""
    spelled = [one for one in spelled_cells(blocks, axes) if is_picked(one)]
    cells = [compose_cell(scaled(one.overrides, axes)) for one in spelled]
    return list({cell.config_hash: cell for cell in cells}.values())


def is_picked(spelled: Spelled) -> bool:
    """Returns whether what picks cells of other blocks leaves this one as its own block has it.

    `eps=2` leaves a baseline without privacy as it is; `learner.projection=none` would make another
    cell, which the YAML does not list, of one that projects.
    """
    if not spelled.foreign:
        return True
    own = compose_cell(spelled.own).config_hash
    try:
        return compose_cell(spelled.overrides).config_hash == own
    except (InputError, HydraException, OmegaConfBaseException):  # it cannot take the key at all
        return False


@cache
def read_experiment(name: str) -> Experiment:
    """Returns the experiment called `name`, as Hydra composes it.

    Raises:
        InputError: there is no such experiment.
    """
    use_configs()
    if name not in (known := experiment_names()):
        raise unknown_experiment(name, known)
    config, _ = assemble([f"experiment={name}"])
    shown = (
        OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
        for node in (config.cells, config.table, config.figure)
    )
    return Experiment(name, *shown)  # type: ignore[arg-type]
