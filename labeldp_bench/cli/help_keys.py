"""The keys of a config: value, meaning, and what its YAML remarks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import MISSING

from labeldp_bench.cli.help_configs import file_of, first_sentence, remarks
from labeldp_bench.cli.help_source import PACKAGE, meaning, paragraphs, read_class
from labeldp_bench.experiments.compose import CHOICES

SCALARS = "labeldp_bench.experiments.compose.RunConfig"
NOT_FOR_USERS = ("cells", "table", "figure", "job")
SOURCES = re.compile(r"paper|stated|ours|code|Table", re.IGNORECASE)
"""Words of remarks that say where a value comes from; others repeat the meaning."""
LOSSES = PACKAGE.parent / "labeldp" / "losses.py"


@dataclass(frozen=True)
class Key:
    """One key of the command line.

    Attributes:
        name: dotted.
        value: its default, as text.
        meaning: one line; empty where nothing says it.
        remark: what stands beside it in the YAML, such as its source.
    """

    name: str
    value: str
    meaning: str
    remark: str = ""

    @property
    def text(self) -> str:
        """The meaning and the remark, in full."""
        return self._with_remark(self.meaning)

    @property
    def line(self) -> str:
        """The first sentence of the meaning, and the remark."""
        return self._with_remark(first_sentence(self.meaning))

    def _with_remark(self, text: str) -> str:
        told = self.remark and (not text or SOURCES.search(self.remark))
        return f"{text} [{self.remark}]".strip() if told else text


def scalar_keys(config: dict[str, object]) -> list[Key]:
    """Returns the keys that belong to no group."""
    kind = read_class(SCALARS)
    return [
        Key(name, _spelled(value), meaning(kind, name))
        for name, value in config.items()
        if name not in (*CHOICES, *NOT_FOR_USERS)
    ]


def group_keys(group: str, config: dict[str, object], remarked: dict[str, str]) -> list[Key]:
    """Returns the keys of one group of a composed config.

    Args:
        group: its name.
        config: composed, unresolved.
        remarked: {dotted key: remark}.
    """
    node = config.get(group)
    if not isinstance(node, dict):
        return []
    return [
        Key(key.name, key.value, key.meaning, remarked.get(key.name, ""))
        for key in _keys(group, node)
        # model.trainer and pretrain.trainer show as trainer's.
        if key.value != "${trainer}"
    ]


def remarks_of(choices: dict[str, str], own: str | None) -> dict[str, str]:
    """Returns {dotted key: remark} of the files that were chosen; a mechanism's have the last say.

    Args:
        choices: {group: choice}.
        own: a folder of the user's own configs.
    """
    found: dict[str, str] = {}
    for group in ("dataset", "model", "learner", "trainer", "pretrain", "mechanism"):
        if choices.get(group) in (None, "None", "null"):
            continue
        path = file_of(group, choices[group], own)
        said = remarks(path)
        prefix = "" if group == "mechanism" else f"{group}."
        found |= {f"{prefix}{key}": text for key, text in said.items()}
    return found


def losses() -> dict[str, str]:
    """Returns {name: one line} of the losses that `learner.loss` takes."""
    text = LOSSES.read_text(encoding="utf-8")
    found = {}
    for name in re.findall(r"^class (\w+)\(", text, re.MULTILINE):
        kind = read_class(f"labeldp.losses.{name}")
        if called := vars(kind).get("name"):
            found[called] = first_sentence((paragraphs(kind) or [""])[0])
    return found


def _keys(prefix: str, node: dict[str, object]) -> Iterator[Key]:
    target = str(node.get("_target_", ""))
    kind = read_class(target) if target else None
    for name, value in node.items():
        if name.startswith("_"):
            continue
        text = meaning(kind, name) or (EPS if name == "eps" else "")
        key = f"{prefix}.{name}"
        if isinstance(value, dict) and "_target_" in value:
            yield Key(key, _class_name(value), text)
            yield from _keys(key, value)
        else:
            yield Key(key, _spelled(value), text)


EPS = "the budget of one release; follows eps"


def _class_name(node: dict[str, object]) -> str:
    return str(node["_target_"]).rpartition(".")[2]


def _spelled(value: object) -> str:
    if isinstance(value, dict) and "_target_" in value:
        own = [f"{key}={_spelled(each)}" for key, each in value.items() if key[0] != "_"]
        return _class_name(value) + (f"({', '.join(own)})" if own else "")
    if isinstance(value, list):
        return f"[{', '.join(_spelled(each) for each in value)}]"
    if value == MISSING:
        return "must be given"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
