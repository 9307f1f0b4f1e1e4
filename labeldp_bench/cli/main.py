"""The command line: Hydra composes, this file hands over and shows errors as one line."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from labeldp import __version__
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.cli.arguments import check_arguments, is_sweep, split_sweep
from labeldp_bench.cli.errors import USER_ERRORS, print_error
from labeldp_bench.cli.help import help_text, wants_help
from labeldp_bench.cli.launch import ending_with_the_device
from labeldp_bench.cli.sweep import NO_RERUN, check_effect, run_sweep
from labeldp_bench.experiments.compose import cell_of, compose_cell, key_of
from labeldp_bench.experiments.experiment import scaled
from labeldp_bench.experiments.grid import LOCAL
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.reports.durations import say_forecast
from labeldp_bench.support.checkout import CONFIGS
from labeldp_bench.support.hardware import cpu_without_torch
from labeldp_bench.support.process import comes_from_ctrl_c, prepare_threads, prepare_training

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that asks for a traceback in place of one line."""
FULL_ERROR_WANTED = os.environ.get(FULL_ERROR) == "1"


def run_one(config: DictConfig) -> None:
    """Runs the one cell of a command line and shows its record."""
    if config.cells is not None:
        raise InputError("cells is for a sweep (add -m)")
    if config.minutes is not None:
        raise InputError("minutes is for a sweep (add -m)")
    if config.rerun:
        raise InputError(f"rerun=true has no effect here: {NO_RERUN}")
    given = HydraConfig.get().overrides.task
    keys = [key_of(text) for text in given]
    cell = cell_of(config, HydraConfig.get().runtime.choices)
    if cell.budget != PAPER:
        cell = compose_cell(scaled(given, asked=keys))
    say(cell.title)
    here = cpu_without_torch(str(config.device))
    if here is not None:
        say_forecast(cell, Path(str(config.out_dir)).expanduser(), here, given)
    say("  loading PyTorch")  # which takes seconds: the lines above need not wait for it
    from labeldp_bench.records.collect import record_of
    from labeldp_bench.records.record import CHECKPOINT, is_done
    from labeldp_bench.runs.environment import environment_of
    from labeldp_bench.support.device import describe_device

    prepare_training()
    cell.build()  # a wrong value is refused before anything is written
    check_effect(keys, [cell])
    if "eps" in keys and not cell.has("mechanism.eps"):
        say(f"eps has no effect: mechanism={cell.identity['mechanism']} has no eps")
    environment = environment_of(**{key: config[key] for key in LOCAL}).on_own_card()
    folder = environment.out_dir / cell.folder
    if is_done(folder):
        from labeldp_bench.runs.changed_data import refuse_changed_data

        done = {cell.config_hash: record_of(cell, environment.out_dir)}
        refuse_changed_data([cell], done, environment.out_dir, environment.data_dir)
        say("this run is done already (delete its folder to run it again)")
    else:
        if here is None:
            say_forecast(cell, environment.out_dir, describe_device(environment.device), given)
        if cell.has("dataset.name"):
            say(f"  reading {cell.dataset_name}")
    from labeldp_bench.cli.sweep_summary import show_run
    from labeldp_bench.runs.job import raise_or_write_failure, run_cells

    try:
        with ending_with_the_device():
            failed = run_cells([cell], environment, raise_or_write_failure)
    except KeyboardInterrupt:
        if not (folder / CHECKPOINT).is_file() and not is_done(folder):
            say("nothing is kept of this run yet; the same command starts it again")
        raise
    if failed or not is_done(folder):
        raise SystemExit(1)
    show_run(folder)


def run_by_hydra(work: Callable[[DictConfig], None]) -> None:
    """Lets Hydra read the command line and compose, then calls `work` with the config."""

    def task(config: DictConfig) -> None:
        try:
            work(config)
        except USER_ERRORS as error:
            if FULL_ERROR_WANTED:
                raise
            if comes_from_ctrl_c(error):
                raise KeyboardInterrupt from None
            # Hydra would print a line of its own about an exception; it lets an exit pass.
            raise SystemExit(print_error(error)) from None

    logging.getLogger("hydra").addHandler(logging.NullHandler())  # it logs what it also raises
    # With this set Hydra lets exceptions pass, so that one place prints them all.
    os.environ[FULL_ERROR] = "1"
    hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")(task)()


def _run(arguments: list[str]) -> None:
    """Runs what a command line asks for."""
    if wants_help(arguments):
        return say(help_text(arguments))
    if "--version" in arguments:
        return say(f"labeldp-bench {__version__}")
    options = check_arguments(arguments)
    if is_sweep(options):
        sys.argv[1:], spelling = split_sweep(options)
        return run_by_hydra(lambda config: run_sweep(config, spelling))
    run_by_hydra(run_one)
    budgets = [text for text in options.overrides if text.startswith("budget=")]
    if options.cfg in ("job", "all") and budgets and budgets[-1] != f"budget={PAPER}":
        budget = budgets[-1]
        say(f"# {budget} changes some of these values when the run starts (--help {budget})")


def main() -> None:
    """Runs what the command line asks for; Ctrl-C is left to the caller."""
    prepare_threads()
    try:
        _run(sys.argv[1:])
    except BrokenPipeError as error:  # the reader, such as `head`, has seen enough
        if comes_from_ctrl_c(error):  # or a worker's pipe
            sys.exit(130)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except USER_ERRORS as error:
        if FULL_ERROR_WANTED:
            raise
        sys.exit(130 if comes_from_ctrl_c(error) else print_error(error))
