"""What is wrong, in one line."""

import os
import re
import sys
from collections.abc import Callable, Collection

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from labeldp.support.validate import InputError, did_you_mean
from labeldp_bench.experiments.compose import (
    CHOICES,
    choices_of,
    experiment_names,
    unknown_experiment,
)
from labeldp_bench.experiments.grid import how_to_quote
from labeldp_bench.support.process import comes_from_ctrl_c

USER_ERRORS = (InputError, HydraException, OmegaConfBaseException, OSError, YAMLError)
"""What a user can fix: printed as one line."""


FULL_ERROR = "HYDRA_FULL_ERROR"
"""The environment variable that asks for a traceback in place of one line."""
FULL_ERROR_WANTED = os.environ.get(FULL_ERROR) == "1"


def guarded(work: Callable[[list[str]], int | None], arguments: list[str]) -> int:
    """Returns the status of work(arguments); what a user can fix is one line on stderr, and 2."""
    try:
        return work(arguments) or 0
    except BrokenPipeError as error:  # the reader, such as `head`, has seen enough
        if not comes_from_ctrl_c(error):  # or a worker's pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    except USER_ERRORS as error:
        if FULL_ERROR_WANTED:
            raise
        if not comes_from_ctrl_c(error):
            print(f"error: {one_line(error)}", file=sys.stderr)
            return 2
    except KeyboardInterrupt:
        pass
    print("interrupted", file=sys.stderr)
    return 130


def one_line(error: Exception) -> str:
    """Returns what is wrong, which value, what is allowed: one line.

    Hydra wraps the cause in several exceptions; the innermost says what a user can fix.
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
    if isinstance(error, OverrideParseException):
        how = how_to_quote(error.override) if "=" in error.override else "write key=value"
        return f"cannot read {error.override!r} ({how})"
    text = " ".join(str(causes[-1]).split())
    for pattern, explain in IN_HYDRAS_WORDS.items():
        if found := re.search(pattern, text):
            return explain(found, causes[-1])
    text, _, where = text.partition(" full_key: ")
    return f"{where.split()[0]}: {text}" if where else text


def _wrong_type(found: re.Match, error: BaseException) -> str:
    kinds = {"Float": "a number", "Integer": "an integer", "bool": "true or false"}
    kind = kinds.get(found[2], found[2])
    return f"{getattr(error, 'full_key', '') or 'a value'} must be {kind}, got {found[1]!r}"


def _refers_to_nothing(found: re.Match, error: BaseException) -> str:
    key = getattr(error, "full_key", "")
    return f"{f'{key}: ' if key else ''}${{{found[1]}}} refers to a key that is not there"


IN_HYDRAS_WORDS: dict[str, Callable[[re.Match, BaseException], str]] = {
    r"Key '[^']+' (?:is not in struct|not in '\w+') full_key: (\S+)": (
        lambda found, error: _unknown_key(found[1], error)
    ),
    r"Value '(.*)' of type '\w+' could not be converted to (\w+)": _wrong_type,
    r"Value '(.*)' is not a valid (bool)": _wrong_type,
    r"Interpolation key '(.*)' not found": _refers_to_nothing,
    r"field '(\w+)' is not Optional": (
        lambda found, error: f"{found[1]} must have a value, got null"
    ),
}
"""{what Hydra or OmegaConf says, as a pattern: returns what a user is told}."""


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if group == "experiment" or group.startswith("experiment/"):
        name = (error.missing_cfg_file or "").removeprefix("experiment/")
        return str(unknown_experiment(name, experiment_names()))
    options = list(error.options or ())
    near = did_you_mean(name, options)
    if group == "learner":
        from labeldp.losses import LOSSES  # torch, which nobody else here waits for

        near = f" (did you mean learner.loss={name}?)" if name in LOSSES else near
    return f"{group} must be one of {', '.join(options)}; got {name!r}{near}"


def _unknown_key(key: str, error: BaseException) -> str:
    parent = getattr(error, "parent_node", None)
    known = {str(k) for k in parent} if isinstance(parent, DictConfig) else set()
    prefix, _, last = key.rpartition(".")
    if not prefix:
        known |= {*CHOICES}
    group = prefix or key
    shown = sorted(known - {"_target_", "_partial_", "hydra", "cells", "table"})
    if group in CHOICES and (group == key or not shown):  # a choice that is null, or has no keys
        options = ", ".join(choices_of(group))
        return f"{group} has no keys as it is chosen here ({group} is one of {options})"
    where = f" of {prefix}" if prefix else ""
    near = did_you_mean(last, shown)
    if isinstance(parent, DictConfig):  # trainer.lr, which is trainer.optimizer.lr
        inside = OmegaConf.to_container(parent, resolve=False)
        deeper = [f"{name}.{last}" for name in shown if last in _keys(inside, name)]
        near = f" (did you mean {prefix}.{deeper[0]}?)" if len(deeper) == 1 and prefix else near
    return f"unknown key {key}; keys{where}: {', '.join(shown) or 'none'}{near}"


def _keys(inside: object, name: str) -> Collection[str]:
    """Returns the keys of `inside[name]`; empty if that is not a mapping."""
    node = inside.get(name) if isinstance(inside, dict) else None
    return node if isinstance(node, dict) else ()
