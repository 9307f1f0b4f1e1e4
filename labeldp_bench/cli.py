"""The command line: Hydra composes, this file hands over and shows errors as one line."""

import os
import re
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from labeldp_bench import sweeper
from labeldp_bench.config import CHECKOUT, GROUPS, cell_of, compose_cell
from labeldp_bench.validate import InputError, did_you_mean

FULL_ERROR = "HYDRA_FULL_ERROR"
"""Set to 1 for a traceback in place of one line."""

if (CHECKOUT / "configs" / "config.yaml").is_file():
    CONFIG_PATH = str(CHECKOUT / "configs")
else:
    CONFIG_PATH = "pkg://labeldp_bench.configs"


def task(config: DictConfig) -> int:
    """Runs the cells of one job; returns how many failed."""
    # Torch takes a second to import, which a wrong override need not wait for.
    from labeldp_bench.run import Place, resolve_device, run_cells

    place = Place(Path(config.out_dir), Path(config.data_dir), resolve_device(config.device))
    if config.job is not None:
        return len(run_cells([compose_cell(list(overrides)) for overrides in config.job], place))
    from labeldp_bench.report import show_run

    cell = cell_of(config, HydraConfig.get().runtime.choices)
    failed = run_cells([cell], place)
    if failed:
        raise SystemExit(1)
    show_run(place.out_dir / cell.folder)
    return 0


def main() -> None:
    """Entry of `python -m labeldp_bench` and of the console script."""
    sweeper.register()
    show_traceback = os.environ.get(FULL_ERROR) == "1"
    # With this set Hydra lets exceptions pass, so that one border prints them all.
    os.environ[FULL_ERROR] = "1"
    run = hydra.main(version_base="1.3", config_path=CONFIG_PATH, config_name="config")(task)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was recorded")
    except (InputError, HydraException, OmegaConfBaseException) as error:
        if show_traceback:
            raise
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(2)


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
    text = str(innermost)
    unknown = re.search(r"Key '([^']+)' is not in struct\s+full_key: (\S+)", text)
    if unknown:
        return _unknown_key(unknown[2], innermost)
    wrong_type = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text)
    if wrong_type:
        key = getattr(innermost, "full_key", "") or "a value"
        kind = {"Float": "a number", "Integer": "an integer"}.get(wrong_type[2], wrong_type[2])
        return f"{key} must be {kind}, got {wrong_type[1]!r}"
    return " ".join(text.split())


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    options = error.options or ()
    return (
        f"{group} must be one of {', '.join(options)}; got {name!r}{did_you_mean(name, options)}"
    )


def _unknown_key(key: str, error: BaseException) -> str:
    parent = getattr(error, "parent_node", None)
    known = sorted(str(k) for k in parent) if isinstance(parent, DictConfig) else []
    prefix, _, last = key.rpartition(".")
    hidden = ("_target_", "_partial_", "hydra", "job", "cells")
    shown = [k for k in known if k not in hidden]
    if not prefix:
        shown = sorted({*shown, *GROUPS, "experiment", "sweep"})
    near = did_you_mean(last, shown)
    where = f" of {prefix}" if prefix else ""
    return f"unknown key {key}; keys{where}: {', '.join(shown)}{near}"


__all__ = ["ConfigCompositionException", "main", "one_line", "task"]
