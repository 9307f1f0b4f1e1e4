"""What help says of a mechanism beside its docstring: what is released, and the guarantee."""

from pathlib import Path

from labeldp_bench.cli.help_configs import brings, choices_of, target_of
from labeldp_bench.cli.help_source import paragraphs, read_class

OUTPUTS = (
    ("a copy of", "the label"), ("int64", "a label"), ("uint8", "K bits"), ("float32", "K reals"),
    ("float64 (N,)", "a real"),
)  # fmt: skip
GROUP_OUTPUTS = (
    ("int64 (G,)", "group classes"), ("(G, K)", "group sums"), ("float64 (G,)", "group means"),
)  # fmt: skip
"""What the docstrings of `release` and `release_groups` begin with, and what that is."""
UNKNOWN = "unknown"
"""What is said of a class that is not found: nothing may be promised of it."""
CURATED_PRIOR = "a curator counts labels for the prior; then each label is randomised alone"


def mechanism_class(path: Path) -> type | None:
    """Returns what a mechanism's YAML builds, or the YAML that it starts from; None: unknown."""
    target = target_of(path, "mechanism")
    return read_class(target) if target else None


def kind_of_release(kind: type | None) -> str:
    """Returns 'a label', 'K bits', ... by what its docstring says that it returns."""
    if not _is_a(kind, "Mechanism"):
        return UNKNOWN
    if any("release_moments" in vars(each) for each in _own_classes(kind)):
        return "class sums"
    grouped = _is_a(kind, "GroupMechanism")
    text = str(_said(kind, "release_groups" if grouped else "release", ""))
    for begins, what in GROUP_OUTPUTS if grouped else OUTPUTS:
        if begins in text:
            return what
    return "a vector"


def learner_class(path: Path) -> type | None:
    """Returns the learner that a mechanism's YAML brings with it; None: the usual one."""
    name = brings(path).get("learner")
    target = target_of(choices_of("learner")[name], "") if name in choices_of("learner") else ""
    return read_class(target) if target else None


def guarantee(kind: type | None, learner: type | None = None) -> str:
    """Returns 'local', 'central', 'central, delta=1e-05', 'local, features too', ... or 'none'.

    'unknown' where there is no such mechanism.

    Args:
        kind: the mechanism.
        learner: the learner that comes with it, whose curator may see labels too.
    """
    if not _is_a(kind, "Mechanism"):
        return UNKNOWN
    if not _said(kind, "private", True):
        return "none"
    trust, delta = _trust(kind, learner), delta_of(kind)
    features = ", features too" if "features" in str(_said(kind, "protects", "labels")) else ""
    return f"{trust}{features}" + (f", delta={delta:g}" if delta else "")


def guarantee_in_words(kind: type | None, learner: type | None, delta: float) -> str:
    """Returns the guarantee in words: pure or with a delta, who sees true labels, of what.

    Args:
        kind: the mechanism.
        learner: the learner of this run.
        delta: of this run; 0: pure.
    """
    if not _is_a(kind, "Mechanism"):
        return f"{UNKNOWN}: the _target_ of its YAML names no mechanism that is found"
    if not _said(kind, "private", True):
        return "none"
    promise = f"(eps, delta)-DP with delta={delta:g}" if delta else "pure eps-DP"
    features = ", features too" if "features" in str(_said(kind, "protects", "labels")) else ""
    trust = _trust(kind, learner)
    if trust == "local":
        return f"{promise}, local{features}: each label is randomised alone"
    if _said(kind, "trust", "local") == trust:
        return f"{promise}, central{features}: a curator sees all labels"
    return f"{promise}, central{features}: {CURATED_PRIOR}"


def delta_of(kind: type | None) -> float:
    """Returns the delta of a class; 0: pure."""
    return float(str(_said(kind, "delta", 0.0)))


def claim(kind: type | None) -> str:
    """Returns the paragraph of a class, or of its nearest base, that argues for its guarantee."""
    for each in kind.__mro__ if kind else ():
        for text in paragraphs(each)[1:] or paragraphs(each):
            if text.startswith(("Source:", "Args:")):
                continue
            if "-DP" in text or "guarantee" in text or "promised" in text:
                return text
    return ""


def _trust(kind: type | None, learner: type | None) -> str:
    both = (_said(kind, "trust", "local"), _said(learner, "trust", "local"))
    return "central" if "central" in both else "local"


def _own_classes(kind: type | None) -> list[type]:
    """Returns a class and its bases below `Mechanism`, which refuses every kind of release."""
    return [each for each in (kind.__mro__ if kind else ()) if each.__name__ != "Mechanism"]


def _is_a(kind: type | None, name: str) -> bool:
    return kind is not None and any(each.__name__ == name for each in kind.__mro__)


def _said(kind: type | None, name: str, default: object) -> object:
    """Returns a constant or a method's docstring of a stand-in, its bases' too."""
    for each in kind.__mro__ if kind else ():
        if name in vars(each):
            return vars(each)[name]
    return default
