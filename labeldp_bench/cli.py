"""The command line: Hydra composes, this file hands over and shows errors as one line."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Sequence

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from labeldp_bench import sweeper
from labeldp_bench.blocks import how_to_quote
from labeldp_bench.budget import key_of, scaled
from labeldp_bench.config import CHECKOUT, CHOICES, cell_of, compose_cell, experiment_names
from labeldp_bench.host import prepare_threads, prepare_training
from labeldp_bench.identity import PAPER
from labeldp_bench.interrupt import comes_from_ctrl_c
from labeldp_bench.progress import say
from labeldp_bench.validate import InputError, did_you_mean

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that asks for a traceback in place of one line."""
FULL_ERROR_WANTED = os.environ.get(FULL_ERROR) == "1"

SAID_BY_EXPERIMENTS = ("table", "figure")
NO_NAMES = ("null", "true", "false", "nan", "inf")

if (CHECKOUT / "configs" / "config.yaml").is_file():
    CONFIG_PATH = str(CHECKOUT / "configs")
else:
    CONFIG_PATH = "pkg://labeldp_bench.configs"


def task(config: DictConfig) -> int:
    """Runs the cells of one job; returns how many failed."""
    # Torch takes a second to import, which a wrong override need not wait for.
    from labeldp_bench.closing import show_run
    from labeldp_bench.outcome import note_or_refuse
    from labeldp_bench.place import place_of
    from labeldp_bench.records import is_done, read_record
    from labeldp_bench.run import run_cells
    from labeldp_bench.unchanged import refuse_changed_data

    prepare_training()
    try:
        if config.job is not None:
            cells = [compose_cell(list(overrides)) for overrides in config.job.cells]
            say(f"[{config.job.number}/{config.job.of}] {sweeper.title(cells)}")
            place = place_of(*(config[key] for key in sweeper.LOCAL))
            return len(run_cells(cells, place))
        if config.cells is not None:
            raise InputError("cells are a sweep (add -m)")
        given = HydraConfig.get().overrides.task
        keys = [key_of(text) for text in given]
        cell = cell_of(config, HydraConfig.get().runtime.choices)
        if cell.budget != PAPER:
            cell = compose_cell(scaled(given, asked=keys))
        cell.build()  # a wrong value is refused before anything is written
        sweeper.check_effect(keys, [cell])
        if "eps" in keys and not cell.has("mechanism.eps"):
            say(f"eps has no effect: mechanism={cell.identity['mechanism']} takes no budget")
        place = place_of(*(config[key] for key in sweeper.LOCAL))
        folder = place.out_dir / cell.folder
        if is_done(folder):
            done = {cell.config_hash: read_record(folder)}
            refuse_changed_data([cell], done, place.out_dir, place.data_dir)
            say(f"{cell.title}: done before (delete its folder to run it again)")
        failed = run_cells([cell], place, note_or_refuse)
        if failed or not is_done(folder):
            raise SystemExit(1)
        show_run(folder)
        return 0
    except (InputError, OmegaConfBaseException, OSError) as error:
        if FULL_ERROR_WANTED:
            raise
        if comes_from_ctrl_c(error):
            raise KeyboardInterrupt from None
        # Hydra would print a line of its own about an exception; it lets an exit pass.
        raise SystemExit(refuse(error)) from None


def main() -> None:
    """Runs what the command line asks for; Ctrl-C is left to the caller."""
    prepare_threads()
    logging.getLogger("hydra").addHandler(logging.NullHandler())  # it logs what it also raises
    sweeper.register()
    # With this set Hydra lets exceptions pass, so that one border prints them all.
    os.environ[FULL_ERROR] = "1"
    run = hydra.main(version_base="1.3", config_path=CONFIG_PATH, config_name="config")(task)
    try:
        _check_arguments(sys.argv[1:])
        sys.argv[1:] = left_to_cells(sys.argv[1:])
        run()
    except BrokenPipeError as error:  # the reader, such as `head`, has seen enough
        if comes_from_ctrl_c(error):  # or a worker's pipe
            sys.exit(130)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (InputError, HydraException, OmegaConfBaseException, OSError) as error:
        if FULL_ERROR_WANTED:
            raise
        sys.exit(130 if comes_from_ctrl_c(error) else refuse(error))


def _check_arguments(arguments: list[str]) -> None:
    """Refuses what Hydra answers with a page of usage or a traceback."""
    options, unknown = get_args_parser().parse_known_args(arguments)
    for key in ("config_name", "config_path"):
        if (value := getattr(options, key)) is not None:
            raise InputError(
                f"--{key.replace('_', '-')} {value} cannot be given: there is one config (write "
                "key=value, or experiment=<name>)"
            )
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
        if key.endswith("._target_"):
            raise InputError(f"{key} cannot be given: a class is chosen by its group's name")
        if key == "job":
            raise InputError("job is filled by the sweep, it cannot be given")
        if key.startswith("budget."):
            raise InputError(f"{key} cannot be given: a budget is chosen by its name")
        if key.partition(".")[0] in SAID_BY_EXPERIMENTS:
            raise InputError(f"{key} is what an experiment says of itself, it cannot be given")
        if key.partition("@")[0] in CHOICES and values:
            for value in values.split(","):
                if not re.match(r"[A-Za-z_'\"$]", value) or value.lower() in NO_NAMES:
                    raise InputError(f"{key} must be the name of a choice, got {value}")


def left_to_cells(arguments: Sequence[str]) -> list[str]:
    """Returns a command line whose values are tried on the cells of a sweep alone.

    Hydra tries `dataset.limit_train=100` on the base config, whose data set need not be a cell's;
    of a choice, even among one value, it leaves that to the sweep.
    """
    if not any(re.match(r"-m$|--multirun$|(experiment|sweep)=", text) for text in arguments):
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


def refuse(error: Exception) -> int:
    """Prints what is wrong in one line; returns the exit code for bad input."""
    print(f"error: {one_line(error)}", file=sys.stderr)
    return 2


def one_line(error: Exception) -> str:
    """Returns what is wrong, which value, what is allowed: one line.

    Hydra wraps the cause in several exceptions; the innermost says what a user can mend.
    """
    causes: list[BaseException] = [error]
    while (inner := causes[-1].__cause__) is not None:
        causes.append(inner)
    for cause in causes:
        if isinstance(cause, InputError):
            return str(cause)
        if isinstance(cause, MissingConfigException) and cause.missing_cfg_file:
            return _unknown_choice(cause)
        if isinstance(cause, MissingMandatoryValue):
            return f"{cause.full_key or cause.msg} must be given (it has no default)"
    innermost = causes[-1]
    text = " ".join(str(innermost).split())
    if isinstance(error, OverrideParseException):
        how = how_to_quote(error.override) if "=" in error.override else "write key=value"
        return f"cannot read {error.override!r} ({how})"
    several = re.search(r"Ambiguous value for argument '([^']+)'", text)
    if several:
        is_folder = several[1].partition("=")[0].endswith("_dir")
        how = how_to_quote(several[1]) if is_folder else "add -m"
        return f"{several[1]} has several values, which is a sweep ({how})"
    unknown = re.search(r"Key '[^']+' (?:is not in struct|not in '\w+') full_key: (\S+)", text)
    if unknown:
        return _unknown_key(unknown[1], innermost)
    wrong_type = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text)
    if wrong_type:
        key = getattr(innermost, "full_key", "") or "a value"
        kind = {"Float": "a number", "Integer": "an integer"}.get(wrong_type[2], wrong_type[2])
        return f"{key} must be {kind}, got {wrong_type[1]!r}"
    empty = re.search(r"field '(\w+)' is not Optional", text)
    if empty:
        return f"{empty[1]} must have a value, got null"
    text, _, where = text.partition(" full_key: ")
    return f"{where.split()[0]}: {text}" if where else text


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if group == "experiment" or group.startswith("experiment/"):
        name = (error.missing_cfg_file or "").removeprefix("experiment/")
        group, options = "experiment", experiment_names()
    else:
        options = list(error.options or ())
    return f"{group} must be one of {', '.join(options)}; got {name!r}{did_you_mean(name, options)}"


def _unknown_key(key: str, error: BaseException) -> str:
    parent = getattr(error, "parent_node", None)
    known = {str(k) for k in parent} if isinstance(parent, DictConfig) else set()
    prefix, _, last = key.rpartition(".")
    if not prefix:
        known |= {*CHOICES}
    shown = sorted(known - {"_target_", "_partial_", "hydra", "job", "cells", *SAID_BY_EXPERIMENTS})
    where = f" of {prefix}" if prefix else ""
    return (
        f"unknown key {key}; keys{where}: {', '.join(shown) or 'none'}{did_you_mean(last, shown)}"
    )
