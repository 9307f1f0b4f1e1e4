"""The command line: what it asks for, and errors as one line."""

import os
import sys

import hydra

from labeldp import __version__
from labeldp.support.progress import say
from labeldp_bench.cli.arguments import check_arguments, is_sweep, split_overrides
from labeldp_bench.cli.errors import FULL_ERROR, guarded
from labeldp_bench.cli.sweep import run
from labeldp_bench.experiments.compose import compose_whole, start
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.support.checkout import CONFIGS
from labeldp_bench.support.process import prepare_threads


def _run(arguments: list[str]) -> None:
    """Runs what a command line asks for."""
    if {"--help", "-h"} & {*arguments}:
        from labeldp_bench.cli.help import help_text

        return say(help_text(arguments))
    if "--version" in arguments:
        return say(f"labeldp-bench {__version__}")
    options = check_arguments(arguments)
    if not (options.cfg or options.info or options.hydra_help or options.shell_completion):
        start(options.config_dir)
        many = is_sweep(options)
        whole, spelling = split_overrides(options.overrides, many)
        return run(compose_whole(whole), spelling, many)
    os.environ[FULL_ERROR] = "1"  # Hydra then lets exceptions pass, so that one place prints them
    show = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")
    show(lambda config: None)()
    budgets = [text for text in options.overrides if text.startswith("budget=")]
    if options.cfg in ("job", "all") and budgets and budgets[-1] != f"budget={PAPER}":
        budget = budgets[-1]
        say(f"# {budget} changes some of these values when the run starts (--help {budget})")


def main() -> None:
    """Runs what the command line asks for, and ends with its exit status."""
    prepare_threads()
    if status := guarded(_run, sys.argv[1:]):
        sys.exit(status)
