"""A Markdown page of tables as LaTeX: the same captions, numbers and notes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from labeldp_bench.reports.tables.latex import escaped, latex_table


class _Table(NamedTuple):
    """A letter per column, and rows of texts, the head first."""

    alignment: str
    rows: list[list[str]]


def latex_of_markdown(text: str) -> str:
    r"""Returns a page as LaTeX: each table with the paragraph above it as caption, notes as text.

    >>> print(latex_of_markdown("K=10: in percent\n\n| a_1 | eps |\n|:--|--:|\n| RR | 5 ± 1 |"))
    % \usepackage{booktabs}
    <BLANKLINE>
    \begin{table}
    \centering
    \caption{K=10: in percent}
    \begin{tabular}{lr}
    \toprule
    a\_1 & eps \\
    \midrule
    RR & 5 $\pm$ 1 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    parts = [r"% \usepackage{booktabs}"]
    caption = ""
    for block in _blocks(MarkdownIt("commonmark").enable("table").parse(text)):
        if isinstance(block, str):
            parts += [caption] if caption else []
            caption = escaped(block)
            continue
        inside = latex_table(block.alignment, block.rows[0], [block.rows[1:]]).rstrip()
        said = [f"\\caption{{{caption}}}"] if caption else []
        lines = [r"\begin{table}", r"\centering", *said, inside, r"\end{table}"]
        parts.append("\n".join(lines))
        caption = ""
    return "\n\n".join([*parts, *([caption] if caption else [])]) + "\n"


def _blocks(tokens: Sequence[Token]) -> Iterator[str | _Table]:
    """Yields paragraphs and tables in their order."""
    rows: list[list[str]] = []
    alignment, in_table = "", False
    for place, token in enumerate(tokens):
        if token.type == "table_open":
            rows, alignment, in_table = [], "", True
        elif token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(escaped(tokens[place + 1].content))
            if token.type == "th_open":
                alignment += "r" if "right" in str(token.attrGet("style")) else "l"
        elif token.type == "table_close":
            in_table = False
            yield _Table(alignment, rows)
        elif token.type == "inline" and not in_table:
            yield token.content
