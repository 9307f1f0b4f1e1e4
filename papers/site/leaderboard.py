"""The leaderboard: the best-known table as JSON for programs and as a page for people."""

import json

import pandas as pd

from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.support.checkout import CHECKOUT
from papers.site.html import TEMPLATES, html_of
from papers.tables import TABLES

LEADERBOARD = CHECKOUT / "results" / "leaderboard.json"
BEST_KNOWN = TABLES / "best_known.csv"


def write_leaderboard() -> int:
    """Writes leaderboard.json and leaderboard.html from the best-known table; returns its rows.

    Raises:
        InputError: the table is not there.
    """
    if not BEST_KNOWN.is_file():
        raise InputError(f"there is no {BEST_KNOWN.name} in {TABLES} (run make reproduce-tables)")
    rows = pd.read_csv(BEST_KNOWN)
    known = rows.astype(object).where(rows.notna(), None).to_dict("records")
    objects = ",\n".join(map(json.dumps, known))
    write_text(LEADERBOARD, f"[\n{objects}\n]\n")  # a line per row: readable in a diff
    blocks = BEST_KNOWN.with_suffix(".md").read_text().split("\n\n")[1:]
    tables = [block for block in blocks if block.startswith("|")]
    notes = "\n\n".join(block for block in blocks if block not in tables)
    page = TEMPLATES.get_template("leaderboard.html.j2").render(
        tables=[html_of(f"\n{table}") for table in tables], notes=html_of(f"\n{notes}")
    )
    write_text(LEADERBOARD.with_suffix(".html"), page)
    return len(rows)
