"""The command line before Hydra reads it."""

import argparse
import contextlib
import io
import re
from collections.abc import Sequence

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import CHOICES, key_of
from labeldp_bench.experiments.grid import LOCAL, OF_THE_SWEEP, how_to_quote

REFUSED = {
    r"hydra\.(run|sweep)\.(dir|subdir)": "it would change nothing (out_dir= names the folder)",
    r".*\._target_": "a class is chosen by its group's name",
    r"budget\..*": "a budget is chosen by its name",
    r"views\..*": "its values are set where they are used (pretrain.{inside}=)",
    r"encoder\..*": "its values are set where they are used (model.network.{inside}=)",
    r"table(\..*)?": "it belongs to an experiment's file",
}
"""{keys that nobody may set: why}."""
ONE_VALUE = (*LOCAL, "minutes", "rerun", *OF_THE_SWEEP)
"""Keys of a sweep as a whole."""
NO_NAMES = ("null", "true", "false", "nan", "inf")


def check_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns Hydra's options; refuses what Hydra answers with a page of usage or a traceback."""
    options, unknown = hydra_options(arguments)
    for text in unknown:
        if text.startswith("-"):
            raise InputError(f"unknown option {text!r} (overrides are key=value; see --help)")
        raise InputError(f"options such as -m come before all overrides, got {text!r} after one")
    for key in ("config_name", "config_path"):
        if (value := getattr(options, key)) is not None:
            raise InputError(
                f"--{key.replace('_', '-')} {value} cannot be given: there is one config (write "
                "key=value, or experiment=<name>)"
            )
    if options.multirun and (options.cfg or options.info):
        shown = "--cfg" if options.cfg else "--info"
        raise InputError(f"{shown} shows one run, not a sweep (leave -m out)")
    for text in options.overrides:
        _check_override(text)
    return options


def _check_override(text: str) -> None:
    key, equals, values = text.lstrip("+").partition("=")
    if not equals:
        return
    if not key:
        raise InputError(f"cannot read {text!r} (write key=value)")
    if values.endswith(","):
        raise InputError(f"cannot read {text!r} (write a,b without a blank after the comma)")
    for pattern, why in REFUSED.items():
        if re.fullmatch(pattern, key):
            inside = key.partition(".")[2]
            raise InputError(f"{key} cannot be given: {why.format(inside=inside)}")
    if key.partition("@")[0] in CHOICES and values:
        for value in values.split(","):
            if not re.match(r"[A-Za-z_'\"$]", value) or value.lower() in NO_NAMES:
                raise InputError(f"{key} must be the name of a choice, got {values}")


def hydra_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns Hydra's options and what it takes for none; a usage page becomes one line."""
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage):
            return get_args_parser().parse_known_args(list(arguments))
    except SystemExit:
        why = usage.getvalue().strip().rpartition("error: ")[2]
        raise InputError(f"{why} (overrides are key=value; see --help)") from None


def is_sweep(options: argparse.Namespace) -> bool:
    """Returns whether a command line asks for a sweep: by `-m`, `experiment=` or `sweep=`."""
    named = any(re.match("(experiment|sweep)=.", text) for text in options.overrides)
    return bool(options.multirun) or named


def split_overrides(overrides: Sequence[str], many: bool) -> tuple[list[str], list[str]]:
    """Returns the overrides of the command as a whole, and those that spell cells.

    Hydra would try `dataset.limit_train=100` on the default data set, which need not be a cell's.

    Args:
        overrides: of the command line.
        many: whether they spell a sweep.
    """
    parser = OverridesParser.create()
    whole: list[str] = []
    spelling: list[str] = []
    for text in overrides:
        key = key_of(text)
        is_whole = key in ONE_VALUE or re.match("hydra[./]", key)
        if (is_whole or not many) and parser.parse_overrides([text])[0].is_sweep_override():
            how = how_to_quote(text) if key.endswith(("_dir", ".file")) else ""
            if is_whole:
                remedy = f" ({how})" if how else ""
                raise InputError(f"{key} takes one value, got {text.partition('=')[2]}{remedy}")
            remedy = f"add -m; or {how}" if how else "add -m"
            raise InputError(f"{text} has several values, which is a sweep ({remedy})")
        (whole if is_whole else spelling).append(text)
    return whole, spelling
