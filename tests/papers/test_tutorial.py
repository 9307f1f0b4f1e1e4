"""The tutorial runs from top to bottom, and is small enough to be committed with its outputs."""

import ast
import contextlib
import io
import json

from tests.conftest import CHECKOUT

NOTEBOOK = CHECKOUT / "docs" / "tutorial.ipynb"


def test_it_runs_and_prints_what_is_committed(monkeypatch):
    # Anew: jupyter nbconvert --to notebook --execute --inplace docs/tutorial.ipynb
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None  # a notebook shows it
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(ast.Module(body, []), NOTEBOOK, "exec"), names)
                shown = last and eval(compile(ast.Expression(last.value), NOTEBOOK, "eval"), names)
            # A notebook breaks a long tuple between its parts.
            text = out.getvalue() + ("" if shown is None else repr(shown))
            assert text.split() == printed(cell).split()


def printed(cell):
    """What a cell prints and shows as text, pictures aside."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell["outputs"]
        if "image/png" not in output.get("data", {})
    ]
    return "".join("".join(text) for text in texts)
