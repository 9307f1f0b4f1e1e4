"""A sweep: the cells that a command line and an experiment spell, without those that are done.

Hydra's own sweeper knows one Cartesian product; a paper's table is a list of blocks, each fixed
overrides plus a grid.
"""

import hashlib
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from labeldp.support.files import only_one
from labeldp.support.progress import say
from labeldp.support.validate import InputError, check_number
from labeldp_bench.cli.errors import one_line
from labeldp_bench.cli.launch import CELLS_LEFT, Job, launch
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import cell_asked, with_seeds
from labeldp_bench.experiments.grid import LOCAL, Axes, as_written, parse_axes, spelled_cells
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.record import Records, is_done
from labeldp_bench.reports.naming import counted
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.process import comes_from_ctrl_c

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
"""{group: who takes its choice}; a data set brings one for whoever does."""


def run_sweep(config: DictConfig, arguments: Sequence[str]) -> None:
    """Runs every cell that has no record yet, then writes the closing table and picture.

    Args:
        config: of the sweep as a whole: experiment, folders, minutes.
        arguments: of the command line, those that spell cells.

    Raises:
        SystemExit: after everything else, with code 1 if a cell failed or a worker died, or 75
            if `minutes=` left cells for another time, or another process is at some of them.
    """
    choices = HydraConfig.get().runtime.choices
    experiment = choices.get("experiment")
    if config.cells is None and config.table is not None:
        return show_arithmetic(str(experiment), arguments)
    _check_keys(config, choices)
    axes = parse_axes(arguments, GlobalHydra.instance().config_loader())
    name = experiment or choices.get("sweep")
    cells = _cells(config.cells, axes, name)
    check_effect(axes, cells)
    # They pull in pandas and torch, which a mere `--help` must not wait for.
    from labeldp_bench.cli.sweep_summary import close_sweep
    from labeldp_bench.records.collect import find_done
    from labeldp_bench.runs.changed_data import refuse_changed_data
    from labeldp_bench.runs.environment import environment_of

    where = {key: config[key] for key in LOCAL}
    environment = environment_of(**where)
    out_dir = environment.out_dir

    def find() -> Records:
        return find_done(cells, out_dir, committed=experiment is not None and not config.rerun)

    done = find()
    refuse_changed_data(cells, done, out_dir, environment.data_dir)
    missing = [cell for cell in cells if cell.config_hash not in done]
    refuse_if_none_can_run(missing)
    jobs = _jobs(missing, Job([], where, started=time.time(), deadline=_deadline(config.minutes)))
    todo = counted([len(jobs)], "job")
    say(f"{_sources(cells, done, out_dir)}, {len(missing)} to run in {todo}")
    settings: Any = OmegaConf.to_container(HydraConfig.get().launcher, resolve=True)
    try:
        failed, ended = launch(jobs, choices["hydra/launcher"], settings, out_dir)
    except (KeyboardInterrupt, Exception) as error:
        if not comes_from_ctrl_c(error):
            raise
        left = len(cells) - len(find())
        say(f"interrupted: {left} of {len(cells)} cells left; the same command goes on")
        raise SystemExit(130) from None
    name = _name_of(cells, name, axes)
    # Where two processes share the cells, the last to end writes the table of all of them.
    with only_one(out_dir / name, lambda: None):
        done = find()
        close_sweep(cells, done, out_dir, name, experiment)
    say(_sources(cells, done, out_dir))
    missing = [cell for cell in cells if cell.config_hash not in done]
    if status := _status(len(cells), failed, missing, ended, config.minutes is not None):
        raise SystemExit(status)


def _check_keys(config: DictConfig, choices: Mapping[str, str]) -> None:
    """Refuses keys that are for one run, or that have no effect."""
    if choices.get("experiment") and choices.get("sweep"):
        raise InputError("an experiment names its cells itself: give experiment= or sweep=")
    if config.rerun and not choices.get("experiment"):
        raise InputError(f"rerun=true has no effect here: {NO_RERUN}")


def _cells(blocks: object, axes: Axes, name: str | None) -> list[Cell]:
    """Returns the cells, each once; says first what the sweep is."""
    blocks = OmegaConf.to_container(blocks) if OmegaConf.is_config(blocks) else blocks
    spelled = spelled_cells([{}] if blocks is None else blocks, with_seeds(axes))
    if not spelled and not axes:
        raise InputError("the sweep has no cell (cells: is an empty list)")
    over = as_written({key: values for key, values in axes.items() if len(values) > 1})
    say(f"sweep: {' '.join(filter(None, [name, over])) or 'one setting'}")
    cells: dict[str, Cell] = {}
    refused: dict[str, str] = {}
    for one in spelled:
        try:
            cell = None if one.replaced in refused else cell_asked(one, axes)
        except (InputError, HydraException, OmegaConfBaseException) as error:
            if not (name and axes):
                raise
            refused[one.replaced] = one_line(error)
        else:
            if cell is not None:
                cells.setdefault(cell.config_hash, cell)
    if refused:
        raise _does_not_fit(str(name), axes, refused)
    if not cells:
        asked = as_written(axes)
        raise InputError(f"no cell of {name} has {asked} (each picks cells of other blocks)")
    return list(cells.values())


def _does_not_fit(name: str, axes: Axes, refused: Mapping[str, str]) -> InputError:
    """Returns what is said of values that some cells of an experiment or sweep cannot take.

    Args:
        name: of the experiment or sweep.
        axes: what the command line says.
        refused: {what these cells have in place of it: why it does not fit}.
    """
    which = "every cell of" if "" in refused else "the cells of"
    having = "" if "" in refused else f" that have {' or '.join(refused)}"
    why = next(iter(refused.values()))
    how = f" (without {name}: python -m labeldp_bench -m {as_written(axes)} dataset=... eps=...)"
    return InputError(
        f"{as_written(axes)} does not fit {which} {name}{having}: {why}"
        f"{how if 'mechanism' in axes and having else ''}"
    )


def _deadline(minutes: float | None) -> float | None:
    if minutes is None:
        return None
    return time.time() + 60 * check_number("minutes", minutes, above=0)


def _jobs(cells: Sequence[Cell], alike: Job) -> list[Job]:
    """Returns jobs of cells, each with its place among the others.

    Args:
        cells: those to run.
        alike: has what all jobs have.
    """
    jobs: list[Job] = []
    before, groups = 0, grouped(cells)
    for number, job in enumerate(groups, 1):
        place = replace(alike, number=number, of=len(groups), before=before, total=len(cells))
        jobs.append(replace(place, cells=job))
        before += len(job)
    return jobs


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
    elsewhere = "left to another process, which is still at work"
    how = "left" if is_timed or not ended else elsewhere
    titles = "; ".join(cell.title for cell in missing)
    say(f"{len(missing)} of {total} cells {how} (the same command goes on): {titles}")
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
