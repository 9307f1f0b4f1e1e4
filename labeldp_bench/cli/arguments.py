"""The command line before Hydra reads it."""

import argparse
import contextlib
import io
import re
from collections.abc import Sequence

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import CHOICES, choices_of
from labeldp_bench.experiments.identity import PAPER

SAID_BY_EXPERIMENTS = ("table",)
NO_NAMES = ("null", "true", "false", "nan", "inf")


def check_arguments(arguments: list[str]) -> None:
    """Refuses what Hydra answers with a page of usage or a traceback."""
    options, unknown = hydra_options(arguments)
    for key in ("config_name", "config_path"):
        if (value := getattr(options, key)) is not None:
            raise InputError(
                f"--{key.replace('_', '-')} {value} cannot be given: there is one config (write "
                "key=value, or experiment=<name>)"
            )
    if options.multirun and (options.cfg or options.info):
        shown = "--cfg" if options.cfg else "--info"
        raise InputError(f"{shown} shows one run, not a sweep (leave -m out)")
    for text in unknown:
        if text.startswith("-"):
            raise InputError(f"unknown option {text!r} (overrides are key=value; see --help)")
        raise InputError(f"options such as -m come before all overrides, got {text!r} after one")
    for text in arguments:
        key, equals, values = text.lstrip("+").partition("=")
        if not equals:
            continue
        if not key:
            raise InputError(f"cannot read {text!r} (write key=value)")
        if values.endswith(","):
            raise InputError(f"cannot read {text!r} (write a,b without a blank after the comma)")
        if key.endswith("._target_"):
            raise InputError(f"{key} cannot be given: a class is chosen by its group's name")
        if key == "job":
            raise InputError("job cannot be given: a sweep sets it")
        if key.startswith("budget."):
            raise InputError(f"{key} cannot be given: a budget is chosen by its name")
        if key.startswith(("views.", "encoder.")):
            used = "pretrain" if key.startswith("views.") else "model.network"
            raise InputError(
                f"{key} cannot be given: it is chosen by its name, and its values are set where "
                f"they are used ({used}.{key.partition('.')[2]}=)"
            )
        if key.partition(".")[0] in SAID_BY_EXPERIMENTS:
            raise InputError(f"{key} cannot be given: it belongs to an experiment's file")
        if key.partition("@")[0] in CHOICES and values:
            for value in values.split(","):
                if not re.match(r"[A-Za-z_'\"$]", value) or value.lower() in NO_NAMES:
                    raise InputError(f"{key} must be the name of a choice, got {values}")


def hydra_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns Hydra's options and what it takes for none; a usage page becomes one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return get_args_parser().parse_known_args(arguments)
    except SystemExit:
        why = said.getvalue().strip().rpartition("error: ")[2]
        raise InputError(f"{why} (overrides are key=value; see --help)") from None


def below_cfg(arguments: Sequence[str]) -> str:
    """Returns a YAML comment that belongs below what `--cfg` prints; empty without one.

    Hydra prints what is written; a budget changes each cell when it starts.
    """
    options, _ = hydra_options(list(arguments))
    names = [text.partition("=")[2] for text in arguments if text.startswith("budget=")]
    if options.cfg in (None, "hydra") or not names or names[-1] == PAPER:
        return ""
    how = f"--help budget={names[-1]} lists them, and the run's record holds what it ran with"
    return f"# budget={names[-1]} changes some of these values when the run starts ({how})"


def left_to_cells(arguments: Sequence[str]) -> list[str]:
    """Returns a command line whose values are tried on the cells of a sweep alone.

    Hydra tries `dataset.limit_train=100` on the base config, whose data set need not be a cell's;
    of a choice, even among one value, it leaves that to the sweep. A name of an experiment that is
    none, and `--cfg`, are no sweep.
    """
    options, _ = hydra_options(list(arguments))
    named = [re.fullmatch(r"(experiment|sweep)=(.+)", text) for text in arguments]
    is_known = any(match and match[2] in choices_of(match[1]) for match in named)
    if options.cfg or not (options.multirun or is_known):
        return list(arguments)
    parser = OverridesParser.create()
    spelled = []
    for text in arguments:
        key, _, value = text.partition("=")
        if re.fullmatch(r"(?!hydra\.)\w+(\.\w+)+", key) and value:
            with contextlib.suppress(HydraException):  # Hydra says what it cannot read
                if not parser.parse_override(text).is_sweep_override():
                    text = f"{key}=choice({value})"
        spelled.append(text)
    return spelled
