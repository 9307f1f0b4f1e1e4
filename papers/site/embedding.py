"""Pictures inside a page: small, and described for those who do not see them."""

import base64
import io
import re
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from PIL import Image

from papers.site.html import html_of

WIDEST = 1088
"""Pixels: as wide as a page."""
FIRST_IMAGE = re.compile(r"!\[([^\]]+)\]\([^)]*\)\n\n(.*)")
"""A page's picture with its title, and the paragraph below it."""
DESCRIBED = {
    "attacks_fashion_mnist": "Accuracy against how well an attacker guesses labels, Fashion-MNIST: "
    "guesses from what a method released, a panel per kind",
    "attacks_mnist": "Accuracy against how well an attacker guesses labels, MNIST: guesses from "
    "what a method released, a panel per kind",
    "best_known": "Best known accuracy at each eps, a panel per data set: printed by any paper "
    "under local and central privacy, and ours",
    "finding_loss": "Marginal loss minus the paper's loss in points of test accuracy, for RR and "
    "RAPPOR at each eps: above 0, and most at small eps",
    "finding_ple": "Labels that an attacker names from a release against test accuracy of the "
    "model: PLE names 63 to 92 percent, private mechanisms 11 to 39",
    "finding_ranking": "RAPPOR minus ALIBI in points of test accuracy at each eps: below 0 on "
    "MNIST at 0.3 and 0.5, near 0 elsewhere",
    "theoretical_limits_table1_exponents": "Exponents of Table 1: measured with their intervals, "
    "and predicted",
    "tuned_vs_stated": "Accuracy of RR, RAPPOR and ALIBI at each eps, a panel per data set: as the "
    "paper prints it, with one recipe for all, and with recipes that held-out releases choose",
}
"""{stem: title, and after a colon what else it shows} of pictures without a page of their own."""


class Picture(NamedTuple):
    """A picture as a page shows it.

    Attributes:
        title: what it shows, in one line.
        file: its name in results/figures.
        alt: what it shows, in words.
        data: a `data:` address that holds the picture.
        text: its page as HTML; empty where it has none.
    """

    title: str
    file: str
    alt: str
    data: str
    text: Markup


def picture_of(path: Path) -> Picture:
    """Returns the picture in a PNG, with the page beside it."""
    markdown = _page_of(path)
    text = html_of(markdown) if markdown else Markup()
    return Picture(title_of(path), path.name, alt_of(path), _smaller(path), text)


def title_of(path: Path) -> str:
    """Returns what the picture in a PNG shows, in one line."""
    found = FIRST_IMAGE.search(_page_of(path))
    return found[1] if found else alt_of(path).partition(":")[0]


def alt_of(path: Path) -> str:
    """Returns what the picture in a PNG shows, in words: its page's first lines."""
    found = FIRST_IMAGE.search(_page_of(path))
    return found[2].strip() if found else DESCRIBED.get(path.stem, path.stem.replace("_", " "))


def _page_of(path: Path) -> str:
    page = path.with_suffix(".md")
    return page.read_text() if page.is_file() else ""


def _smaller(path: Path) -> str:
    """Returns a picture as WebP, at most as wide as a page."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    picture.thumbnail((WIDEST, picture.height), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    picture.save(written, "webp", quality=70, method=6)
    return f"data:image/webp;base64,{base64.b64encode(written.getvalue()).decode()}"
