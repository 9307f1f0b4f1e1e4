"""What decides a run's result and so names it: flat, without defaults, alike on every machine."""

import inspect
import json
import math
from collections.abc import Mapping
from typing import Any

import hydra

from labeldp_bench.validate import InputError

GROUPS = ("dataset", "mechanism", "learner", "model")
PAPER = "paper"
"""The budget that changes nothing, and is no part of an identity."""


def identity_of(config: Mapping[str, Any], choices: Mapping[str, str]) -> dict[str, Any]:
    """Returns the identity of a resolved config, its keys sorted (contract: config_hash).

    Args:
        config: plain containers, without what is bound to a machine.
        choices: which option was taken in each group, e.g. {"dataset": "mnist"}.
    """
    identity: dict[str, Any] = {"seed": config["seed"]}
    if config["budget"] != PAPER:
        identity["budget"] = config["budget"]
    for group in GROUPS:
        identity[group] = choices[group]
        identity |= _flat(group, _without_defaults(config[group]))
    if config["pretrain"]:  # left out otherwise, as in runs from before there was any
        identity["pretrain"] = choices["pretrain"]
        identity |= _flat("pretrain", _without_defaults(config["pretrain"]))
    return dict(sorted(identity.items()))


def canonical(identity: dict[str, Any]) -> str:
    """Returns the one JSON text of an identity: sorted keys, no spaces, "inf" for infinity."""
    return json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _without_defaults(node: Any) -> Any:
    """Returns a config node without keys that repeat their constructor's default.

    So a new optional parameter leaves the identity of older runs as it was.
    """
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    if isinstance(node, float):
        if not math.isfinite(node):
            return str(node)  # "inf"; JSON has no such number
        return int(node) if node.is_integer() and abs(node) < 2**53 else node
    if not isinstance(node, dict):
        return node
    defaults = {}
    if "_target_" in node:
        signature = _signature(node["_target_"])
        defaults = {name: _plain(p.default) for name, p in signature.parameters.items()}
    kept = {
        key: _without_defaults(value)
        for key, value in node.items()
        if not key.startswith("_") and not (key in defaults and defaults[key] == value)
    }
    if "_target_" in node:
        kept["_target_"] = node["_target_"].rsplit(".", 1)[-1]
    return kept


def _signature(path: Any) -> inspect.Signature:
    try:
        return inspect.signature(hydra.utils.get_object(path))
    except Exception as error:  # whatever an import may raise
        raise InputError(f"_target_ must name something to call, got {path!r}") from error


def _plain(default: Any) -> Any:
    """Returns a constructor's default as YAML would hold it: tuples are lists there."""
    return [_plain(item) for item in default] if isinstance(default, tuple) else default


def _flat(prefix: str, node: dict[str, Any]) -> dict[str, Any]:
    """Returns {"model.k": 200, ...}; classes of nested nodes stand under the node's own key."""
    # The trainer is a group of its own on the command line; in the objects it is the model's.
    prefix = "trainer" if prefix == "model.trainer" else prefix
    flat: dict[str, Any] = {}
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
