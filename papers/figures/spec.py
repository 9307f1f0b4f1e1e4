"""What a figure shows: the section `figure:` of its experiment. Imports no torch."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar

from labeldp.support.validate import InputError, did_you_mean
from labeldp_bench.reports.figures.plotting import Axis

Section = TypeVar("Section")


ACCURACY = Axis("accuracy", "test accuracy, %", "accuracy", scale=100)


@dataclass(frozen=True)
class Panels:
    """What tells panels apart.

    Attributes:
        key: a config key; None for a single panel.
        names: {value: title} where a panel's title is not `symbol=value`.
    """

    key: str | None = None
    names: Mapping[Any, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """What the paper's text says of the figure.

    Attributes:
        says: the statement, in our words.
        where: the place in the paper.
        check: one line that `statements.check` reads.
        panels: those that the check is for; None for all.
    """

    says: str
    where: str
    check: str
    panels: Sequence[Any] | None = None


@dataclass(frozen=True)
class Spec:
    """A checked `figure:` section.

    Attributes:
        title: with `{key}` where a value that all cells share is to stand.
        x, y: the axes.
        kind: which file of papers/figures/kinds draws it.
        lines: the config key that tells lines apart; `method` is mechanism, loss and retraining,
            `method+model` the model too.
        panels: what tells panels apart.
        note: what a reader of the picture must know, such as which lines the paper does not have.
        statements: what the paper's text says of the figure.
        options: keys that only this kind reads.
    """

    title: str
    x: Axis
    y: Axis = ACCURACY
    kind: str = "lines"
    lines: str = "method"
    panels: Panels = field(default_factory=Panels)
    note: str = ""
    statements: Sequence[Statement] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def panel_title(self, panel: str) -> str:
        """Returns what stands above a panel."""
        if self.panels.key is None:
            return ""
        names = {text(value): str(name) for value, name in self.panels.names.items()}
        return names.get(panel, f"{self.panels.key.rsplit('.', 1)[-1]}={panel}")


def read_spec(section: Any, options_of: Callable[[str], Sequence[str]]) -> Spec:
    """Returns the spec of a `figure:` section.

    Args:
        section: as the YAML has it.
        options_of: returns the keys that a kind reads beside the common ones.

    Raises:
        InputError: a key that nobody reads, or one that is missing.
    """
    options = options_of(section.get("kind", Spec.kind)) if isinstance(section, dict) else ()
    _check(Spec, "figure", section, options)
    panels = section.get("panels")
    read = {
        "x": _axis("figure.x", section["x"]),
        "y": _axis("figure.y", section["y"]) if "y" in section else ACCURACY,
        "panels": _made(
            Panels, "figure.panels", panels if isinstance(panels, dict) else {"key": panels}
        ),
        "statements": [
            _made(Statement, "a statement of a figure", statement)
            for statement in section.get("statements", ())
        ],
        "options": {key: value for key, value in section.items() if key in options},
    }
    return Spec(**{key: value for key, value in section.items() if key not in options} | read)


def text(value: object) -> str:
    """Returns a value as panels and titles show it: 1 and 1.0 are both `1`."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def fill_title(title: str, shared: Mapping[str, object]) -> str:
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
    axis = _made(Axis, name, {"key": section} if isinstance(section, str) else section)
    last = axis.key.rpartition(".")[2]
    label, symbol = axis.label or last.replace("_", " "), axis.symbol or last
    return replace(axis, label=label, symbol=symbol)


def _made(kind: type[Section], name: str, section: Any) -> Section:
    _check(kind, name, section)
    return kind(**section)


def _check(kind: type[Any], name: str, section: Any, options: Sequence[str] = ()) -> None:
    """Refuses a section that has other keys than `kind` has fields, or too few."""
    if not isinstance(section, dict):
        raise InputError(f"{name} must be a section with keys, got {section!r}")
    known = [*(each.name for each in fields(kind) if each.name != "options"), *options]
    for key in section:
        if key not in known:
            raise InputError(f"{name} has no key {key}{did_you_mean(key, known)}")
    for each in fields(kind):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        if not has_default and each.name not in section:
            raise InputError(f"{name} must have {each.name}, got {section!r}")
