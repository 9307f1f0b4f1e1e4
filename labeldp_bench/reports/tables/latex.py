"""Tables as LaTeX."""

import re
from collections.abc import Iterable, Mapping, Sequence

ESCAPES = str.maketrans(
    {special: f"\\{special}" for special in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}", "±": r"$\pm$",
       "≤": r"$\leq$", "≥": r"$\geq$", "†": r"$\dagger$", "<": "$<$", ">": "$>$"}
)  # fmt: skip
"""What LaTeX writes otherwise."""


def latex_table(
    alignment: str, head: Sequence[str], blocks: Iterable[Iterable[Sequence[str]]]
) -> str:
    """Returns a booktabs table; all texts are LaTeX already.

    Args:
        alignment: a letter per column, e.g. `lrr`.
        head: a text per column.
        blocks: rows of texts, with a rule above each block.
    """
    lines = [f"\\begin{{tabular}}{{{alignment}}}", "\\toprule", _row(head)]
    for block in blocks:
        lines += ["\\midrule", *map(_row, block)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def latex_notes(paragraphs: Iterable[str]) -> str:
    """Returns Markdown paragraphs as small print, for what stands under a table."""
    written = []
    for text in paragraphs:
        plain = text.replace("`", "").removeprefix("- ").replace("\n- ", "\n")
        words = re.sub(r"\*([^*\s]+)\*", r"\1", plain)
        written.append(escaped(words).replace("\n", "\\par\n"))
    return "\n\\par\\smallskip\n{\\footnotesize " + "\\par\n".join(written) + "\\par}\n"


def spanning(text: str, columns: int) -> list[str]:
    """Returns a row with one text over all columns."""
    return [f"\\multicolumn{{{columns}}}{{l}}{{{text}}}"]


def escaped(text: str) -> str:
    r"""Returns plain text as LaTeX.

    >>> print(escaped("50 % of eps_1"))
    50 \% of eps\_1
    """
    return text.translate(ESCAPES)


def replaced(text: str, written: Mapping[str, str]) -> str:
    """Returns a text with each key replaced by its value, in their order."""
    for plain, latex in written.items():
        text = text.replace(plain, latex)
    return text


def _row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + " \\\\"
