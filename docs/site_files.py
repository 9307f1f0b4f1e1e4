"""What the site takes from outside docs/: the README as its first page, and the files linked to.

A hook of mkdocs (see mkdocs.yml). Pages link to results and configs as one reads them in a
checkout, `../results/tables/x.md`; the site has its own copy of each file that is linked to.
"""

import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()((?:\.\./)+)([^)#\s]+)([^)]*\))")
"""A link out of docs/: its opening, the way up, the path in the checkout, the rest."""
INSIDE = re.compile(r"(\]\()(?!https?:|#|\.\./)([^)#\s]+)([^)]*\))")
"""A link of the README, which lies at the top of the checkout."""
COPIES = "checkout"
OF_NOTEBOOK = re.compile(r'href="([a-z-]+)\.md(#[^"]*)?"')
"""A link of a notebook to a page; mkdocs-jupyter leaves it as it is."""
NO_ALT = "No description has been provided for this image"
"""What nbconvert says of a picture, although its cell's metadata have `alt`."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the first page, and every file outside docs/ that a page links to."""
    readme = INSIDE.sub(_from_docs, (CHECKOUT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=readme))
    linked = {match[3] for file in files if file.is_documentation_page()
              for match in LINK.finditer(file.content_string) if _leaves(match, file)}  # fmt: skip
    for path in sorted(linked):
        if (CHECKOUT / path).is_file():
            copy = f"{COPIES}/{path}" + (".txt" if path.endswith((".md", ".py")) else "")
            files.append(File.generated(config, copy, abs_src_path=str(CHECKOUT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Returns a page whose links out of docs/ lead to the site's copies."""
    return LINK.sub(lambda link: _to_copy(link) if _leaves(link, page.file) else link[0], markdown)


def on_page_content(html: str, page: Page, files: Files, **_: object) -> str:
    """Returns a notebook's page with its links mended and its pictures described.

    Raises:
        PluginError: a link to no page, or a picture whose cell has no `alt` in its metadata.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    for name, _anchor in OF_NOTEBOOK.findall(html):
        if files.get_file_from_path(f"{name}.md") is None:
            raise PluginError(f"{page.file.src_uri} links to {name}.md, which is not there")
    for cell in json.loads(page.file.content_string)["cells"]:
        html = html.replace(NO_ALT, cell["metadata"].get("alt", NO_ALT), 1)
    if NO_ALT in html:
        raise PluginError(f"{page.file.src_uri} has a picture without alt in its cell's metadata")
    return OF_NOTEBOOK.sub(r'href="\1.html\2"', html)


def _leaves(link: re.Match[str], file: File) -> bool:
    """Returns whether a link goes further up than to docs/."""
    return len(link[2]) // 3 > file.src_uri.count("/")


def _from_docs(link: re.Match[str]) -> str:
    path = link[2].removeprefix("docs/")
    return f"{link[1]}{path if path != link[2] else '../' + path}{link[3]}"


def _to_copy(link: re.Match[str]) -> str:
    path = link[3]
    up = "../" * (len(link[2]) // 3 - 1)
    return f"{link[1]}{up}{COPIES}/{path}{'.txt' if path.endswith(('.md', '.py')) else ''}{link[4]}"
