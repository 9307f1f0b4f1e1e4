"""An experiment's cells, and smaller versions of them by its budget. Imports no torch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, Self

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import (
    CHOICE,
    choices_of,
    compose,
    compose_cell,
    composed_before,
    experiment_names,
    key_of,
    unknown_experiment,
)
from labeldp_bench.experiments.grid import Axes, CellSpec, cell_specs, spell
from labeldp_bench.experiments.identity import GROUPS, PAPER


def scaled(overrides: Sequence[str], asked: Collection[str] = ()) -> list[str]:
    """Returns the overrides of a cell with what its budget changes.

    A budget wins over the cell's own settings and gives way to the user's. A group that it chooses,
    such as a trainer, comes whole: without what the cell sets in its own.

    Args:
        overrides: of one cell; `budget=` among them names the budget.
        asked: the keys that the user gave on the command line.

    Raises:
        NoVersionError: the budget has no version of this cell.

    >>> scaled(["dataset=mnist", "trainer.epochs=5", "budget=quick"])[1:]
    ['trainer.selection=last', 'trainer.epochs=2', 'budget=quick']
    >>> scaled(["dataset=mnist", "trainer.epochs=5", "budget=quick"], asked=["trainer.epochs"])[1]
    'trainer.epochs=5'
    """
    own = {key_of(text): text for text in overrides}
    name = own.pop("budget", f"budget={PAPER}").partition("=")[2]
    if name in (PAPER, "null"):
        return list(own.values())
    budget, cell = _read_budget(name), compose_cell(list(own.values()))
    for group, names in budget.only.items():
        if (choice := cell.choices[group]) not in names:
            raise NoVersionError(
                f"budget={name} is for {group}= {' '.join(names)}; got {choice} (use budget=paper)"
            )
    for rule in budget.rules:
        if any(cell.choices[group] not in names for group, names in rule["when"].items()):
            continue
        known = {
            key: value
            for key, value in rule["set"].items()
            if CHOICE.match(key) or cell.has(package_of(key))
        }
        lower = {key: most for key, most in rule["at_most"].items() if _is_above(cell, key, most)}
        new = {key: value for key, value in (known | lower).items() if key not in asked}
        for group in filter(CHOICE.match, new):  # comes whole: what was set in the old one goes
            inside = f"{package_of(group)}."
            own = {
                key: text for key, text in own.items() if not key.startswith(inside) or key in asked
            }
        kept = {key: text for key, text in own.items() if key not in new}
        own = kept | {key: f"{key}={spell(value)}" for key, value in new.items()}
        if new:
            cell = compose_cell(list(own.values()))
    return [*own.values(), f"budget={name}"]


def _is_above(cell: Cell, key: str, most: float) -> bool:
    """Returns whether a cell has more of something than `most`; null is no limit.

    What is no number is not: it stays, and `build` refuses it in one line.
    """
    if not cell.has(key):
        return False
    value = cell.setting(key)
    return value is None or (isinstance(value, int | float) and value > most)


class NoVersionError(InputError):
    """A budget has no version of a cell."""


class _Budget(NamedTuple):
    """One file of configs/budget.

    Attributes:
        rules: each with `when`, {group: its choices}, `set` and `at_most`.
        only: {group: its choices} of the cells that have a version.
        seeds: number of seeds of every cell; 0: those of the experiment.
    """

    rules: list[dict[str, Any]]
    only: dict[str, list[str]]
    seeds: int


@cache
def _read_budget(name: str) -> _Budget:
    path = choices_of("budget").get(name)  # Hydra would compose all groups, a quarter of a second
    config = OmegaConf.load(path) if path else compose([f"budget={name}"])[0].budget
    budget = OmegaConf.to_container(config)
    assert isinstance(budget, dict)
    for rule in budget["rules"]:
        if not isinstance(rule, dict) or set(rule) - {"when", "set", "at_most"}:
            raise InputError(f"a rule of a budget has the keys when, set, at_most; got {rule!r}")
    empty: dict[str, Any] = {"when": {}, "set": {}, "at_most": {}}
    found = _Budget(
        [empty | dict(rule) for rule in budget["rules"]],
        budget.get("only", {}),
        budget.get("seeds", 0),
    )
    groups = (*GROUPS, "pretrain", "tuning")
    for key in chain(found.only, *(rule["when"] for rule in found.rules)):
        if key not in groups:
            raise InputError(f"budget={name}: when and only take {', '.join(groups)}; got {key}")
    return found


def with_seeds(axes: Axes) -> Axes:
    """Returns the user's axes with the seeds of the budget, unless the user names seeds.

    >>> with_seeds({"budget": ["features"]})["seed"]
    ['0', '1', '2', '3', '4']
    """
    budgets = axes.get("budget", [PAPER])
    known = [_read_budget(name).seeds for name in budgets if name not in (PAPER, "null")]
    if "seed" in axes or not any(known):
        return axes
    if len(budgets) > 1:
        raise InputError(f"budget={','.join(budgets)} have different seeds (give one at a time)")
    return axes | {"seed": [str(seed) for seed in range(known[0])]}


def package_of(key: str) -> str:
    """Returns where a key stands in a config: `trainer@pretrain.trainer` is `pretrain.trainer`."""
    return key.rpartition("@")[2]


PROGRAM = "python -m labeldp_bench"


@dataclass(frozen=True)
class Experiment:
    """One file of configs/experiment, with the files that it builds on.

    Attributes:
        name: what `experiment=` takes, e.g. `blockrr/table4`.
        blocks: its cells as `cell_specs` takes them; None for arithmetic, which has no runs.
        table: the node that makes its table; None for the usual kind.
    """

    name: str
    blocks: list[dict[str, Any]] | None
    table: dict[str, Any] | None
    _cells: dict[str, list[Cell]] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(cls, name: str, config: DictConfig) -> Self:
        """Returns the experiment that was composed by `experiment=name`."""
        shown = (
            OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
            for node in (config.cells, config.table)
        )
        return cls(name, *shown)  # type: ignore[arg-type]

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
    asked = (cell_asked(spec, axes) for spec in cell_specs(blocks, with_seeds(axes)))
    return list({cell.config_hash: cell for cell in asked if cell is not None}.values())


def cell_asked(spec: CellSpec, axes: Axes) -> Cell | None:
    """Returns a cell, scaled by a budget.

    None if what the user says picks other cells, or the budget has no version of this one.
    """
    if spec.foreign and not _is_picked(spec):
        return None
    try:
        return compose_cell(scaled(spec.overrides, axes))
    except NoVersionError:
        return None


def _is_picked(spec: CellSpec) -> bool:
    """Returns whether what picks cells of other blocks leaves this one as its own block has it.

    `eps=2` leaves a baseline without privacy as it is; `learner.projection=none` would make another
    cell, which the YAML does not list, of one that projects.
    """
    own = compose_cell(spec.own).config_hash
    try:
        return compose_cell(spec.overrides).config_hash == own
    except (InputError, HydraException, OmegaConfBaseException):  # it cannot take the key at all
        return False


@cache
def read_experiment(name: str) -> Experiment:
    """Returns the experiment called `name`, as Hydra composes it.

    Raises:
        InputError: there is no such experiment.
    """
    if name not in (known := experiment_names()):
        raise unknown_experiment(name, known)

    def made() -> list[Any]:
        found = Experiment.of(name, compose([f"experiment={name}"])[0])
        return [found.blocks, found.table]

    return Experiment(name, *composed_before(["experiment", name], made))
