"""The command line: Hydra composes, this file hands over and shows errors as one line."""

import logging
import os
import sys
from collections.abc import Callable

import hydra
from omegaconf import DictConfig

from labeldp import __version__
from labeldp.support.progress import say
from labeldp_bench.cli.arguments import check_arguments, is_sweep, split_overrides
from labeldp_bench.cli.errors import USER_ERRORS, print_error
from labeldp_bench.cli.help import help_text, wants_help
from labeldp_bench.cli.sweep import run
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.support.checkout import CONFIGS
from labeldp_bench.support.process import comes_from_ctrl_c, prepare_threads

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that asks for a traceback in place of one line."""
FULL_ERROR_WANTED = os.environ.get(FULL_ERROR) == "1"


def _run_by_hydra(work: Callable[[DictConfig], None]) -> None:
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
    if not (options.cfg or options.info or options.hydra_help or options.shell_completion):
        many = is_sweep(options)
        sys.argv[1:], spelling = split_overrides(options, many)
        return _run_by_hydra(lambda config: run(config, spelling, many))
    _run_by_hydra(lambda config: None)  # Hydra shows what it composes
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
