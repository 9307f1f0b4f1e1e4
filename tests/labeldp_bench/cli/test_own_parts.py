"""The pages on own data sets, models, losses and mechanisms, followed literally in a copy."""

import re
import shutil

import pytest

from tests.conftest import CHECKOUT
from tests.shell import printed

PAGES = {
    name: (CHECKOUT / "docs" / f"adding-a-{name}.md").read_text()
    for name in ("data-set", "model", "loss", "mechanism")
}
FILE = re.compile(r"^`([\w./]+)`:\n\n```(?:python|yaml)\n(.*?)```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What each command of the pages prints, in a copy with the pages' files."""
    folder = tmp_path_factory.mktemp("copy")
    for part in ("labeldp", "labeldp_bench", "configs", "scripts"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / part, folder / part, ignore=ignored)
    for text in PAGES.values():
        for path, content in FILE.findall(text):
            assert not (folder / path).exists(), f"{path} is no new file"
            (folder / path).write_text(content)
    lines = [
        line for text in PAGES.values() for block in COMMANDS.findall(text)
        for line in block.splitlines()
    ]  # fmt: skip
    return dict(zip(lines, printed(lines, folder), strict=True))


def test_every_command_of_the_pages_works(shown):
    # Who follows a page would end with an import error, or be told to edit another file.
    assert len(shown) >= 14
    wrong = {line: text for line, text in shown.items() if not text.endswith("exit 0\n")}
    assert wrong == {}


def test_the_pages_parts_are_what_they_say(shown):
    # The example of a mechanism would leak, and a table of an own part stay empty.
    audits = [text for line, text in shown.items() if "audit.py" in line]
    assert len(audits) == 2
    assert all("the claim holds, and is tight" in text for text in audits)
    sweeps = [text for line, text in shown.items() if " -m " in line.partition("labeldp_bench")[2]]
    assert len(sweeps) == 4 and all(re.search(r"\| RAPPOR .*±", text) for text in sweeps)
    helped = "".join(text for line, text in shown.items() if "--help" in line)
    for part in ("rings", "mlp", "uniform_lie"):
        assert part in helped


def test_the_pages_name_tests_that_exist():
    # "These tests find your part" would be about nothing.
    named = {path for text in PAGES.values() for path in re.findall(r"tests/[\w/]+(?:\.py)?", text)}
    assert len(named) > 5
    assert [path for path in sorted(named) if not (CHECKOUT / path).exists()] == []
