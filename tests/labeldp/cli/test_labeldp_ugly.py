"""Files as programs and people write them: read right, or refused in one line."""

import gzip

import numpy as np
import pandas as pd
import pytest

from labeldp.cli.__main__ import main

N = 60
STREAM = np.random.default_rng(0)
X = STREAM.normal(size=N).round(3)
Y = np.where(X > 0, "yes", "no")
WHOLE = 1000 + 37 * np.arange(N)
FIT = ["--row-id", "id", "--release", "r.parquet", "--drop", "y", "--out", "m.skops"]


def text(cells=None, *, header="id,x,y", ids=None, separator=",", end="\n"):
    cells = X if cells is None else cells
    ids = [f"p{row}" for row in range(N)] if ids is None else ids
    lines = [header.split(","), *zip(ids, map(str, cells), Y, strict=True)]
    return "".join(separator.join(line) + end for line in lines)


def release(data):
    with open("t.csv", "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return main(["release", "t.csv", "--label", "y", "--classes", "yes,no", "--eps", "8",
                 "--row-id", "id", "--out", "r.parquet", "--seed", "1"])  # fmt: skip


READ = {
    "byte order mark": b"\xef\xbb\xbf" + text().encode(),
    "Windows line ends": text(end="\r\n"),
    "old Mac line ends": text(end="\r"),
    "decimal commas": text([str(x).replace(".", ",") for x in X], separator=";"),
    "tabs": text(separator="\t"),
    "blanks around labels": text().replace(",yes", ", yes\N{NO-BREAK SPACE}"),
    "blank lines": text().replace("p30,", "\n\np30,"),
    "newlines in quotes": text([f'{x},"a\nb"' for x in X], header="id,x,note,y"),
    "blanks in the header": text().replace("id,x,y", "id, x, y"),
    "ids of 20 digits": text(ids=[str(10**20 + row) for row in range(N)]),
}
NO_TABLE = {
    "UTF-16": (text().encode("utf-16"), "UTF-8"),
    "Latin-1": (text(header="id,größe,y").encode("latin-1"), "UTF-8"),
    "gzip": (gzip.compress(text().encode()), ".gz"),
    "a comment above": ("# exported\n" + text(), "without a comment above"),
    "Excel's first line": ("sep=,\n" + text(), "first row"),
    "two columns of one name": (text(header="id,id,y"), "two columns id"),
    "a row too short": (text().replace(f"p7,{X[7]},", f"p7,{X[7]}"), "2 cells"),
    "a header once more": (text() + "id,x,y\n", "row 61"),
    "ids that were rounded": (text(ids=[f"{1.5e18 + 9e9 * n:e}" for n in range(N)]), "as text"),
    "a quote that another closes": (
        text(
            [f'{x},"tall' if n in (3, 7) else f"{x},fine" for n, x in enumerate(X)],
            header="id,x,note,y",
        ),
        "row 4",
    ),
    "a quote that an inch closes": (
        text([{3: '"tall', 7: '5"'}.get(n, "fine") for n in range(N)]),
        "row 4",
    ),
    "a quote that is never closed": (text().replace("p7,", '"p7,'), "row 8"),
    "a quote in the header": (text(header='id,x,"y'), "header"),
    "a NUL byte": (text().replace("p7,", "p7\0,"), "NUL"),
}
NO_NUMBERS = {
    "thousands": [f'"{n:,}"' for n in WHOLE],
    "blanks for thousands": [f"{n:,}".replace(",", " ") for n in WHOLE],
    "apostrophes": [f"{n:,}".replace(",", "'") for n in WHOLE],
    "percent": [f"{n}%" for n in WHOLE],
    "money": [f"${n}" for n in WHOLE],
    "units": [f"{n} kg" for n in WHOLE],
    "parentheses": [f"({abs(x)})" if x < 0 else x for x in X],
    "hexadecimal": [hex(n) for n in WHOLE],
    "a minus of its own": [str(x).replace("-", "\N{MINUS SIGN}") for x in X],
    "other digits": ["".join(chr(0x660 + int(each)) for each in str(n)) for n in WHOLE],
    "an error of Excel": ["#DIV/0!", *X[1:]],
    "18 digits": [str(10**17 + row) for row in range(N)],
}


@pytest.mark.parametrize("kind", READ)
def test_what_can_be_read_is_read_right(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert release(READ[kind]) == 0
    assert main(["fit", "t.csv", *FIT]) == 0
    assert main(["predict", "t.csv", "--model", "m.skops", "--row-id", "id", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv", dtype=str)
    assert len(found) == N
    assert (found.predicted == Y).mean() > 0.95
    assert "unknown categories" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", NO_TABLE)
def test_what_is_no_table_is_refused_in_one_line(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data, remedy = NO_TABLE[kind]
    assert release(data) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ")
    assert remedy in said
    assert "\n" not in said
    assert not (tmp_path / "r.parquet").exists()


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_numbers_with_signs_are_not_taken_for_categories(kind, tmp_path, monkeypatch, capsys):
    # 60 categories of one row each: the column was lost without a word.
    monkeypatch.chdir(tmp_path)
    assert release(text(NO_NUMBERS[kind])) == 0
    capsys.readouterr()
    assert main(["fit", "t.csv", *FIT]) == 2
    said = capsys.readouterr().err
    assert "column x" in said
    assert "--drop 'x'" in said


def test_codes_are_categories_and_others_are_where_somebody_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert release(text([f"{n % 7}0 mg" for n in WHOLE])) == 0
    assert main(["fit", "t.csv", *FIT]) == 0
    pd.read_csv("t.csv").assign(x=[f"{n}.V" for n in WHOLE]).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", *FIT]) == 2
    assert main(["fit", "t.csv", *FIT, "--keep", "x"]) == 0


def test_points_that_may_stand_for_thousands_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = [f"{n - 900:,}".replace(",", ".") for n in WHOLE]  # 100 to 2.283
    assert release(text(cells, separator=";")) == 0
    assert main(["fit", "t.csv", *FIT]) == 2
    assert "thousands or for decimals" in capsys.readouterr().err
