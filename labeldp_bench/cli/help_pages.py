"""The pages of `--help`: everything, one group, one choice, one key."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from omegaconf import OmegaConf

from labeldp.support.validate import InputError, did_you_mean
from labeldp_bench.cli.help_configs import (
    brings,
    choices_of,
    composed,
    file_of,
    first_sentence,
    group_meanings,
    header,
)
from labeldp_bench.cli.help_examples import example
from labeldp_bench.cli.help_keys import Key, group_keys, losses, remarks_of, scalar_keys
from labeldp_bench.cli.help_mechanisms import (
    claim,
    delta_of,
    guarantee,
    guarantee_in_words,
    kind_of_release,
    learner_class,
    mechanism_class,
)
from labeldp_bench.cli.help_source import paragraphs, read_class, source_of
from labeldp_bench.experiments.compose import CHOICES
from labeldp_bench.experiments.grid import as_override, expand
from labeldp_bench.reports.naming import counted

USAGE = """\
Makes labels noisy, trains on them, and records how good the model is. What to run is written as
group=choice and key=value; whatever is left out keeps its default. One run writes one record:

  python -m labeldp_bench mechanism=rappor dataset=mnist eps=1

With -m a key may have several values, and all combinations run. An experiment is all runs behind a
published table or figure. Runs that are done already are skipped:

  python -m labeldp_bench -m mechanism=rr,rappor eps=0.5,1,2 seed=0,1
  python -m labeldp_bench experiment=vector_approximation/table1a budget=quick

More help:

  python -m labeldp_bench --help mechanism           each choice: what it releases, its guarantee
  python -m labeldp_bench --help mechanism=rappor    one choice: source, keys, an example
  python -m labeldp_bench --help trainer.epochs      one key
  python -m labeldp_bench --help dataset=mnist mechanism=lp_2st    all keys of such a run

Other commands:

  python -m labeldp_bench submit-check FILE          what a record.json lacks for the leaderboard
  labeldp --help                                     plan, release and learn from your own labels"""
GUARANTEES = """\
Guarantee: pure eps-DP if one label is replaced, or (eps, delta)-DP where a delta is given. local:
each label is randomised alone. central: a curator sees labels. learner=held_out_prior and
learner=cluster_prior make any mechanism central: a curator counts labels for the prior."""
OF_A_RUN = ("dataset", "mechanism", "learner", "model", "trainer", "pretrain")


def whole_page(own: str | None) -> str:
    """Returns every group, every choice and every key of the bare command, one line each."""
    parts = [USAGE, "Groups: group=choice"]
    for group, text in group_meanings().items():
        parts += [f"{group}: {text}", _choice_lines(group, own)]
    config, choices = composed([], own)
    parts += ["Keys and their defaults: key=value", _table(scalar_keys(config))]
    keys = _run_keys(config, choices, OF_A_RUN, own)
    parts += ["Keys of the choices that are taken where none is named", keys]
    parts += ["Values of learner.loss", _columns(losses())]
    return "\n\n".join(parts)


def group_page(group: str, own: str | None) -> str:
    """Returns one group: its meaning and a line for each choice."""
    parts = [f"{group}: {group_meanings()[group]}"]
    if group == "mechanism":
        rows = []
        for name, path in choices_of(group, own).items():
            kind = mechanism_class(path)
            promise = guarantee(kind, learner_class(path))
            rows.append((name, kind_of_release(kind), promise, _with_source(path, kind)))
        parts.append(_wrapped(GUARANTEES, ""))
        parts.append(_grid(("name", "releases", "guarantee", "what it is"), rows))
    else:
        parts.append(_choice_lines(group, own))
    name = {"mechanism": "rappor"}.get(group) or list(choices_of(group, own))[-1]
    return "\n\n".join([*parts, f"In detail: python -m labeldp_bench --help {group}={name}"])


def choice_page(group: str, name: str, overrides: list[str], own: str | None) -> str:
    """Returns one choice: what it is, its source, its keys and an example.

    Args:
        group: of the choice.
        name: of the choice.
        overrides: what else is chosen, such as `dataset=mnist`.
        own: a folder of the user's own configs.
    """
    path = file_of(group, name, own)
    parts = [f"{group}={name}", _wrapped(header(path))]
    if group in OF_A_RUN:
        config, choices = composed([*overrides, f"{group}={name}"], own)
        parts += _of_class(group, config)
        brought = " ".join(f"{key}={choice}" for key, choice in brings(path).items())
        parts += [f"  brings     {brought}"] if brought else []
        shown = tuple(each for each in OF_A_RUN if each == group or each in brings(path))
        shown += ("learner",) if group == "mechanism" and "learner" not in shown else ()
        keys = _run_keys(config, choices, shown, own)
        parts += ["Keys and their defaults", keys] if keys else ["No keys."]
    else:
        parts += _cells(group, path)
    return "\n\n".join(
        [*parts, f"Example\n\n  python -m labeldp_bench {example(group, name, own)}"]
    )


def key_page(name: str, overrides: list[str], own: str | None) -> str:
    """Returns one key, or all below it.

    Raises:
        InputError: there is no such key.
    """
    config, choices = composed(overrides, own)
    keys = [*scalar_keys(config)]
    remarked = remarks_of(choices, own)
    for group in OF_A_RUN:
        keys += group_keys(group, config, remarked)
    found = [key for key in keys if key.name == name or key.name.startswith(f"{name}.")]
    if not found:
        known = [*CHOICES, *(key.name for key in keys)]
        known += [choice for group in CHOICES for choice in choices_of(group, own)]
        made = " ".join(f"{group}={choices[group]}" for group in OF_A_RUN if group in choices)
        raise InputError(
            f"nothing is called {name!r}{did_you_mean(name, known)}: --help takes a group "
            f"({', '.join(CHOICES)}), group=choice, or a key of {made} (others have other keys)"
        )
    page = _table(found, in_full=True)
    return f"{page}\n\n{_columns(losses())}" if name == "learner.loss" else page


def _of_class(group: str, config: dict[str, object]) -> list[str]:
    node = config.get(group)
    target = str(node.get("_target_", "")) if isinstance(node, dict) else ""
    kind = read_class(target) if target else None
    network = node.get("network") if isinstance(node, dict) and group == "model" else None
    if isinstance(network, dict) and target.endswith(".NetworkModel"):
        kind = read_class(str(network["_target_"]))
    rows: list[tuple[str, str]] = []
    own = [text for text in paragraphs(kind) if not text.startswith(("Args:", "Attributes:"))]
    if group == "mechanism":
        rows += [("releases", f"{kind_of_release(kind)}. {own[0] if own else ''}")]
        rows += [("guarantee", f"{_guarantee(kind, config)}. {claim(kind)}")]
    elif own and group != "trainer":
        rows += [("does", own[0])]
    rows += [("source", source_of(kind))] if source_of(kind) else []
    return ["\n".join(_wrapped(text, f"  {what:<11}") for what, text in rows)] if rows else []


def _guarantee(kind: type | None, config: Mapping[str, object]) -> str:
    """Returns the guarantee of a mechanism as this run has it: with its learner and its delta."""
    learner, mechanism = (config.get(group) for group in ("learner", "mechanism"))
    target = learner.get("_target_", "") if isinstance(learner, dict) else ""
    delta = mechanism.get("delta", delta_of(kind)) if isinstance(mechanism, dict) else 0.0
    return guarantee_in_words(kind, read_class(str(target)), float(delta))


def _cells(group: str, path: Path) -> list[str]:
    """Returns what a sweep, an experiment, a budget or a setting of stages holds."""
    node = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(node, dict):
        return []
    if group == "stages":
        keys = [("learner." + str(key), str(value)) for key, value in node.items()]
        return [_grid(("sets", "to"), keys)]
    if group == "budget":
        rules = []
        for rule in node.get("rules") or []:
            changes = [f"{key}={value}" for key, value in (rule.get("set") or {}).items()]
            changes += [f"{key}<={value}" for key, value in (rule.get("at_most") or {}).items()]
            when = [f"{key} {', '.join(names)}" for key, names in (rule.get("when") or {}).items()]
            rules.append((" and ".join(when) or "every cell", ", ".join(changes)))
        return [_grid(("where", "changes"), rules)] if rules else ["Changes nothing."]
    blocks = node.get("cells")
    if not blocks:
        return ["Computed from formulas, without runs."]
    lines = [f"{counted([len(expand(blocks, {}))], 'cell')}:"]
    for block in blocks:
        own = [as_override(key, value) for key, value in (block.get("set") or {}).items()]
        own += [
            f"{key}={','.join(map(str, values))}"
            for key, values in (block.get("grid") or {}).items()
        ]
        lines.append(_wrapped(" ".join(own), "  - "))
    return ["\n".join(lines)]


def _run_keys(
    config: dict[str, object], choices: dict[str, str], groups: Iterable[str], own: str | None
) -> str:
    remarked = remarks_of(choices, own)
    keys = [key for group in groups for key in group_keys(group, config, remarked)]
    return _table(keys)


def _with_source(path: Path, kind: type | None) -> str:
    """Returns the first sentence of a header, with the class's first source where it names none."""
    text = first_sentence(header(path))
    if re.search(r"\b(19|20)\d\d\b|\(ours\)", text):
        return text
    source = source_of(kind).partition(")")[0]
    return f"{text} ({source.replace(' (', ' ')})" if "(" in source else text


def _choice_lines(group: str, own: str | None) -> str:
    return _columns(
        {name: first_sentence(header(path)) for name, path in choices_of(group, own).items()}
    )


def _width() -> int:
    return max(60, min(120, shutil.get_terminal_size((110, 24)).columns))


def _wrapped(text: str, start: str = "  ") -> str:
    """Returns a text in lines; `start` stands before the first, blanks before the others."""
    return textwrap.fill(
        text, _width(), initial_indent=start, subsequent_indent=" " * len(start),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _columns(rows: dict[str, str]) -> str:
    """Returns name and text, a line each."""
    wide = max(map(len, rows), default=0)
    return "\n".join(_wrapped(text, f"  {name:<{wide}}  ") for name, text in rows.items())


def _grid(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns columns below their heads; the last one wraps."""
    every = [heads, *rows]
    wide = [max(len(row[place]) for row in every) for place in range(len(heads) - 1)]
    lines = []
    for *first, last in every:
        start = "".join(f"{text:<{size}}  " for text, size in zip(first, wide, strict=True))
        lines.append(_wrapped(last, f"  {start}"))
    return "\n".join(lines)


def _table(keys: list[Key], in_full: bool = False) -> str:
    """Returns keys, defaults and meanings; a long default stands alone on its line."""
    wide = max((len(key.name) for key in keys), default=0)
    values = max((len(key.value) for key in keys if len(key.value) <= 24), default=0)
    lines = []
    for key in keys:
        start = f"  {key.name:<{wide}}  {key.value:<{values}}  "
        if len(key.value) > values:
            lines.append(_wrapped(key.value, f"  {key.name:<{wide}}  "))
            start = " " * (wide + values + 6)
        text = key.text if in_full else key.line
        lines.append(_wrapped(text, start) if text else start.rstrip())
    return "\n".join(lines)
