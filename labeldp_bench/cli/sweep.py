"""A run or a sweep: the cells that a command line and an experiment spell, without those done.

Hydra's own sweeper knows one Cartesian product; a paper's table is a list of blocks, each fixed
overrides plus a grid.
"""

import hashlib
import itertools
import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from labeldp.support.files import only_one
from labeldp.support.progress import duration, say
from labeldp.support.validate import InputError, check_number
from labeldp_bench.cli.errors import one_line
from labeldp_bench.cli.launch import CELLS_LEFT, Job, launch
from labeldp_bench.cli.run_summary import show_run
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import compose_cell, key_of
from labeldp_bench.experiments.experiment import (
    PROGRAM,
    Experiment,
    cell_asked,
    cells_of,
    scaled,
    with_seeds,
)
from labeldp_bench.experiments.grid import LOCAL, Axes, as_written, cell_specs, parse_axes
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.record import CHECKPOINT, Records, is_done
from labeldp_bench.reports.durations import say_forecast, say_sweep_forecast, too_long
from labeldp_bench.reports.naming import counted
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.hardware import cpu_without_torch
from labeldp_bench.support.process import comes_from_ctrl_c

if TYPE_CHECKING:  # it imports torch
    from labeldp_bench.runs.environment import Environment

NO_RERUN = (
    "it ignores an experiment's stored results (to train again, delete the run's folder, or "
    "name another out_dir; with noise=secret that is a second release, which costs eps again)"
)
"""Hint printed when `rerun=true` has no effect."""
CHOSEN_BY_TUNING = ("epochs", "optimizer.lr", "schedule", "average", "resolution")
"""Keys of the trainer that a recipe of `tuning=held_out_releases` has in its place."""
USED_BY = {
    "encoder": "features or a network of their own (model=probe, or mechanism=pate_fm)",
    "views": "contrastive pre-training (pretrain=simclr)",
}
"""{group: what uses its choice}; a data set brings a default."""


MOST_NAMED = 5
"""Cells whose titles are shown of those that are left."""


def run(config: DictConfig, arguments: Sequence[str], many: bool) -> None:
    """Runs every cell that has no record yet, then shows what came out.

    Args:
        config: of the command as a whole: experiment, folders, minutes; with Hydra's own node.
        arguments: of the command line, those that spell cells.
        many: whether they are for a sweep; else they spell one cell, whose bad input raises.

    Raises:
        SystemExit: after everything else, with code 1 if a cell failed or a worker died, or 75
            if `minutes=` left cells for another time, or another process is at some of them.
    """
    choices = config.hydra.runtime.choices
    experiment = choices.get("experiment")
    if config.cells is None and config.table is not None:
        return show_arithmetic(str(experiment), arguments)
    _check_keys(config, choices, many)
    where = {key: config[key] for key in LOCAL}
    name = experiment or choices.get("sweep")
    if many:
        axes = parse_axes(arguments, GlobalHydra.instance().config_loader())
        cells = _cells(config.cells, axes, name)
    else:
        axes = {key_of(text): [text] for text in arguments}
        cells = [_announced(config, arguments, axes)]
    # They pull in pandas and torch, which a mere `--help` must not wait for.
    from labeldp_bench.records.collect import find_done
    from labeldp_bench.runs.environment import environment_of

    refuse_if_none_can_run(cells)
    check_effect(axes, cells)
    first, published = cells[0], {}
    if experiment:  # before hours of work: what is wrong with its file is said at once
        from labeldp_bench.records.published import published_accuracies

        comparable = [cell for cell in cells if cell.budget != "smoke"]
        published = published_accuracies(Experiment.of(experiment, config), comparable)
    environment = environment_of(**where)
    out_dir = environment.out_dir

    def find() -> Records:
        return find_done(cells, out_dir, committed=experiment is not None and not config.rerun)

    if done := find():
        from labeldp_bench.runs.changed_data import refuse_changed_data

        refuse_changed_data(cells, done, out_dir, environment.data_dir)
    missing = [cell for cell in cells if cell.config_hash not in done]
    started, minutes = time.time(), config.minutes
    ends = None if minutes is None else started + 60 * check_number("minutes", minutes, above=0)
    launcher, waiting = choices["hydra/launcher"], missing
    if many:
        todo = counted([len(grouped(missing))], "job")
        say(f"{_sources(cells, done, out_dir)}, {len(missing)} to run in {todo}")
        if missing and launcher == "basic":  # else nodes with devices of their own
            say_sweep_forecast(missing, environment, partial(_smaller, config.cells, axes))
            if ends is not None:
                waiting = _short_enough(missing, environment, ends - started)
    elif done:
        say("this run is done already (delete its folder to run it again)")
    elif first.has("dataset.name"):
        say(f"  reading {first.dataset_name}")
    jobs = _jobs(waiting, Job([], where, many, started=started, deadline=ends))
    settings: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    try:
        failed, ended = launch(jobs, launcher, settings, out_dir)
    except (KeyboardInterrupt, Exception) as error:
        if not comes_from_ctrl_c(error):
            raise
        left = f"{len(cells) - len(find())} of {len(cells)} cells are left: repeat the command"
        if not many and not (out_dir / first.folder / CHECKPOINT).is_file():
            left = "nothing is kept of its training yet; the same command starts it again"
            left += " from what its pre-training saved" if first.config["pretrain"] else ""
        say(f"interrupted: {left}")
        raise SystemExit(130) from None
    if not many:
        if not find():
            raise SystemExit(1)
        return show_run(out_dir / first.folder)
    name = _name_of(cells, name, axes)
    from labeldp_bench.cli.sweep_summary import close_sweep  # pictures, which one run has none of

    # Where two processes share the cells, the last to end writes the table of all of them.
    with only_one(out_dir / name, lambda: None):
        done = find()
        close_sweep(cells, done, out_dir, name, published)
    say(_sources(cells, done, out_dir))
    missing = [cell for cell in cells if cell.config_hash not in done]
    if status := _status(len(cells), failed, missing, ended, minutes is not None):
        raise SystemExit(status)


def _announced(config: DictConfig, arguments: Sequence[str], keys: Collection[str]) -> Cell:
    """Returns the cell of one run; says what it is and how long it takes.

    Where a CPU computes, it does so before torch is there.
    """
    cell = compose_cell(scaled(arguments, asked=keys))
    say(cell.title)
    if "eps" in keys and not cell.has("mechanism.eps"):
        say(f"  eps has no effect: mechanism={cell.choices['mechanism']} has no eps")
    out_dir = Path(str(config.out_dir)).expanduser()
    device = cpu_without_torch(str(config.device))
    if device is not None:
        say_forecast(cell, out_dir, device, arguments)
    say("  loading PyTorch")  # which takes seconds: the lines above need not wait for it
    if device is None:
        from labeldp_bench.support.device import describe_device, resolve_device

        say_forecast(cell, out_dir, describe_device(resolve_device(str(config.device))), arguments)
    return cell


def _check_keys(config: DictConfig, choices: Mapping[str, str], many: bool) -> None:
    """Refuses keys that are for a sweep, or that have no effect."""
    for key in () if many else ("cells", "minutes"):
        if config[key] is not None:
            raise InputError(f"{key} is for a sweep (add -m)")
    if choices.get("experiment") and choices.get("sweep"):
        raise InputError("an experiment names its cells itself: give experiment= or sweep=")
    if config.rerun and not choices.get("experiment"):
        raise InputError(f"rerun=true has no effect here: {NO_RERUN}")


def _cells(blocks: object, axes: Axes, name: str | None) -> list[Cell]:
    """Returns the cells, each once; says first what the sweep is."""
    specs = cell_specs(_blocks(blocks), with_seeds(axes))
    if not specs and not axes:
        raise InputError("the sweep has no cell (cells: is an empty list)")
    over = as_written({key: values for key, values in axes.items() if len(values) > 1})
    say(f"sweep: {' '.join(filter(None, [name, over])) or 'one setting'}")
    cells: dict[str, Cell] = {}
    for spec in specs:
        try:
            cell = cell_asked(spec, axes)
        except (InputError, HydraException, OmegaConfBaseException) as error:
            if not (name and axes):
                raise
            asked, having = as_written(axes), spec.replaced
            which = f"the cells of {name} that have {having}" if having else f"every cell of {name}"
            raise InputError(
                f"{asked} does not fit {which}: {one_line(error)} (without {name}: "
                f"{PROGRAM} -m {asked} dataset=... eps=...)"
            ) from None
        if cell is not None:
            first = cells.setdefault(cell.config_hash, cell)
            files = [one.setting("dataset.file") for one in (first, cell)]
            if files[0] != files[1]:
                raise InputError(
                    f"{files[0]} and {files[1]} have one name, dataset.name={cell.dataset_name}, "
                    "and would share their results (a sweep for each, with a dataset.name of its "
                    "own)"
                )
    if not cells:
        asked = as_written(axes)
        raise InputError(f"no cell of {name} has {asked} (each picks cells of other blocks)")
    return list(cells.values())


def _blocks(cells: object) -> Any:
    """Returns the blocks of a sweep as `cell_specs` takes them; without any there is one cell."""
    blocks = OmegaConf.to_container(cells) if OmegaConf.is_config(cells) else cells
    return [{}] if blocks is None else blocks


def _smaller(blocks: object, axes: Axes, budget: str) -> list[Cell]:
    """Returns the cells of a sweep in the version of a budget; none if it has another, or none."""
    if "budget" in axes:
        return []
    try:
        return cells_of(_blocks(blocks), axes | {"budget": [budget]})
    except (InputError, HydraException, OmegaConfBaseException):  # such as a key it has not
        return []


def _short_enough(cells: list[Cell], environment: "Environment", seconds: float) -> list[Cell]:
    """Returns the cells that `minutes=` may be enough for; says why the others are not started."""
    longer = too_long(cells, environment, seconds)
    if longer:
        least, limit = duration(min(longer.values())), duration(seconds)
        say(f"not started: {counted([len(longer)], 'cell')}, as each takes {least} or more on this "
            f"device, and minutes= gives {limit}")  # fmt: skip
    return [cell for cell in cells if cell.config_hash not in longer]


def _jobs(cells: Sequence[Cell], alike: Job) -> list[Job]:
    """Returns jobs of cells, each with its place among the others.

    Args:
        cells: those to run.
        alike: has what all jobs have.
    """
    groups = grouped(cells)
    alike = replace(alike, of=len(groups), total=len(cells))
    before = itertools.accumulate(map(len, groups), initial=0)
    return [
        replace(alike, cells=group, number=number, before=done)
        for number, (group, done) in enumerate(zip(groups, before, strict=False), 1)
    ]


def grouped(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Returns groups in the order of their first cells; cells that can share work are one group."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.shared_work or cell.config_hash, []).append(cell)
    return list(groups.values())


def _sources(cells: Sequence[Cell], done: Container[str], out_dir: Path) -> str:
    """Returns how many cells are done, and where their records are."""
    # Of those in `done` alone: meanwhile another process may have written more.
    known = [cell for cell in cells if cell.config_hash in done]
    here = sum(is_done(out_dir / cell.folder) for cell in known)
    stored = len(known) - here
    from_table = (
        f"{stored} stored in results/records.csv (rerun=true trains anew), " if stored else ""
    )
    return f"{counted([len(cells)], 'cell')}: {from_table}{here} done in {out_dir}"


def _name_of(cells: Sequence[Cell], named: str | None, axes: Axes) -> str:
    """Returns the name of a sweep's files: no sweep overwrites another's table.

    Only a whole experiment has its plain name; parts and versions have eight digits of their own.

    Args:
        cells: all of them.
        named: the experiment, or the choice of `sweep=`; None without either.
        axes: what the command line says.
    """
    budgets = {cell.budget for cell in cells} - {PAPER}
    name = "_".join([(named or "sweep").replace("/", "_"), *sorted(budgets)])
    if named and not axes.keys() - {"budget"}:
        return name
    hashes = " ".join(sorted(cell.config_hash for cell in cells))
    return f"{name}-{hashlib.sha256(hashes.encode()).hexdigest()[:8]}"


def _status(total: int, failed: int, missing: Sequence[Cell], ended: bool, is_timed: bool) -> int:
    """Says how many cells failed and which are missing; returns the command's exit status.

    Args:
        total: number of cells.
        failed: of these.
        missing: those without a record, the failed ones among them.
        ended: whether all jobs came to an end.
        is_timed: whether the sweep had a time limit.
    """
    if failed:
        say(f"{failed} of {total} cells failed; each has an error.txt")
    if len(missing) <= failed:
        return 1 if failed or not ended else 0
    how = "left" if is_timed or not ended else "left to another process, which is still at work"
    titles = "; ".join(cell.title for cell in missing[:MOST_NAMED])
    if len(missing) > MOST_NAMED:
        titles += f"; and {len(missing) - MOST_NAMED:,} more"
    say(f"{len(missing)} of {total} cells are {how}: repeat the command ({titles})")
    return CELLS_LEFT if ended else 1


def show_arithmetic(experiment: str, arguments: Sequence[str]) -> None:
    """Prints the table of an experiment without runs."""
    if arguments:
        key = arguments[0].partition("=")[0]
        raise InputError(
            f"{experiment} is computed from formulas, without runs: {key} has no effect"
        )
    say(f"{experiment} is computed from formulas, without runs\n")
    table = CHECKOUT / "results" / "tables" / f"{experiment.replace('/', '_')}.md"
    if not table.is_file():
        raise InputError("its table is in a checkout of labeldp_bench, which this is not")
    say(table.read_text())


def check_effect(keys: Iterable[str], cells: Sequence[Cell]) -> None:
    """Refuses keys that no cell uses.

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
