"""The page on own mechanisms, data sets, models and losses, followed literally in a copy."""

import re
import shutil

import pytest

from tests.conftest import CHECKOUT
from tests.shell import printed

PAGE = (CHECKOUT / "docs" / "extending.md").read_text()
FILE = re.compile(r"^`([\w./]+)`:\n\n```(?:python|yaml)\n(.*?)```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What each command of the page prints, in a copy with the page's files."""
    folder = tmp_path_factory.mktemp("copy")
    for part in ("labeldp", "labeldp_bench", "configs", "scripts"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / part, folder / part, ignore=ignored)
    shutil.copytree(CHECKOUT / "docs" / "examples" / "own_parts", folder, dirs_exist_ok=True)
    for path, content in FILE.findall(PAGE):
        assert not (folder / path).exists(), f"{path} is no new file"
        (folder / path).write_text(content)
    lines = [line for block in COMMANDS.findall(PAGE) for line in block.splitlines()]
    return dict(zip(lines, printed(lines, folder), strict=True))


def test_every_command_of_the_page_works(shown):
    # A reader would end with an import error, or be told to edit another file.
    assert len(shown) >= 12
    wrong = {line: text for line, text in shown.items() if not text.endswith("exit 0\n")}
    assert wrong == {}


def test_the_parts_are_what_they_say(shown):
    # The example of a mechanism would leak, and a table of an own part stay empty.
    audits = [text for line, text in shown.items() if "audit.py" in line]
    assert len(audits) == 2
    assert all("the claim holds, and is tight" in text for text in audits)
    sweeps = [text for line, text in shown.items() if " -m " in line.partition("labeldp_bench")[2]]
    assert len(sweeps) == 3 and all(re.search(r"\| RAPPOR .*±", text) for text in sweeps)
    helped = "".join(text for line, text in shown.items() if "--help" in line)
    for part in ("rings", "mlp", "random_lie", "share"):
        assert part in helped
