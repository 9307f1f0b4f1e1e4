"""Templates of the pages, and Markdown as HTML for a page that loads nothing from elsewhere."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from markupsafe import Markup

TEMPLATES = Environment(
    loader=PackageLoader("papers.site"),
    autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
KIND_OF_LINE = re.compile(r"(ours|paper|difference)( \(\w+\))?")
"""What the second cell of a row in a paper's table says; the budget, if it is not the paper's."""
MARKED = re.compile(r"[+-][\d.]+\*")
"""A difference from print that the test calls significant."""
WIDE = 45
"""From this many characters on a cell may break into lines."""


class _PageRenderer(RendererHTML):
    """Writes tokens as HTML: tables that scroll, no pictures, no links out of the page.

    Each method takes what `renderToken` takes: all tokens, which one, options, and what one page's
    tokens share.
    """

    def table_open(self, *at: Any) -> str:
        return f'<div class="scroll">{self.renderToken(*at).rstrip()}\n'

    def table_close(self, *at: Any) -> str:
        return f"{self.renderToken(*at).rstrip()}</div>\n"

    def link_open(self, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        env["link_is_kept"] = str(tokens[index].attrGet("href")).startswith("#")
        return self.link_close(tokens, index, options, env)

    def link_close(self, *at: Any) -> str:
        return self.renderToken(*at) if at[-1]["link_is_kept"] else ""

    def image(self, *at: Any) -> str:
        return ""


def _fit_into_page(state: StateCore) -> None:
    """Makes headings smaller; gives rows and cells of tables the classes that page.css knows."""
    for token, following in pairwise([*state.tokens, Token("end", "", 0)]):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{int(token.tag[1]) + 1}"
        elif token.type == "tr_open":
            row, place = token, 0
        elif token.type == "td_open":
            place, text = place + 1, following.content
            if place == 2 and (kind := KIND_OF_LINE.fullmatch(text)):
                row.attrSet("class", "quick" if kind[2] else kind[1])
            if MARKED.fullmatch(text):
                token.attrSet("class", "marked")
            elif len(text) >= WIDE:
                token.attrSet("class", "wide")


# Markdown of records and notes may hold what looks like HTML: it is text.
MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_PageRenderer).enable("table")
MARKDOWN.core.ruler.push("fit_into_page", _fit_into_page)


def html_of(markdown: str) -> Markup:
    """Returns Markdown as HTML; its first line, the title, is left out."""
    return Markup(MARKDOWN.render(markdown.partition("\n")[2]))
