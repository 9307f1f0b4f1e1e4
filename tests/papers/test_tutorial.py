"""The tutorial runs from top to bottom, and is small enough to be committed with its outputs."""

import json
import os

import pytest

from tests.conftest import CHECKOUT

NOTEBOOK = CHECKOUT / "docs" / "tutorial.ipynb"
LARGEST = 300_000  # bytes


def test_it_is_small_and_every_cell_was_run():
    assert NOTEBOOK.stat().st_size < LARGEST
    code = [cell for cell in cells_of() if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))


def test_every_picture_says_what_it_shows():
    pictures = [
        cell
        for cell in cells_of()
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert pictures and all(len(cell["metadata"].get("alt", "")) > 40 for cell in pictures)


def test_it_runs_and_prints_what_is_committed(monkeypatch):
    # Anew: jupyter nbconvert --to notebook --execute --inplace docs/tutorial.ipynb
    nbformat = pytest.importorskip("nbformat", reason="pip install 'labeldp-bench[test]'")
    client = pytest.importorskip("nbclient")
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert printed(notebook["cells"]) == printed(cells_of())


def cells_of():
    """The cells as they are committed."""
    return json.loads(NOTEBOOK.read_text())["cells"]


def printed(cells):
    """What each cell prints and shows as text; pictures aside. A kernel sends it in any parts."""
    texts = []
    for cell in cells:
        parts = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.get("outputs", [])
            if "image/png" not in output.get("data", {})
        ]
        texts.append("".join("".join(part) for part in parts))
    return texts
