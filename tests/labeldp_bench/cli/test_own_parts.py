"""Own mechanisms, data sets and models in a copy: the examples, put in their places."""

import shutil

from tests.conftest import CHECKOUT
from tests.shell import printed

LINES = (
    "scripts/audit.py mechanism=window eps=1 num_classes=10",
    "-m labeldp_bench -m dataset=rings dataset.trials=1 mechanism=window,rappor eps=1,2",
    "make_mine.py",
    "-m labeldp_bench model=mlp dataset=npz dataset.name=mine dataset.num_classes=3 data_dir=. "
    "mechanism=rappor trainer.epochs=1 eps=2",
)


def test_own_parts_work_without_an_edit_elsewhere(tmp_path):
    # An author would end with an import error; or the example of a mechanism would leak.
    for part in ("labeldp", "labeldp_bench", "configs", "scripts"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / part, tmp_path / part, ignore=ignored)
    shutil.copytree(CHECKOUT / "docs" / "examples" / "own_parts", tmp_path, dirs_exist_ok=True)
    shown = printed([f"python {line}" for line in LINES], tmp_path)
    assert all(text.endswith("exit 0\n") for text in shown), shown
    audit, sweep, *_ = shown
    assert "the claim holds, and is tight" in audit
    assert "| RAPPOR " in sweep and "| window " in sweep
