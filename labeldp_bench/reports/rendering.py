"""Numbers as texts, and tables in Markdown. Imports no torch."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pandas as pd

Part: TypeAlias = str | pd.DataFrame
"""A paragraph of Markdown, or a frame of texts that is shown without its index."""
LATEX = str.maketrans(
    {special: f"\\{special}" for special in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}", "±": r"$\pm$"}
    | {"≤": r"$\leq$", "≥": r"$\geq$", "†": r"$\dagger$", "√": r"$\surd$", "<": "$<$", ">": "$>$"}
)
"""What LaTeX writes otherwise."""


def number_text(value: float | None, form: str, unknown: str = "-") -> str:
    """Returns a number in a form such as `{:.1f} %`; `unknown` where it is missing.

    >>> number_text(0.0572, "{:.2g}"), number_text(math.nan, "{:.2g}")
    ('0.057', '-')
    """
    return unknown if pd.isna(value) else form.format(value)


def markdown_table(
    rows: pd.DataFrame | Iterable[object],
    columns: Sequence[str] | None = None,
    name: str | None = None,
) -> str:
    """Returns rows of texts as a Markdown table.

    Args:
        rows: a frame, or what one is made of.
        columns: names of the columns, where `rows` has none.
        name: heading of the index; without it the table has no index column.
    """
    frame = pd.DataFrame(rows, columns=columns)
    if name is not None:
        frame = frame.rename_axis(name)
    return str(frame.to_markdown(index=name is not None, disable_numparse=True))


def markdown_of(parts: Iterable[Part]) -> str:
    """Returns paragraphs and tables as Markdown; empty paragraphs are left out."""
    texts = [part if isinstance(part, str) else markdown_table(part) for part in parts]
    return "\n\n".join(filter(None, texts)) + "\n"


def latex_of(parts: Iterable[Part]) -> str:
    r"""Returns paragraphs and tables as LaTeX with booktabs; empty paragraphs are left out.

    >>> print(latex_of(["*ours*: in %", pd.DataFrame({"a_1": ["5 ± 1"]})]))
    {\footnotesize ours: in \%\par}
    <BLANKLINE>
    \begin{tabular}{l}
    \toprule
    a\_1 \\
    \midrule
    5 $\pm$ 1 \\
    \bottomrule
    \end{tabular}
    <BLANKLINE>
    """
    texts = [_small_print(part) if isinstance(part, str) else _tabular(part) for part in parts]
    return "\n\n".join(filter(None, texts)) + "\n"


def _small_print(markdown: str) -> str:
    plain = re.sub(r"(?<!`)\*(\w[^*`]*)\*", r"\1", markdown)  # no emphasis
    plain = re.sub("^(#+|-) |`", "", plain, flags=re.MULTILINE).translate(LATEX)
    return "{\\footnotesize " + plain.replace("\n", "\\par\n") + "\\par}" if plain else ""


def _tabular(rows: pd.DataFrame) -> str:
    texts = rows.map(lambda text: text.translate(LATEX))
    texts.columns = [name.translate(LATEX) for name in rows.columns]
    style = texts.style.hide(axis="index")
    return str(style.to_latex(hrules=True, column_format="l" * len(rows.columns))).rstrip()


def lines_over_x(
    points: pd.DataFrame, xs: Sequence[float], headings: Sequence[str]
) -> pd.DataFrame:
    """Returns a frame of texts: a row per line and one of the Bayes limit, a column per x.

    Args:
        points: line, name (for people), x (missing for a level, which is in each column), y,
            error and bayes of each point; where there is a column published, its values are below
            those of their line.
        xs: which x are shown; without any, only the levels are.
        headings: of the columns.
    """
    table: dict[str, list[str]] = {}

    def add(name: str, places: pd.Series, texts: Sequence[str]) -> None:
        at = dict(zip(places, texts, strict=True))
        level = next((text for x, text in at.items() if math.isnan(x)), "-")
        table[name] = [at.get(x, level) for x in xs] or [level]

    for _, line in points.groupby("line", sort=False):
        # The longest name: only records tell "central" and the like.
        name = max(line.name, key=len)
        printed = "published" in line and line.published.notna().any()
        if line.y.notna().any() or not printed:
            add(name, line.x, with_errors(line))
        if printed:
            add(f"{name}, published", line.x, [number_text(y, "{:g}") for y in line.published])
    if points.bayes.notna().any():
        known = points.fillna({"x": math.inf}).dropna(subset="bayes")
        limit = known.groupby("x").bayes.first()
        table["Bayes limit"] = [f"{limit[x]:.2f}" if x in limit else "-" for x in xs]
    return pd.DataFrame.from_dict(table, orient="index", columns=headings)


def with_errors(points: pd.DataFrame) -> list[str]:
    """Returns y of each point ± half its interval, where that is known; `-` without y."""
    return [
        number_text(y, "{:.2f}" + number_text(error, " ± {:.2f}", unknown=""))
        for y, error in zip(points.y, points.error, strict=True)
    ]
