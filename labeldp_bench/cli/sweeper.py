"""One Sweeper for `-m`, `sweep=` and `experiment=`: expands cells, skips done ones, groups them.

Hydra's own sweeper knows one Cartesian product; a paper's table is a list of blocks, each fixed
overrides plus a grid.
"""

import sys
import time
import types
from collections.abc import Iterable, Sequence

from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from labeldp.support.files import only_one
from labeldp.support.progress import say
from labeldp.support.validate import InputError, check_number
from labeldp_bench.cli.errors import one_line
from labeldp_bench.cli.launched import launch
from labeldp_bench.cli.ray_launcher import RayLauncher
from labeldp_bench.cli.sweep_words import does_not_fit, name_of, sources
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import is_picked, scaled
from labeldp_bench.experiments.grid import (
    LOCAL,
    Axes,
    as_written,
    parse_axes,
    quote,
    spell,
    spelled_cells,
)
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import counted
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.process import comes_from_ctrl_c

CELLS_LEFT = 75
"""Exit code for "try again later" (EX_TEMPFAIL)."""


NO_RERUN = (
    "it ignores an experiment's stored results (to train again, delete the run's folder, or "
    "name another out_dir; with noise=secret that is a second release, which costs eps again)"
)
"""What `rerun=true` is for, where it was asked for in vain."""


CHOSEN_BY_TUNING = ("epochs", "optimizer.lr", "schedule", "average", "resolution")
"""Keys of the trainer that a recipe of `tuning=held_out_releases` has in its place."""
USED_BY = {
    "encoder": "features or a network of their own (model=probe, or mechanism=pate_fm)",
    "views": "contrastive pre-training (pretrain=simclr)",
}
"""{group: who takes its choice}; a data set brings one for whoever does."""


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
            SystemExit: after everything else, with code 1 if a cell failed or a worker died, or 75
                if `minutes=` left cells for another time, or another process is at some of them.
        """
        choices = self.config.hydra.runtime.choices
        experiment = choices.get("experiment")
        if self.config.cells is None and self.config.table is not None:
            return show_arithmetic(str(experiment), arguments)
        for key in ("release_only", "releases"):
            if self.config[key] is not None:
                raise InputError(f"{key} is for one run, not for a sweep (leave -m out)")
        if experiment and choices.get("sweep"):
            raise InputError("an experiment names its cells itself: give experiment= or sweep=")
        axes = parse_axes(arguments, self.hydra_context.config_loader)
        named = experiment or choices.get("sweep")
        cells = self._cells(axes, named)
        every = [cell for cell, _ in cells.values()]
        check_effect(axes, every)
        if self.config.rerun and not experiment:
            raise InputError(f"rerun=true has no effect here: {NO_RERUN}")
        # They pull in pandas and torch, which a mere `--help` must not wait for.
        from labeldp_bench.cli.sweep_summary import close_sweep
        from labeldp_bench.records.collect import find_done
        from labeldp_bench.runs.changed_data import refuse_changed_data
        from labeldp_bench.runs.environment import environment_of

        environment = environment_of(**{key: self.config[key] for key in LOCAL})
        out_dir = environment.out_dir
        with open_dict(self.config):
            self.config.out_dir = str(out_dir)  # `~` is a name to Hydra

        stored = experiment is not None and not self.config.rerun

        def find() -> Records:
            return find_done(every, out_dir, committed=stored)

        done = find()
        refuse_changed_data(every, done, out_dir, environment.data_dir)
        refuse_if_none_can_run([cell for key, (cell, _) in cells.items() if key not in done])
        jobs = group([pair for key, pair in cells.items() if key not in done])
        todo = len(cells) - len(done)
        say(f"{sources(every, done, out_dir)}, {todo} to run in {counted([len(jobs)], 'job')}")
        try:
            failed, ended = self._launch(jobs)
        except (KeyboardInterrupt, Exception) as error:
            if not comes_from_ctrl_c(error):
                raise
            unfinished = len(every) - len(find())
            say(f"interrupted: {unfinished} of {len(every)} cells left; the same command goes on")
            raise SystemExit(130) from None
        name = name_of(cells, {cell.budget for cell in every}, named, axes)
        # Where two processes share the cells, the last to end writes the table of all of them.
        with only_one(out_dir / name, lambda: None):
            done = find()
            close_sweep(every, done, out_dir, name)
        say(sources(every, done, out_dir))
        missing = [cell.title for cell in every if cell.config_hash not in done]
        if status := self._status(len(cells), failed, missing, ended):
            raise SystemExit(status)

    def _status(self, total: int, failed: int, missing: list[str], ended: bool) -> int:
        """Says how many cells failed and which are missing; returns the command's exit status.

        Args:
            total: number of cells.
            failed: of these.
            missing: titles of those without a record, the failed ones among them.
            ended: whether all jobs came to an end.
        """
        if failed:
            say(f"{failed} of {total} cells failed; each has an error.txt")
        if len(missing) <= failed:
            return 1 if failed or not ended else 0
        elsewhere = "left to another process, which is still at work"
        how = "left" if self.config.minutes is not None or not ended else elsewhere
        titles = "; ".join(missing)
        say(f"{len(missing)} of {total} cells {how} (the same command goes on): {titles}")
        return CELLS_LEFT if ended else 1

    def _cells(self, axes: Axes, name: str | None) -> dict[str, tuple[Cell, list[str]]]:
        """Returns {config_hash: cell, its overrides}; says first how many there are."""
        blocks = self.config.cells if self.config.cells is not None else [{}]
        blocks = OmegaConf.to_container(blocks) if OmegaConf.is_config(blocks) else blocks
        spelled = spelled_cells(blocks, axes)
        if not spelled and not axes:
            raise InputError("the sweep has no cell (cells: is an empty list)")
        over = as_written({key: values for key, values in axes.items() if len(values) > 1})
        say(f"sweep: {' '.join(filter(None, [name, over])) or 'one setting'}")
        cells: dict[str, tuple[Cell, list[str]]] = {}
        refused: dict[str, str] = {}
        for one in spelled:
            try:
                if one.replaced in refused or not is_picked(one):
                    continue
                overrides = scaled(one.overrides, asked=axes)
                cell = compose_cell(overrides)
            except (InputError, HydraException, OmegaConfBaseException) as error:
                if not (name and axes):
                    raise
                refused[one.replaced] = one_line(error)
            else:
                cells.setdefault(cell.config_hash, (cell, overrides))
        if refused:
            raise does_not_fit(str(name), axes, refused, spelled if cells else [])
        if not cells:
            asked = as_written(axes)
            raise InputError(f"no cell of {name} has {asked} (each picks cells of other blocks)")
        return cells

    def _launch(self, jobs: list[list[tuple[Cell, list[str]]]]) -> tuple[int, bool]:
        """Runs all jobs in one call, so that a launcher may run several at a time.

        Returns how many cells failed, and whether all jobs came to an end.
        """
        minutes, deadline = self.config.minutes, "null"
        if minutes is not None:
            deadline = repr(time.time() + 60 * check_number("minutes", minutes, above=0))
        local = [f"{key}={spell(self.config[key])}" for key in LOCAL]
        spelled = []
        before, total, started = 0, sum(map(len, jobs)), repr(time.time())
        for number, job in enumerate(jobs, 1):
            cells = ",".join(f"[{','.join(quote(text) for text in pair[1])}]" for pair in job)
            about = f"number:{number},of:{len(jobs)},deadline:{deadline}"
            about += f",before:{before},total:{total},started:{started}"
            before += len(job)
            spelled.append([*local, f"job={{{about},cells:[{cells}]}}"])
        if not spelled:
            return 0, True
        return launch(self.launcher, spelled)


def register() -> None:
    """Makes Sweeper and launcher known to Hydra under the names in configs/hydra.

    Hydra takes plugins only from the namespace `hydra_plugins`. An alias there, made at start-up,
    saves a second top-level package and works from a bare checkout too; the class itself stays
    here, so that launchers with worker processes can pickle it.
    """
    plugins = Plugins.instance()  # scans the real namespace first, where there is one
    alias = "hydra_plugins.labeldp_bench"
    module = types.ModuleType(alias)
    sys.modules.setdefault("hydra_plugins", types.ModuleType("hydra_plugins"))
    sys.modules[alias] = module
    for plugin in (CellSweeper, RayLauncher):
        vars(module)[plugin.__name__] = plugin
        plugins.register(plugin)
        plugins.class_name_to_class[f"{alias}.{plugin.__name__}"] = plugin


def show_arithmetic(experiment: str, arguments: list[str]) -> None:
    """Prints the table of an experiment without runs."""
    for key in (text.partition("=")[0] for text in arguments):
        if key not in ("experiment", *LOCAL):
            raise InputError(
                f"{experiment} is computed from formulas, without runs: {key} has no effect"
            )
    say(f"{experiment} is computed from formulas, without runs\n")
    table = CHECKOUT / "results" / "tables" / f"{experiment.replace('/', '_')}.md"
    if not table.is_file():
        raise InputError("its table is in a checkout of labeldp_bench, which this is not")
    say(table.read_text())


def check_effect(keys: Iterable[str], cells: Sequence[Cell]) -> None:
    """Refuses what a user asks for and no cell would heed.

    That is a trainer or one of its keys where none is, or where tuning chooses in its place; and
    `encoder=` or `views=` where nothing has one.
    """
    for key in keys:
        group, *inside = key.lstrip("+").split(".")
        if group == "trainer":
            trained = [cell for cell in cells if cell.has("trainer")]
            if not trained:
                raise InputError(f"{key} has no effect: this model is not trained (name a network)")
            is_chosen = ".".join(inside).startswith(CHOSEN_BY_TUNING)
            if is_chosen and all(cell.config["tuning"] for cell in trained):
                raise InputError(
                    f"{key} has no effect: tuning={trained[0].choices['tuning']} chooses rate, "
                    "average and epochs, at a constant rate on images of full size (use "
                    "tuning.learning_rates=[...], tuning.averages=[...] or tuning.epochs=)"
                )
        elif group in USED_BY and not any(group in cell.used for cell in cells):
            raise InputError(f"{key} has no effect: it is for {USED_BY[group]}")


def refuse_if_none_can_run(cells: Sequence[Cell]) -> None:
    """Refuses a sweep whose every cell has a wrong value, before anything is written.

    One cell that can be built is enough: then each of the others fails alone.
    """
    refused: list[InputError] = []
    for cell in cells:
        try:
            cell.build()
        except InputError as error:
            refused.append(error)
        else:
            return
    if refused:
        raise refused[0]


def group(cells: list[tuple[Cell, list[str]]]) -> list[list[tuple[Cell, list[str]]]]:
    """Returns jobs, in the order of their first cells; cells that can share work are one job.

    Args:
        cells: with their overrides.
    """
    jobs: dict[str, list[tuple[Cell, list[str]]]] = {}
    for cell, overrides in cells:
        key = cell.shared_work or cell.config_hash
        jobs.setdefault(key, []).append((cell, overrides))
    return list(jobs.values())
