"""Learning with label differential privacy: a benchmark, and a library for your own labels.

The names below are for your own labels (docs/your-own-labels.md), but for `load`, which returns a
model that comes trained (docs/leaderboard.md). They are imported when they are first used, so that
`import labeldp_bench` itself takes no time.
"""

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp_bench.own_labels.classifier import LabelDPClassifier
    from labeldp_bench.own_labels.conformal import PredictionSets
    from labeldp_bench.own_labels.estimates import (
        calibration,
        class_shares,
        estimate_accuracy,
        released_accuracy,
    )
    from labeldp_bench.own_labels.load import load_release
    from labeldp_bench.own_labels.plan import plan
    from labeldp_bench.own_labels.privatize import manifest_for_clients, privatize
    from labeldp_bench.own_labels.regressor import LabelDPRegressor
    from labeldp_bench.own_labels.release import Release
    from labeldp_bench.trained.load import load

try:
    __version__ = version("labeldp-bench")
except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
    __version__ = "0+checkout"

__all__ = [
    "LabelDPClassifier", "LabelDPRegressor", "PredictionSets", "Release", "calibration",
    "class_shares", "estimate_accuracy", "load", "load_release", "manifest_for_clients", "plan",
    "privatize", "released_accuracy",
]  # fmt: skip

_MODULES = {
    "LabelDPClassifier": "own_labels.classifier", "LabelDPRegressor": "own_labels.regressor",
    "PredictionSets": "own_labels.conformal", "Release": "own_labels.release",
    "calibration": "own_labels.estimates", "class_shares": "own_labels.estimates",
    "estimate_accuracy": "own_labels.estimates", "load": "trained.load",
    "load_release": "own_labels.load", "manifest_for_clients": "own_labels.privatize",
    "plan": "own_labels.plan", "privatize": "own_labels.privatize",
    "released_accuracy": "own_labels.estimates",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Returns one of the names above, imported now."""
    if name not in _MODULES:
        raise AttributeError(f"module 'labeldp_bench' has no attribute {name!r}")
    return vars(importlib.import_module(f"labeldp_bench.{_MODULES[name]}"))[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
