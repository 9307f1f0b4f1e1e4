"""The command line: Hydra composes, this file hands over and shows errors as one line."""

import os
import re
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from labeldp_bench import sweeper
from labeldp_bench.config import CHECKOUT, GROUPS, cell_of, compose_cell
from labeldp_bench.validate import InputError, did_you_mean

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that asks for a traceback in place of one line."""
FULL_ERROR_WANTED = os.environ.get(FULL_ERROR) == "1"

if (CHECKOUT / "configs" / "config.yaml").is_file():
    CONFIG_PATH = str(CHECKOUT / "configs")
else:
    CONFIG_PATH = "pkg://labeldp_bench.configs"


def task(config: DictConfig) -> int:
    """Runs the cells of one job; returns how many failed."""
    # Torch takes a second to import, which a wrong override need not wait for.
    from labeldp_bench.report import show_run
    from labeldp_bench.run import Place, resolve_device, run_cells

    try:
        place = Place(Path(config.out_dir), Path(config.data_dir), resolve_device(config.device))
        if config.job is not None:
            cells = [compose_cell(list(overrides)) for overrides in config.job]
            return len(run_cells(cells, place))
        cell = cell_of(config, HydraConfig.get().runtime.choices)
        cell.build()  # a wrong value is refused before anything is written
    except (InputError, OmegaConfBaseException) as error:
        if FULL_ERROR_WANTED:
            raise
        # Hydra would print a line of its own about an exception; it lets an exit pass.
        raise SystemExit(refuse(error)) from None
    if run_cells([cell], place):
        raise SystemExit(1)
    show_run(place.out_dir / cell.folder)
    return 0


def main() -> None:
    """Entry of `python -m labeldp_bench` and of the console script."""
    # Threads that spin while they wait steal the core from any other process: on two shared cores
    # an epoch took up to four times as long. Read when torch is imported, so set before.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    sweeper.register()
    # With this set Hydra lets exceptions pass, so that one border prints them all.
    os.environ[FULL_ERROR] = "1"
    run = hydra.main(version_base="1.3", config_path=CONFIG_PATH, config_name="config")(task)
    try:
        run()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was recorded")
    except (InputError, HydraException, OmegaConfBaseException) as error:
        if FULL_ERROR_WANTED:
            raise
        sys.exit(refuse(error))


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
        return f"cannot read {error.override!r} (write key=value)"
    several = re.search(r"Ambiguous value for argument '([^']+)'", text)
    if several:
        return f"{several[1]} has several values, which is a sweep (add -m)"
    unknown = re.search(r"Key '[^']+' (?:is not in struct|not in '\w+') full_key: (\S+)", text)
    if unknown:
        return _unknown_key(unknown[1], innermost)
    wrong_type = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text)
    if wrong_type:
        key = getattr(innermost, "full_key", "") or "a value"
        kind = {"Float": "a number", "Integer": "an integer"}.get(wrong_type[2], wrong_type[2])
        return f"{key} must be {kind}, got {wrong_type[1]!r}"
    return text


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    options = error.options or ()
    return f"{group} must be one of {', '.join(options)}; got {name!r}{did_you_mean(name, options)}"


def _unknown_key(key: str, error: BaseException) -> str:
    parent = getattr(error, "parent_node", None)
    known = {str(k) for k in parent} if isinstance(parent, DictConfig) else set()
    prefix, _, last = key.rpartition(".")
    if not prefix:
        known |= {*GROUPS, "trainer", "experiment", "sweep"}
    shown = sorted(known - {"_target_", "_partial_", "hydra", "job", "cells"})
    where = f" of {prefix}" if prefix else ""
    return f"unknown key {key}; keys{where}: {', '.join(shown)}{did_you_mean(last, shown)}"
