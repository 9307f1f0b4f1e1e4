"""From the blocks of an experiment and the command line to the overrides of each cell."""

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString

from labeldp.support.validate import InputError

OF_THE_SWEEP = ("experiment", "sweep", "cells", "table")
"""Keys that say which cells there are, and take one value."""
LOCAL = ("out_dir", "data_dir", "device", "checkpoint_epochs", "capture")
"""Where cells run: one value for a whole sweep, and no part of a cell."""
Axes = dict[str, list[str]]
"""The values that each key of a command line takes."""
# Text that means itself in an override; `null` and numbers in quotes stay text.
PLAIN = re.compile(r"(?!(?:null|true|false|nan|inf)$)[A-Za-z_][A-Za-z0-9_./+-]*|2/K", re.I)


@dataclass(frozen=True)
class CellSpec:
    """One cell in words.

    Attributes:
        values: {key: value}, all that spells it, as overrides have it.
        listed: the values that each key has in the cell's block of a YAML.
        foreign: keys of the command line that picked cells of other blocks, as this one's block
            has no such key.
    """

    values: dict[str, str]
    listed: Axes
    foreign: frozenset[str] = frozenset()

    @property
    def overrides(self) -> list[str]:
        """What spells the cell."""
        return [f"{key}={value}" for key, value in self.values.items()]

    @property
    def own(self) -> list[str]:
        """What spells the cell of the block itself."""
        return [f"{key}={self.values[key]}" for key in self.values if key not in self.foreign]

    @property
    def replaced(self) -> str:
        """What its block had in place of the command line's values, as `mechanism=rr,oue`."""
        return as_written(
            {key: values for key, values in self.listed.items() if self.values[key] not in values}
        )

    def restricted(self, key: str, values: list[str], picks: bool) -> "list[CellSpec]":
        """Returns what the command line's values of a key make of the cell.

        Args:
            key: new, or one of the cell's.
            values: that the command line gives.
            picks: whether they pick cells; else they replace what there is.
        """
        if picks and key in self.values:
            wanted = {_comparable(value) for value in values}
            return [self] if _comparable(self.values[key]) in wanted else []
        foreign = self.foreign | {key} if picks else self.foreign
        return [CellSpec(self.values | {key: value}, self.listed, foreign) for value in values]


def cell_specs(blocks: Any, axes: Axes) -> list[CellSpec]:
    """Returns what spells every cell, each once.

    >>> blocks = [{"set": {"eps": 1}, "grid": {"seed": [0, 1]}}]
    >>> [spec.overrides for spec in cell_specs(blocks, {"mechanism": ["rr"]})]
    [['eps=1', 'seed=0', 'mechanism=rr'], ['eps=1', 'seed=1', 'mechanism=rr']]

    Args:
        blocks: a list of {"set": {key: value}, "grid": {key: [values]}}, both optional.
        axes: what the command line says. Values that the blocks have pick the cells with them, so
            that `eps=2` takes the cells of a table whose other keys go with that eps; in a block
            without the key they are `foreign`. Any other value replaces theirs, or adds a key.
    """
    if not isinstance(blocks, list):
        raise InputError(f"cells must be a list of blocks, got {type(blocks).__name__}")
    written = [_read(block) for block in blocks]
    specs = [
        CellSpec(dict(zip(block, values, strict=True)), block)
        for block in written
        for values in itertools.product(*block.values())
    ]
    for key, values in axes.items():
        # What picks does not depend on the order of arguments: it is asked of the blocks as listed.
        has = {_comparable(value) for block in written for value in block.get(key, [])}
        picks = has >= {_comparable(value) for value in values}
        specs = [new for spec in specs for new in spec.restricted(key, values, picks)]
    return list({(*spec.overrides, spec.replaced): spec for spec in specs}.values())


def _read(block: Any) -> Axes:
    """Returns the values that each key has in a block of a YAML, as texts."""
    if not isinstance(block, dict) or set(block) - {"set", "grid"}:
        raise InputError(f"a block of cells has the keys set and grid, got {block!r}")
    written = {key: [spell(value)] for key, value in (block.get("set") or {}).items()}
    for key, values in (block.get("grid") or {}).items():
        if not isinstance(values, list):
            raise InputError(f"a grid of cells has lists, got {key}: {values!r}")
        written[key] = [spell(value) for value in values]
    return written


def as_written(axes: Mapping[str, Iterable[str]]) -> str:
    """Returns what one types for the values of keys.

    >>> as_written({"eps": ["1", "2"], "mechanism": ["rr"]})
    'eps=1,2 mechanism=rr'
    """
    return " ".join(f"{key}={','.join(values)}" for key, values in axes.items())


def _comparable(value: str) -> float | str:
    """Returns a number for what spells one, so that 1 and 1.0 are the same value."""
    try:
        return float(value)
    except ValueError:
        return value


def spell(value: object) -> str:
    """Returns a value of a YAML as an override has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(spell(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{spell(key)}:{spell(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) else quote(value)
    return str(value)


def quote(text: str) -> str:
    """Returns `text` as Hydra reads text."""
    return str(QuotedString(text, Quote.single).with_quotes())


def how_to_quote(override: str | None) -> str:
    """Returns what to type in a shell where Hydra took a value for more than text.

    >>> print(how_to_quote("out_dir=a=b"))
    special characters want quotes: 'out_dir="a=b"'
    """
    key, _, value = str(override).partition("=")
    quoted = QuotedString(value, Quote.double).with_quotes()
    return f"special characters want quotes: {shlex.quote(f'{key}={quoted}')}"


def parse_axes(arguments: Sequence[str], config_loader: ConfigLoader | None = None) -> Axes:
    """Returns the values of each key on the command line; `a=1,2` has two."""
    axes: Axes = {}
    parser = OverridesParser.create(config_loader=config_loader)
    for override in parser.parse_overrides(list(arguments)):
        key = override.get_key_element()
        if override.is_delete():
            raise InputError(f"{override.input_line}: a sweep cannot take a key away")
        if not override.is_sweep_override():
            axes[key] = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            axes[key] = list(override.sweep_string_iterator())
        else:
            raise InputError(f"{key} needs values to sweep over, got {override.input_line}")
        if not axes[key]:
            raise InputError(f"{key}: nothing matches {override.input_line}")
    return axes
