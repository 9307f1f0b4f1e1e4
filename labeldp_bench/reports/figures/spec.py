"""What a figure shows, as its experiment YAML says it under `figure:`. Imports no torch."""

import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labeldp_bench.reports.figures import kinds
from labeldp_bench.reports.figures.kinds import Kind
from labeldp_bench.support.validate import InputError, check_choice, did_you_mean

COMMON = ("kind", "title", "x", "y", "lines", "panels", "note", "statements")
AXIS = ("key", "label", "symbol", "scale", "log")
STATEMENT = ("says", "where", "check", "panels")


@dataclass(frozen=True)
class Axis:
    """One axis: which key of the cell or field of the record, and how it is written.

    Attributes:
        key: a config key (`eps`, `dataset.num_classes`) or a field of records (`accuracy`).
        label: what stands at the axis.
        symbol: the short name in tables and checks, e.g. `K`.
        scale: what values are multiplied with; 100 for percent.
        log: whether the axis is logarithmic.
    """

    key: str
    label: str
    symbol: str
    scale: float = 1.0
    log: bool = False


ACCURACY = {"key": "accuracy", "label": "test accuracy, %", "symbol": "accuracy", "scale": 100}


@dataclass(frozen=True)
class Spec:
    """A checked `figure:` section.

    Attributes:
        kind: which file of labeldp_bench/reports/figures/kinds draws it.
        title: with `{key}` where a value that all cells share is to stand.
        x, y: the axes.
        lines: the config key that tells lines apart; `method` is mechanism, loss and retraining.
        panels: the config key that tells panels apart; None for a single panel.
        panel_names: {value: title} where a panel's title is not `symbol=value`.
        note: what a reader of the picture must know, such as which lines the paper does not have.
        statements: what the paper's text says of the figure, each {says, where, check, panels}.
        options: keys of the kind.
    """

    kind: str
    title: str
    x: Axis
    y: Axis
    lines: str = "method"
    panels: str | None = None
    panel_names: dict[str, str] = field(default_factory=dict)
    note: str = ""
    statements: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def picture(self) -> Kind:
        """What draws it."""
        return load_kind(self.kind)

    def notes(self, points: pd.DataFrame) -> list[str]:
        """Returns what this kind of picture adds to the page, Markdown; nothing for most."""
        return self.picture.notes(points, self)

    def panel_title(self, panel: str) -> str:
        """Returns what stands above a panel."""
        if self.panels is None:
            return ""
        return self.panel_names.get(panel, f"{self.panels.rsplit('.', 1)[-1]}={panel}")


def read_spec(section: Any) -> Spec:
    """Returns the spec of a `figure:` section.

    Raises:
        InputError: a key that nobody reads, or one that is missing.
    """
    if not isinstance(section, dict):
        raise InputError(f"figure must be a section with kind, title and x, got {section!r}")
    kind = check_choice("figure.kind", section.get("kind", "lines"), kind_names())
    known = (*COMMON, *load_kind(kind).options)
    _refuse_unknown("figure", section, known)
    for key in ("title", "x"):
        if key not in section:
            raise InputError(f"figure.{key} must be given")
    panels = section.get("panels")
    if isinstance(panels, str) or panels is None:
        panels = {"key": panels}
    _refuse_unknown("figure.panels", panels, ("key", "names"))
    statements = tuple(section.get("statements", ()))
    for statement in statements:
        _refuse_unknown("figure.statements", statement, STATEMENT)
        for key in ("says", "where", "check"):
            if key not in statement:
                raise InputError(f"a statement of a figure must have {key}, got {statement!r}")
    return Spec(
        kind=kind,
        title=str(section["title"]),
        x=_axis("x", section["x"]),
        y=_axis("y", section.get("y", ACCURACY)),
        lines=section.get("lines", "method"),
        panels=panels["key"],
        panel_names={text(key): str(name) for key, name in panels.get("names", {}).items()},
        note=section.get("note", ""),
        statements=statements,
        options={key: value for key, value in section.items() if key not in COMMON},
    )


def kind_names() -> list[str]:
    """Returns the names of all kinds: one file each in labeldp_bench/reports/figures/kinds."""
    return sorted(module.name for module in pkgutil.iter_modules(kinds.__path__))


def load_kind(name: str) -> Kind:
    """Returns the kind that a file of labeldp_bench/reports/figures/kinds holds."""
    kind = importlib.import_module(f"{kinds.__name__}.{name}").KIND
    assert isinstance(kind, Kind)
    return kind


def text(value: Any) -> str:
    """Returns a value as panels and titles show it: 1 and 1.0 are both `1`."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def fill_title(title: str, shared: dict[str, Any]) -> str:
    """Returns `title` with each `{key}` replaced; `{key:,}` takes a number format.

    >>> fill_title("k={model.k}, N={dataset.n_train:,}", {"model.k": 5, "dataset.n_train": 10000})
    'k=5, N=10,000'
    """

    def value(match: re.Match[str]) -> str:
        key, _, form = match[1].partition(":")
        if key not in shared:
            raise InputError(f"figure.title names {key}, which is not one value in all cells")
        return format(shared[key], form) if form else text(shared[key])

    return re.sub(r"\{([^{}]+)\}", value, title)


def _axis(name: str, section: Any) -> Axis:
    section = {"key": section} if isinstance(section, str) else section
    _refuse_unknown(f"figure.{name}", section, AXIS)
    last = section["key"].rsplit(".", 1)[-1]
    return Axis(**({"label": last.replace("_", " "), "symbol": last} | section))


def _refuse_unknown(name: str, section: Any, known: tuple[str, ...]) -> None:
    if not isinstance(section, dict):
        raise InputError(f"{name} must be a section with keys, got {section!r}")
    for key in section:
        if key not in known:
            raise InputError(f"{name} has no key {key}{did_you_mean(key, known)}")
