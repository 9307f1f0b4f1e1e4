"""What the YAML files document: their headers, and the comments beside values."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from omegaconf import OmegaConf

from labeldp.support.validate import InputError, check_choice
from labeldp_bench.experiments.compose import CHOICES, unknown_experiment, use_configs
from labeldp_bench.support.checkout import CONFIGS

FIRST_SENTENCE = re.compile(r"(?<!\bal)\.\s+(?=[A-Z0-9\"“]|$)|\.$")


@cache
def choices_of(group: str, own: str | None = None) -> dict[str, Path]:
    """Returns {choice: its file} of a group, those of the folder `own` among them."""
    found: dict[str, Path] = {}
    for root in (CONFIGS, *([Path(own)] if own else [])):
        files = (root / group).rglob("*.yaml")
        found |= {file.relative_to(root / group).with_suffix("").as_posix(): file for file in files}
    return dict(sorted(found.items()))


def file_of(group: str, name: str, own: str | None = None) -> Path:
    """Returns the file of a choice; an unknown one is refused with the nearest known."""
    known = choices_of(group, own)
    if group == "experiment" and name not in known:
        raise unknown_experiment(name, known)
    return known[check_choice(group, name, known)]


@cache
def header(path: Path) -> str:
    """Returns the comment at the top of a file, on one line."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith(("# @package", "# Example:")):
            lines.append(line.lstrip("# "))
    return " ".join(lines)


def first_sentence(text: str) -> str:
    """Returns the text up to its first full stop.

    >>> first_sentence("RR (Ghazi et al. 2021), K-ary. Then training.")
    'RR (Ghazi et al. 2021), K-ary'
    """
    return FIRST_SENTENCE.split(text, maxsplit=1)[0]


@cache
def group_meanings() -> dict[str, str]:
    """Returns {group: one line}: the comments of config.yaml's list of defaults."""
    text = (CONFIGS / "config.yaml").read_text(encoding="utf-8")
    found = dict(re.findall(r"^  - (\w+): \w+ +# (.*)$", text, re.MULTILINE))
    return {group: found.get(group, "") for group in CHOICES}


@cache
def remarks(path: Path) -> dict[str, str]:
    """Returns {dotted key: the comment at the end of its line} of a file."""
    found: dict[str, str] = {}
    for below in _starts_from(path):
        found |= remarks(below)
    above: list[tuple[int, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"( *)(\w+):(?: [^#]*)?(?:# (.*))?$", line)
        if not match:
            continue
        indent, key, comment = len(match[1]), match[2], match[3]
        above = [each for each in above if each[0] < indent]
        if comment:
            found[".".join([*(name for _, name in above), key])] = comment
        above.append((indent, key))
    return found


@cache
def brings(path: Path) -> dict[str, str]:
    """Returns {group: choice} that a file overrides, those of the files that it starts from too."""
    found: dict[str, str] = {}
    for below in _starts_from(path):
        found |= brings(below)
    for entry in _defaults(path):
        for key, name in entry.items() if isinstance(entry, dict) else ():
            match = re.match(r"override /(\w+)", str(key))
            found |= {match[1]: str(name)} if match else {}
    return found


def target_of(path: Path, key: str) -> str:
    """Returns the `_target_` of a node of a file or of one that it starts from; '' without one.

    Args:
        path: of the file.
        key: of the node; '' for the whole file.
    """
    name = f"{key}._target_" if key else "_target_"
    target = OmegaConf.select(OmegaConf.load(path), name)
    below = [target_of(other, key) for other in _starts_from(path)]
    return str(target) if target else next(filter(None, below), "")


@cache
def _defaults(path: Path) -> list[Any]:
    # Unresolved: an entry such as `/encoder: ${encoder}` refers to what only a run composes.
    node = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    return list(node.get("defaults") or []) if isinstance(node, dict) else []


def _starts_from(path: Path) -> list[Path]:
    """Returns the files of the same folder that a file's list of defaults names."""
    names = [entry for entry in _defaults(path) if isinstance(entry, str)]
    return [file for name in names if (file := path.with_name(f"{name}.yaml")).is_file()]


def composed(overrides: list[str], own: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the config of these choices as plain containers, unresolved, and all choices."""
    use_configs()
    path = [f"hydra.searchpath=[file://{Path(own).resolve()}]"] if own else []
    config = hydra.compose("config", [*path, *overrides], return_hydra_config=True)
    choices = {str(key): str(name) for key, name in config.hydra.runtime.choices.items()}
    shown = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    plain = OmegaConf.to_container(shown, resolve=False)
    if not isinstance(plain, dict):
        raise InputError("the config must be a mapping")
    return {str(key): value for key, value in plain.items()}, choices
