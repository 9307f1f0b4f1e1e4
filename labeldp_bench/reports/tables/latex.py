"""Tables as LaTeX."""

from collections.abc import Iterable, Mapping, Sequence


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


def spanning(text: str, columns: int) -> list[str]:
    """Returns a row with one text over all columns."""
    return [f"\\multicolumn{{{columns}}}{{l}}{{{text}}}"]


def replaced(text: str, written: Mapping[str, str]) -> str:
    """Returns a text with each key replaced by its value, in their order."""
    for plain, latex in written.items():
        text = text.replace(plain, latex)
    return text


def _row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + " \\\\"
