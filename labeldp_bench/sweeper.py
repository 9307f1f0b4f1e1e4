"""One Sweeper for `-m`, `sweep=` and `experiment=`: expands cells, skips done ones, groups them.

Hydra's own sweeper knows one Cartesian product; a paper's table is a list of blocks, each fixed
overrides plus a grid.
"""

import itertools
import re
import sys
import types
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from labeldp_bench.config import Cell, compose_cell
from labeldp_bench.progress import say
from labeldp_bench.validate import InputError

Axes = dict[str, list[str]]
PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


class CellSweeper(Sweeper):
    """Runs the cells that a command line and an experiment spell, and reports on them."""

    hydra_context: HydraContext
    config: DictConfig
    launcher: Launcher

    def __init__(self) -> None:
        self.failed = 0

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
        # Both pull in pandas or torch, which a mere `--help` must not wait for.
        from labeldp_bench.collect import find_done
        from labeldp_bench.report import close_sweep

        choices = self.config.hydra.runtime.choices
        experiment = choices.get("experiment")
        blocks = OmegaConf.to_container(self.config.cells) if self.config.cells else [{}]
        spelled = expand(blocks, parse_axes(arguments, self.hydra_context))
        cells: dict[str, tuple[Cell, list[str]]] = {}
        for overrides in spelled:
            cell = compose_cell(overrides)
            cells.setdefault(cell.config_hash, (cell, overrides))
        out_dir = Path(self.config.out_dir)
        every = [cell for cell, _ in cells.values()]
        done = find_done(every, out_dir, committed=experiment is not None)
        todo = {key: pair for key, pair in cells.items() if key not in done}
        jobs = group(list(todo.values()))
        say(f"{len(cells)} cells: {len(done)} done, {len(todo)} to run in {len(jobs)} jobs")
        name = (experiment or choices.get("sweep") or "sweep").replace("/", "_")
        try:
            for number, job in enumerate(jobs, 1):
                say(f"[{number}/{len(jobs)}] " + _title(job))
                overrides = self._job_overrides(job)
                for result in self.launcher.launch([overrides], initial_job_idx=number - 1):
                    self.failed += result.return_value
        except KeyboardInterrupt:
            left = len(every) - len(find_done(every, out_dir, committed=experiment is not None))
            say(f"interrupted: {left} of {len(every)} cells left; the same command goes on")
            raise SystemExit(130) from None
        close_sweep(every, out_dir, name, committed=experiment is not None)
        if self.failed:
            say(f"{self.failed} of {len(cells)} cells failed; each has an error.txt")
            raise SystemExit(1)

    def _job_overrides(self, job: list[tuple[Cell, list[str]]]) -> list[str]:
        spelled = ",".join(f"[{','.join(_quote(text) for text in pair[1])}]" for pair in job)
        local = [
            text for text in job[0][1] if text.split("=")[0] in ("out_dir", "data_dir", "device")
        ]
        return [*local, f"job=[{spelled}]"]


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


def parse_axes(arguments: list[str], context: HydraContext) -> Axes:
    """Returns the values of each key on the command line; `a=1,2` has two."""
    axes: Axes = {}
    parser = OverridesParser.create(config_loader=context.config_loader)
    for override in parser.parse_overrides(arguments):
        key = override.get_key_element()
        if key in ("experiment", "sweep"):
            continue
        if override.is_sweep_override():
            axes[key] = list(override.sweep_string_iterator())
        else:
            axes[key] = [override.get_value_element_as_str()]
    return axes


def expand(blocks: Any, axes: Axes) -> list[list[str]]:
    """Returns the overrides of every cell.

    Args:
        blocks: a list of {"set": {key: value}, "grid": {key: [values]}}, both optional.
        axes: what the command line says; it wins over a block's key, or adds one.

    >>> expand([{"set": {"eps": 1}, "grid": {"seed": [0, 1]}}], {"mechanism": ["rr"]})
    [['eps=1', 'seed=0', 'mechanism=rr'], ['eps=1', 'seed=1', 'mechanism=rr']]
    """
    cells = []
    if not isinstance(blocks, list):
        raise InputError(f"cells must be a list of blocks, got {type(blocks).__name__}")
    for block in blocks:
        unknown = set(block) - {"set", "grid"}
        if unknown:
            raise InputError(f"a block of cells has set and grid, got {', '.join(sorted(unknown))}")
        own = {key: [_value(value)] for key, value in (block.get("set") or {}).items()}
        own |= {
            key: [_value(value) for value in values]
            for key, values in (block.get("grid") or {}).items()
        }
        own |= axes
        for values in itertools.product(*own.values()):
            cells.append([f"{key}={value}" for key, value in zip(own, values, strict=True)])
    return cells


def group(cells: list[tuple[Cell, list[str]]]) -> list[list[tuple[Cell, list[str]]]]:
    """Returns jobs: cells that can share work stand in one, in the order they were given."""
    jobs: dict[str, list[tuple[Cell, list[str]]]] = {}
    for cell, overrides in cells:
        jobs.setdefault(cell.shared_work or cell.config_hash, []).append((cell, overrides))
    return list(jobs.values())


def _title(job: list[tuple[Cell, list[str]]]) -> str:
    first = job[0][0].title
    return first if len(job) == 1 else f"{first} and {len(job) - 1} more on the same data"


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_value(item) for item in value)}]"
    text = str(value)
    return text if PLAIN.fullmatch(text) else _quote(text)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
