"""One Sweeper for `-m`, `sweep=` and `experiment=`: expands cells, skips done ones, groups them.

Hydra's own sweeper knows one Cartesian product; a paper's table is a list of blocks, each fixed
overrides plus a grid.
"""

import hashlib
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from labeldp_bench.blocks import Axes, expand, how_to_quote, quote, spell
from labeldp_bench.budget import scaled
from labeldp_bench.cell import Cell
from labeldp_bench.config import LOCAL, compose_cell
from labeldp_bench.identity import PAPER
from labeldp_bench.interrupt import comes_from_ctrl_c
from labeldp_bench.progress import say
from labeldp_bench.validate import InputError

LARGEST_PACK = 32
"""Networks that train as one; a card's memory seldom asks for fewer of this size."""
OF_THE_SWEEP = ("experiment", "sweep", "cells", "table")


class CellSweeper(Sweeper):
    """Runs the cells that a command line and an experiment spell, and reports on them."""

    hydra_context: HydraContext
    config: DictConfig
    launcher: Launcher

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Takes what Hydra gives to every sweeper."""
        self.hydra_context = hydra_context
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Runs every cell that has no record yet, then writes the closing table and picture.

        Raises:
            SystemExit: with code 1, after everything else, if a cell failed.
        """
        # All pull in pandas or torch, which a mere `--help` must not wait for.
        from labeldp_bench.closing import close_sweep
        from labeldp_bench.collect import find_done
        from labeldp_bench.place import place_of
        from labeldp_bench.unchanged import refuse_changed_data

        choices = self.config.hydra.runtime.choices
        experiment = choices.get("experiment")
        if self.config.cells is None and self.config.table is not None:
            return show_arithmetic(str(experiment), arguments)
        if experiment and choices.get("sweep"):
            raise InputError("an experiment names its cells itself: give experiment= or sweep=")
        blocks = self.config.cells if self.config.cells is not None else [{}]
        blocks = OmegaConf.to_container(blocks) if OmegaConf.is_config(blocks) else blocks
        cells: dict[str, tuple[Cell, list[str]]] = {}
        axes = parse_axes(arguments, self.hydra_context.config_loader)
        for overrides in expand(blocks, axes):
            overrides = scaled(overrides, asked=axes)
            cell = compose_cell(overrides)
            cells.setdefault(cell.config_hash, (cell, overrides))
        if not cells:
            raise InputError("the sweep has no cell (cells: is an empty list)")
        every = [cell for cell, _ in cells.values()]
        check_effect(axes, every)
        place = place_of(*(self.config[key] for key in LOCAL))
        with open_dict(self.config):
            self.config.out_dir = str(place.out_dir)  # `~` is a name to Hydra

        def find() -> dict[str, Any]:
            return find_done(every, place.out_dir, committed=experiment is not None)

        done = find()
        refuse_changed_data(every, done, place.out_dir, place.data_dir)
        missing = [pair for key, pair in cells.items() if key not in done]
        jobs = group(missing, place.device.type)
        todo = len(cells) - len(done)
        say(f"{len(cells)} cells: {len(done)} done, {todo} to run in {len(jobs)} jobs")
        name = (experiment or choices.get("sweep") or "sweep").replace("/", "_")
        name = "_".join([name, *sorted({cell.budget for cell in every} - {PAPER})])
        # The plain name is for the whole: a part of it, or another version, is no such table.
        name += f"-{hash_of(cells)}" if name == "sweep" or axes.keys() - {"budget"} else ""
        failed = 0
        try:
            if jobs:  # all in one call, so that a launcher may run several at a time
                spelled = [self._job(job, number, len(jobs)) for number, job in enumerate(jobs, 1)]
                for result in self.launcher.launch(spelled, initial_job_idx=0):
                    failed += result.return_value
        except (KeyboardInterrupt, Exception) as error:
            if not comes_from_ctrl_c(error):
                raise
            left = len(every) - len(find())
            say(f"interrupted: {left} of {len(every)} cells left; the same command goes on")
            raise SystemExit(130) from None
        close_sweep(every, place.out_dir, name, committed=experiment is not None)
        if failed:
            say(f"{failed} of {len(cells)} cells failed; each has an error.txt")
            raise SystemExit(1)

    def _job(self, job: list[tuple[Cell, list[str]]], number: int, jobs: int) -> list[str]:
        """Returns the overrides of one job; the title is left to whoever runs it."""
        lists = ",".join(f"[{','.join(quote(text) for text in pair[1])}]" for pair in job)
        local = [f"{key}={spell(self.config[key])}" for key in LOCAL]
        return [*local, f"job={{number:{number},of:{jobs},cells:[{lists}]}}"]


def register() -> None:
    """Makes the Sweeper known to Hydra under the name in configs/hydra/sweeper/cells.yaml.

    Hydra takes plugins only from the namespace `hydra_plugins`. An alias there, made at start-up,
    saves a second top-level package and works from a bare checkout too; the class itself stays
    here, so that launchers with worker processes can pickle it.
    """
    plugins = Plugins.instance()  # scans the real namespace first, where there is one
    alias = f"hydra_plugins.{__package__}"
    module = types.ModuleType(alias)
    vars(module)[CellSweeper.__name__] = CellSweeper
    sys.modules.setdefault("hydra_plugins", types.ModuleType("hydra_plugins"))
    sys.modules[alias] = module
    plugins.register(CellSweeper)
    plugins.class_name_to_class[f"{alias}.{CellSweeper.__name__}"] = CellSweeper


def show_arithmetic(experiment: str, arguments: list[str]) -> None:
    """Prints the table of an experiment without runs."""
    from labeldp_bench.tables import show_table

    for key in (text.partition("=")[0] for text in arguments):
        if key not in ("experiment", *LOCAL):
            raise InputError(f"{experiment} is arithmetic, no runs: {key} has no effect")
    say(f"{experiment} is arithmetic, no runs\n")
    show_table(experiment)


def parse_axes(arguments: list[str], config_loader: ConfigLoader | None = None) -> Axes:
    """Returns the values of each key on the command line; `a=1,2` has two."""
    axes: Axes = {}
    parser = OverridesParser.create(config_loader=config_loader)
    for override in parser.parse_overrides(arguments):
        key = override.get_key_element()
        if not override.is_sweep_override():
            values = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            values = list(override.sweep_string_iterator())
        else:
            raise InputError(f"{key} needs values to sweep over, got {override.input_line}")
        if key in LOCAL or key in OF_THE_SWEEP:
            if override.is_sweep_override():
                how = f" ({how_to_quote(override.input_line)})" if key.endswith("_dir") else ""
                raise InputError(f"{key} takes one value in a sweep, got {', '.join(values)}{how}")
        elif not values:
            raise InputError(f"{key}: nothing matches {override.input_line}")
        elif override.is_delete():
            raise InputError(f"{override.input_line}: a sweep cannot take a key away")
        else:
            axes[key] = values
    return axes


def check_effect(keys: Iterable[str], cells: Sequence[Cell]) -> None:
    """Refuses what a user asks of a trainer that none of the cells has."""
    for key in keys:
        if key.partition(".")[0] == "trainer" and not any(cell.has("trainer") for cell in cells):
            raise InputError(f"{key} has no effect: this model is not trained (name a network)")


def group(
    cells: list[tuple[Cell, list[str]]], device: str = ""
) -> list[list[tuple[Cell, list[str]]]]:
    """Returns jobs, in the order of their first cells; cells that can share work stand in one.

    Args:
        cells: with their overrides.
        device: its kind, `cpu` or `cuda`: small networks train as one where that is faster.
    """
    jobs: list[list[tuple[Cell, list[str]]]] = []
    latest: dict[str, list[tuple[Cell, list[str]]]] = {}
    for cell, overrides in cells:
        pack = cell.pack_key if device in cell.packs_on else None
        key = cell.shared_work or pack or cell.config_hash
        job = latest.get(key)
        if job is None or (pack is not None and len(job) == LARGEST_PACK):
            job = latest[key] = []
            jobs.append(job)
        job.append((cell, overrides))
    return jobs


def hash_of(cells: Iterable[str]) -> str:
    """Returns eight digits that name a set of cells: no sweep overwrites another's table."""
    return hashlib.sha256(" ".join(sorted(cells)).encode()).hexdigest()[:8]


def title(cells: Sequence[Cell]) -> str:
    """Returns what a person calls the cells of one job."""
    more = f" and {len(cells) - 1} more on the same data" if len(cells) > 1 else ""
    return cells[0].title + more
