"""Budgets: smaller versions of cells, as configs/budget says. Imports no torch."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from labeldp.support.validate import InputError
from labeldp_bench.experiments.assembly import assemble
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import CHOICE, compose_cell, use_configs
from labeldp_bench.experiments.grid import spell
from labeldp_bench.experiments.identity import PAPER


def scaled(overrides: Sequence[str], asked: Collection[str] = ()) -> list[str]:
    """Returns the overrides of a cell with what its budget changes.

    A budget wins over the cell's own settings and gives way to the user's. A group that it chooses,
    such as a trainer, comes whole: without what the cell sets in its own.

    Args:
        overrides: of one cell; `budget=` among them names the budget.
        asked: the keys that the user gave on the command line.

    >>> scaled(["dataset=mnist", "trainer.epochs=5", "budget=quick"])[1:]
    ['trainer.selection=last', 'trainer.epochs=2', 'budget=quick']
    >>> scaled(["dataset=mnist", "trainer.epochs=5", "budget=quick"], asked=["trainer.epochs"])[1]
    'trainer.epochs=5'
    """
    own = {key_of(text): text for text in overrides}
    name = own.pop("budget", f"budget={PAPER}").partition("=")[2]
    if name in (PAPER, "null"):
        return list(own.values())
    for rule in _rules(name):
        cell = compose_cell(list(own.values()))  # with what the rules before have changed
        if any(cell.identity.get(key) not in names for key, names in rule["when"].items()):
            continue
        known = {
            key: value
            for key, value in rule["set"].items()
            if CHOICE.match(key) or cell.has(package_of(key))
        }
        lower = {key: most for key, most in rule["at_most"].items() if _is_above(cell, key, most)}
        new = {key: value for key, value in (known | lower).items() if key not in asked}
        for group in filter(CHOICE.match, new):  # comes whole: what was set in the old one goes
            inside = f"{package_of(group)}."
            own = {
                key: text for key, text in own.items() if not key.startswith(inside) or key in asked
            }
        kept = {key: text for key, text in own.items() if key not in new}
        own = kept | {key: f"{key}={spell(value)}" for key, value in new.items()}
    return [*own.values(), f"budget={name}"]


def _is_above(cell: Cell, key: str, most: float) -> bool:
    """Returns whether a cell has more of something than `most`; null is no limit.

    What is no number is not: it stays, and `build` refuses it in one line.
    """
    if not cell.has(key):
        return False
    value = cell.setting(key)
    return value is None or (isinstance(value, int | float) and value > most)


@cache
def _rules(name: str) -> list[dict[str, Any]]:
    """Returns the rules of a budget, each with `when`, `set` and `at_most`."""
    use_configs()
    config, _ = assemble([f"budget={name}"])
    rules = OmegaConf.to_container(config.budget.rules)
    assert isinstance(rules, list)
    for rule in rules:
        if not isinstance(rule, dict) or set(rule) - {"when", "set", "at_most"}:
            raise InputError(f"a rule of a budget has the keys when, set, at_most; got {rule!r}")
    return [{"when": {}, "set": {}, "at_most": {}} | dict(rule) for rule in rules]


def key_of(override: str) -> str:
    """Returns the key of an override, also of `++key=value`."""
    return override.partition("=")[0].lstrip("+~")


def package_of(key: str) -> str:
    """Returns where a key stands in a config: `trainer@pretrain.trainer` is `pretrain.trainer`."""
    return key.rpartition("@")[2]
