"""Pages stay readable: short sentences, plain words, numbers in tables, a first line that helps."""

import ast
import re

import pytest

from tests.conftest import CHECKOUT
from tests.papers.reading import longest_sentence, numbers_in_prose, reading_ease

DOCS = CHECKOUT / "docs"
LOG = "log.md"
"""Stays as it was written."""
PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name != LOG)
EASE, EASIER = 60.0, 65.0
"""Flesch: 60 to 70 is plain English; the pages that a new reader meets first."""
FIRST = ("your-own-labels.md", "findings.md", "leaderboard.md", "adding-a-mechanism.md")
LONGEST = 38
"""Words in a sentence."""
MOST_WORDS = 2000
"""On a page, code and tables included."""
MOST_NUMBERS = 11.0
"""In a hundred words of prose: more of them belong into a table."""
EVIDENCE = {
    "findings.md": 12.0,
    "findings-ours.md": 12.0,
    "findings-print.md": 15.0,
    "ple.md": 12.0,
    "theory.md": 16.0,
    "theory-bounds.md": 21.0,
}
"""Pages of measurements, where numbers are the matter; none may grow."""


def text_of(name):
    return (DOCS / name).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_plain_and_short(name):
    text = text_of(name)
    assert reading_ease(text) >= (EASIER if name in FIRST else EASE)
    assert longest_sentence(text) <= LONGEST
    assert numbers_in_prose(text) <= EVIDENCE.get(name, MOST_NUMBERS)
    assert len(text.split()) <= MOST_WORDS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_with_what_the_reader_can_do(name):
    opening = text_of(name).split("\n## ")[0]
    assert re.match(r"# [^\n]+\n\nAfter this page ", opening)


def test_the_readme_is_plain():
    text = (CHECKOUT / "README.md").read_text()
    assert reading_ease(text) >= EASIER and longest_sentence(text) <= LONGEST


def test_the_measure_tells_dense_prose_from_plain():
    # A formula that is wrong would let everything pass.
    plain = "The cat sat on the mat. It was warm there."
    dense = (
        "Notwithstanding considerable methodological heterogeneity, approximation procedures "
        "demonstrably outperform alternatives, necessitating reconsideration of established "
        "recommendations concerning differentially private classification."
    )
    assert reading_ease(dense) < 0 < 100 < reading_ease(plain)
    assert longest_sentence(plain) == 6
    assert numbers_in_prose("It has 96.6 ± 1.6 at eps=0.1 and `12` in all.") == pytest.approx(
        100 * 3 / 8, abs=13
    )


def messages():
    """(place, text) of every error for users in the package; values stand as x."""
    for path in sorted(CHECKOUT.glob("labeldp*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if named and node.func.id == "InputError":
                for given in node.args[:1]:
                    parts = given.values if isinstance(given, ast.JoinedStr) else [given]
                    texts = [
                        part.value if isinstance(part, ast.Constant) else "x" for part in parts
                    ]
                    yield f"{path.name}:{node.lineno}", "".join(map(str, texts))


def test_messages_are_short_and_plain():
    # Somebody whose input was refused reads one line, and must know what to do.
    told = dict(messages())
    assert len(told) > 200
    assert not {place: text for place, text in told.items() if len(text.split()) > 45}
    assert reading_ease("\n\n".join(told.values())) >= EASIER
