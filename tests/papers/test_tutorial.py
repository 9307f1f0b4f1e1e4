"""The tutorial runs from top to bottom, and is small enough to be committed with its outputs."""

import json
import os

import pytest

from tests.conftest import CHECKOUT

NOTEBOOK = CHECKOUT / "docs" / "tutorial.ipynb"


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
