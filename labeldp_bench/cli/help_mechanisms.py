"""What help says of a mechanism beside its docstring: what is released, and the guarantee."""

from pathlib import Path

from labeldp_bench.cli.help_configs import target_of
from labeldp_bench.cli.help_source import paragraphs, read_class

OUTPUTS = (
    ("a copy of", "the label"), ("int64", "a label"), ("uint8", "K bits"), ("float32", "K reals"),
    ("float64 (N,)", "a real"),
)  # fmt: skip
GROUP_OUTPUTS = (
    ("int64 (G,)", "group classes"), ("(G, K)", "group sums"), ("float64 (G,)", "group means"),
)  # fmt: skip
"""What the docstrings of `release` and `release_groups` begin with, and what that is."""


def mechanism_class(path: Path) -> type | None:
    """Returns what a mechanism's YAML builds, or the YAML that it starts from; None: unknown."""
    target = target_of(path, "mechanism")
    return read_class(target) if target else None


def kind_of_release(kind: type | None) -> str:
    """Returns 'a label', 'K bits', ... by what its docstring says that it returns."""
    grouped = _is_a(kind, "GroupMechanism")
    text = str(_said(kind, "release_groups" if grouped else "release", ""))
    for begins, what in GROUP_OUTPUTS if grouped else OUTPUTS:
        if begins in text:
            return what
    return "a vector"


def guarantee(kind: type | None) -> str:
    """Returns 'local', 'central', 'central, features too', ... or 'none'."""
    if not _said(kind, "private", True):
        return "none"
    features = "features" in str(_said(kind, "protects", "labels"))
    return f"{_said(kind, 'trust', 'local')}{', features too' if features else ''}"


def claim(kind: type | None) -> str:
    """Returns the paragraph of a class, or of its nearest base, that argues for its guarantee."""
    for each in kind.__mro__ if kind else ():
        for text in paragraphs(each)[1:] or paragraphs(each):
            if "-DP" in text or "guarantee" in text or "promised" in text:
                return text
    return ""


def _is_a(kind: type | None, name: str) -> bool:
    return kind is not None and any(each.__name__ == name for each in kind.__mro__)


def _said(kind: type | None, name: str, default: object) -> object:
    """Returns a constant or a method's docstring of a stand-in, its bases' too."""
    for each in kind.__mro__ if kind else ():
        if name in vars(each):
            return vars(each)[name]
    return default
