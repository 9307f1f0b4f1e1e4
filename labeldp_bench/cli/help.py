"""`--help`: the files in configs/ as they are, with the docstrings of the classes they name."""

import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from hydra.utils import get_object

from labeldp.support.validate import InputError, check_choice, did_you_mean
from labeldp_bench.cli.arguments import hydra_options
from labeldp_bench.experiments.compose import (
    CHOICES,
    RunConfig,
    choices_of,
    start,
    unknown_experiment,
)
from labeldp_bench.support.checkout import CONFIGS

ASKED = {"--help", "-h"}
USAGE = """\
Makes labels noisy, trains on them, and records how good the model is. What to run is written as
group=choice and key=value; whatever is left out keeps its default. One run writes one record:

  python -m labeldp_bench mechanism=rappor dataset=mnist eps=1

With -m a key may have several values, and all combinations run. An experiment is all runs behind a
published table or figure. Runs that are done already are skipped:

  python -m labeldp_bench -m mechanism=rr,rappor eps=0.5,1,2 seed=0,1
  python -m labeldp_bench experiment=vector_approximation/table1a budget=quick

More help:

  python -m labeldp_bench --help mechanism           one group: its choices
  python -m labeldp_bench --help mechanism=rappor    one choice: its YAML, with all its keys
  python -m labeldp_bench --help eps                 one key

The keys in a choice's YAML are set as group.key=value, such as model.k=100. In the YAML of a
mechanism the groups stand above their keys: mechanism.keep, learner.loss.

Another command:

  labeldp --help                                     plan, release and learn from your own labels"""


def help_text(arguments: list[str]) -> str:
    """Returns the help that a command line asks for.

    Args:
        arguments: of the command line: `--help` and groups, group=choice, keys, or nothing.

    Raises:
        InputError: something is neither of them; the message names those there are.
    """
    options, _ = hydra_options([text for text in arguments if text not in ASKED])
    if options.config_dir is not None:
        start(options.config_dir)
    meanings, keys = group_meanings(), scalar_keys()
    pages = []
    for word in options.overrides:
        name, _, values = word.lstrip("+~").partition("=")
        if name in CHOICES and values:
            pages += [_choice_page(name, value) for value in values.split(",")]
        elif name in CHOICES:
            pages.append(_group_page(name, meanings[name]))
        elif name in keys:
            pages.append(_lines([(name, keys[name])]))
        else:
            raise InputError(
                f"nothing is called {name!r}{did_you_mean(name, [*CHOICES, *keys])}: --help takes "
                f"a group ({', '.join(CHOICES)}), group=choice, or a key ({', '.join(keys)})"
            )
    if not pages:
        groups = [_group_page(group, text) for group, text in meanings.items()]
        pages = [USAGE, "Groups: group=choice", *groups, "Keys: key=value", _lines(keys.items())]
    return "\n\n".join(pages)


def file_of(group: str, name: str) -> Path:
    """Returns the file of a choice; an unknown one is refused with the nearest known."""
    known = choices_of(group)
    if group == "experiment" and name not in known:
        raise unknown_experiment(name, known)
    return known[check_choice(group, name, known)]


def first_sentence(path: Path) -> str:
    """Returns the first sentence of the comment at the top of a YAML; '' without a comment."""
    text = path.read_text(encoding="utf-8")
    comment = re.match(r"(?:# @package.*\n)?((?:#.*\n)*)", text)
    lines = comment[1].splitlines() if comment else []
    text = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# Example:"))
    return re.split(r"(?<!\bal)\.\s+(?=[A-Z0-9\"“])|\.$", text, maxsplit=1)[0]


def group_meanings() -> dict[str, str]:
    """Returns {group: one line}: the comments in config.yaml's list of defaults."""
    text = (CONFIGS / "config.yaml").read_text(encoding="utf-8")
    found = dict(re.findall(r"^  - (\w+): \w+ +# (.*)$", text, re.MULTILINE))
    return {group: found.get(group, "") for group in CHOICES}


@cache
def scalar_keys() -> dict[str, str]:
    """Returns {key: what it is, and its default} of the keys that belong to no group."""
    doc = inspect.getdoc(RunConfig) or ""
    found = {}
    for name, text in re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", doc, re.MULTILINE):
        default = json.dumps(RunConfig.__dataclass_fields__[name].default).strip('"')
        found[name] = f"{' '.join(text.split())} Default: {default}"
    return found


def _group_page(group: str, meaning: str) -> str:
    rows = [(name, first_sentence(path)) for name, path in choices_of(group).items()]
    return f"{group}: {meaning}\n\n{_lines(rows)}"


def _choice_page(group: str, name: str) -> str:
    """Returns the YAML of a choice and the docstrings of the project's classes that it names."""
    yaml = file_of(group, name).read_text(encoding="utf-8")
    targets = dict.fromkeys(re.findall(r"^[^#\n]*_target_: ([\w.]+)", yaml, re.MULTILINE))
    docs = [_docstring(target) for target in targets if not target.startswith("torch.")]
    return "\n\n".join([f"{group}={name}", yaml.rstrip("\n"), *docs])


def _docstring(target: str) -> str:
    try:
        text = inspect.getdoc(get_object(target)) or ""
    except ImportError:
        text = "nothing of this name can be imported"
    return f"{target}\n\n{textwrap.indent(text, '  ')}"


def _lines(rows: Iterable[tuple[str, str]]) -> str:
    """Returns name and text in two columns; a long text wraps."""
    rows = list(rows)
    indent = max((len(name) for name, _ in rows), default=0) + 4
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapper.fill(f"{f'  {name}':<{indent}}{text}") for name, text in rows)
