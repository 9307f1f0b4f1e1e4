"""Learning with label differential privacy: a benchmark, and a library for your own labels.

The names below are for your own labels (docs/your-own-labels.md). They are imported when they are
first used, so that `import labeldp_bench` itself takes no time.
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

try:
    __version__ = version("labeldp-bench")
except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
    __version__ = "0+checkout"

__all__ = [
    "LabelDPClassifier", "LabelDPRegressor", "PredictionSets", "Release", "calibration",
    "class_shares", "estimate_accuracy", "load_release", "manifest_for_clients", "plan",
    "privatize", "released_accuracy",
]  # fmt: skip

_MODULES = {
    "LabelDPClassifier": "classifier", "LabelDPRegressor": "regressor",
    "PredictionSets": "conformal", "Release": "release", "calibration": "estimates",
    "class_shares": "estimates", "estimate_accuracy": "estimates", "load_release": "load",
    "manifest_for_clients": "privatize", "plan": "plan", "privatize": "privatize",
    "released_accuracy": "estimates",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Returns one of the names for your own labels, imported now."""
    if name not in _MODULES:
        raise AttributeError(f"module 'labeldp_bench' has no attribute {name!r}")
    return vars(importlib.import_module(f"labeldp_bench.own_labels.{_MODULES[name]}"))[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
