"""What a class says of itself, read from its file: help must not wait a second for torch.

A class is read into a stand-in of the same name, with its docstring, its bases and its constants,
so that inheritance works as Python has it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path

import labeldp_bench

PACKAGE = Path(labeldp_bench.__file__).parent
OPTIMIZER = {
    "lr": "the learning rate, > 0; its peak where there is a schedule",
    "momentum": "share of the last step that the next one keeps, in [0, 1)",
    "nesterov": "whether the gradient is taken after the momentum's step",
    "weight_decay": "factor of the weights that is added to their gradients",
    "betas": "how fast the averages of gradients and of their squares forget",
}
"""Parameters of torch's optimizers, whose own texts differ from version to version."""


@cache
def read_class(target: str) -> type | None:
    """Returns the stand-in of the class or function that `a.b.Name` names.

    None: not found, or not Python; a run says what is wrong with it.
    """
    module, _, name = target.rpartition(".")
    path = None if module.startswith("torch.") else _file_of(module)
    if path is None:
        return None
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _stand_in(node, module, _imports(tree))
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return type(name, (), {"__doc__": ast.get_docstring(node)})
    origin = _imports(tree).get(name)
    return read_class(origin) if origin else None


def _stand_in(node: ast.ClassDef, module: str, imports: dict[str, str]) -> type:
    bases = []
    for base in node.bases:
        if isinstance(base, ast.Subscript):  # Mechanism[int]
            base = base.value
        name = ast.unparse(base)
        found = read_class(imports.get(name, f"{module}.{name}"))
        bases += [found] if found else []
    inside: dict[str, object] = {"__doc__": ast.get_docstring(node)}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            inside |= {part.name: text} if (text := ast.get_docstring(part)) else {}
        elif isinstance(part, ast.AnnAssign | ast.Assign) and part.value is not None:
            target = part.target if isinstance(part, ast.AnnAssign) else part.targets[0]
            if isinstance(part.value, ast.Constant | ast.Tuple) and isinstance(target, ast.Name):
                try:
                    inside[target.id] = ast.literal_eval(part.value)
                except ValueError:  # a tuple of names
                    continue
    return type(node.name, tuple(bases), inside)


def _imports(tree: ast.Module) -> dict[str, str]:
    """Returns {name: where it comes from} of a module's absolute `from` imports."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 0
        for alias in node.names
    }


def _file_of(module: str) -> Path | None:
    """Returns the file of a module, without importing the packages above it."""
    folder, *parts = module.split(".")
    roots = (
        [PACKAGE.parent]
        if folder in (PACKAGE.name, "labeldp")
        else [Path(root) for root in sys.path]
    )
    for root in roots:
        place = root.joinpath(folder, *parts)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


def paragraphs(kind: type | None) -> list[str]:
    """Returns the paragraphs of a class's own docstring, each on one line, examples left out."""
    text = cleandoc((vars(kind).get("__doc__") or "") if kind else "")
    return [" ".join(part.split()) for part in text.split("\n\n") if not part.startswith(">>>")]


def source_of(kind: type | None) -> str:
    """Returns the paragraph `Source: ...` of a class or of its nearest base that has one."""
    for each in kind.__mro__ if kind else ():
        for text in paragraphs(each):
            if text.startswith("Source:"):
                return text.removeprefix("Source:").strip()
    return ""


def meaning(kind: type | None, key: str) -> str:
    """Returns what the docstring of a class, or of a base that it refers to, says of a parameter.

    "as `Base`" and "as above" send the reader on to a base.
    """
    for each in kind.__mro__ if kind else ():
        text = dict(_arguments(each)).get(key, "")
        if text and not re.match(r"as (`\w+`|above|every\b)", text):
            return text
    return OPTIMIZER.get(key, "") if kind is None else ""


def _arguments(kind: type) -> Iterator[tuple[str, str]]:
    """Yields (parameter, text) of the sections Args and Attributes."""
    doc = cleandoc(vars(kind).get("__doc__") or "")
    for section in re.findall(r"^(?:Args|Attributes):\n((?:(?: +.*)?\n?)*)", doc, re.MULTILINE):
        for names, text in re.findall(
            r"^ {4}(\w[\w, *]*): (.*(?:\n {5,}.*)*)", section, re.MULTILINE
        ):
            for name in names.split(","):
                yield name.strip(" *"), " ".join(text.split())
