"""The identity of a run: what decides its result, flat, the same on every machine.

An identity holds every value that a run's objects are built with, from a YAML or from a default in
code, except those that equal their *reference value* in `reference_values.json`. Reference values
are frozen: a default that changes in code, or in torch, stands in the identity from then on, so
that no older record passes for the new recipe. A new parameter comes with a reference value that
means what the code did before, so that older records keep their cells.
"""

import inspect
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import hydra

from labeldp.support.validate import InputError

GROUPS = ("dataset", "mechanism", "learner", "model")
PAPER = "paper"
"""The budget that changes nothing, and is no part of an identity."""
SEEDED = "seeded"
NOISES = (SEEDED, "secret")
"""Where a run's noise comes from: its seed, which anybody may know, or secret randomness."""

PATHS = ("dataset.file",)
"""Where data lie on this machine, which decides nothing."""

REFERENCE = Path(__file__).with_name("reference_values.json")
OURS = ("labeldp.", "labeldp_bench.")


def identity_of(
    config: Mapping[str, object], choices: Mapping[str, str], defaults: bool = True
) -> dict[str, object]:
    """Returns the identity of a resolved config, its keys sorted (contract: config_hash).

    Args:
        config: plain containers, without what is bound to a machine.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
        defaults: whether to import the classes, for what no YAML states; without that an identity
            is right as long as every default in code is the reference value.
    """
    beside = partial(_beside_reference, defaults=defaults)
    identity: dict[str, object] = {"seed": config["seed"]}
    if config["budget"] != PAPER:
        identity["budget"] = config["budget"]
    for group in GROUPS:
        identity[group] = choices[group]
        identity |= _flat(group, beside(config[group]))
    if config.get("noise", SEEDED) != SEEDED:
        identity["noise"] = config["noise"]
    if config["pretrain"]:  # no key without it, as in runs from before pre-training existed
        identity["pretrain"] = choices["pretrain"]
        identity |= _flat("pretrain", beside(config["pretrain"]))
    if config["tuning"]:  # no key without it, as for pretrain
        identity["tuning"] = choices["tuning"]
        identity |= _flat("tuning", beside(config["tuning"]))
    return {key: identity[key] for key in sorted(identity) if key not in PATHS}


def without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config as a record holds it: without paths of this machine."""
    kept = dict(config)
    for path in PATHS:
        group, _, key = path.partition(".")
        kept[group] = {name: value for name, value in kept[group].items() if name != key}
    return kept


def canonical(identity: dict[str, object]) -> str:
    """Returns the one JSON text of an identity: sorted keys, no spaces, "inf" for infinity."""
    return json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)


def all_but_seed(identity: Mapping[str, object]) -> str:
    """Returns the settings that the seeds of one method share, as text."""
    return canonical({key: value for key, value in identity.items() if key != "seed"})


@cache
def reference_values() -> dict[str, dict[str, object]]:
    """Returns {class: {parameter: reference value}}."""
    values: dict[str, dict[str, object]] = json.loads(REFERENCE.read_text())
    return values


@cache
def defaults_of(target: Any) -> dict[str, object]:
    """Returns {parameter: default in code} of what a `_target_` names, as YAML would hold them.

    Raises:
        InputError: it names nothing that can be called.
    """
    try:
        made = hydra.utils.get_object(target)
        signature = inspect.signature(made)
    except Exception as error:  # whatever an import may raise
        raise InputError(f"_target_ must name something to call, got {target!r}") from error
    # What no comparison looks at, such as a measurement's public input, is no setting.
    given = {f.name for f in fields(made) if not f.compare} if is_dataclass(made) else set()
    return {
        name: _plain(parameter.default)
        for name, parameter in signature.parameters.items()
        if parameter.default is not parameter.empty and name not in given
    }


def _beside_reference(node: Any, defaults: bool) -> Any:
    """Returns a config node with its classes' defaults, less the values of the reference."""
    if isinstance(node, list):
        return [_beside_reference(item, defaults) for item in node]
    if isinstance(node, float):
        if not math.isfinite(node):
            return str(node)  # "inf"; JSON has no such number
        return int(node) if node.is_integer() and abs(node) < 2**53 else node
    if not isinstance(node, dict):
        return node
    target = node.get("_target_")
    given = {key: value for key, value in node.items() if not key.startswith("_")}
    if target is None:
        return {key: _beside_reference(value, defaults) for key, value in given.items()}
    name = str(target).rpartition(".")[2]
    reference = reference_values().get(name, {})
    # Of other packages' classes only the registered parameters: a newer version has more.
    known = defaults_of(target).items() if defaults else ()
    ours = str(target).startswith(OURS)
    given = {key: value for key, value in known if ours or key in reference} | given
    kept = {
        key: _beside_reference(value, defaults)
        for key, value in given.items()
        if not (key in reference and reference[key] == value)
    }
    return kept | {"_target_": name}


def _plain(default: Any) -> Any:
    """Returns a constructor's default as YAML would hold it: tuples are lists there."""
    return [_plain(item) for item in default] if isinstance(default, tuple) else default


def _flat(prefix: str, node: dict[str, object]) -> dict[str, object]:
    """Returns {"model.k": 200, ...}; classes of nested nodes stand under the node's own key."""
    # The trainer is a group of its own on the command line; in the objects it is the model's.
    prefix = "trainer" if prefix == "model.trainer" else prefix
    flat: dict[str, object] = {}
    for key, value in node.items():
        name = f"{prefix}.{key}"
        if key == "_target_":
            if "." in prefix:
                flat[prefix] = value
        elif isinstance(value, dict):
            flat |= _flat(name, value)
        else:
            flat[name] = value
    return flat
