"""`--help`: names with their meaning, read from YAML files and docstrings; imports no torch."""

from hydra._internal.utils import get_args_parser

from labeldp.support.validate import InputError
from labeldp_bench.cli.help_configs import choices_of
from labeldp_bench.cli.help_pages import choice_page, group_page, key_page, whole_page
from labeldp_bench.experiments.compose import CHOICE, CHOICES

ASKED = {"--help", "-h"}


def wants_help(arguments: list[str]) -> bool:
    """Returns whether a command line asks for help."""
    return bool(ASKED & {*arguments})


def help_text(arguments: list[str]) -> str:
    """Returns the help that a command line asks for.

    Args:
        arguments: of the command line: `--help` and groups, group=choice, keys, or nothing.

    Raises:
        InputError: something is neither of them; the message names the nearest.
    """
    options, _ = get_args_parser().parse_known_args([a for a in arguments if a not in ASKED])
    own = options.config_dir
    words = [word for word in options.overrides if word not in ("", own)]
    chosen = [word for word in words if CHOICE.match(word) and word.partition("=")[2]]
    if not words:
        return whole_page(own)
    pages = []
    for word in words:
        name, _, values = word.lstrip("+~").partition("=")
        if name in CHOICES and values:
            others = [text for text in chosen if text != word and "," not in text]
            pages += [choice_page(name, value, others, own) for value in values.split(",")]
        elif name in CHOICES:
            pages.append(group_page(name, own))
        else:
            pages.append(_page_of_word(name, [text for text in chosen if "," not in text], own))
    return "\n\n\n".join(pages)


def _page_of_word(name: str, chosen: list[str], own: str | None) -> str:
    """Returns the page of a key, or of all choices that are called so."""
    found = [group for group in CHOICES if name in choices_of(group, own)]
    if not found:
        return key_page(name, chosen, own)
    try:
        pages = [key_page(name, chosen, own)]
    except InputError:
        pages = []
    return "\n\n\n".join([*pages, *(choice_page(group, name, [], own) for group in found)])
