"""Label differential privacy: mechanisms, releases, and learning from released labels.

The names below are imported when they are first used, so that `import labeldp` itself takes no
time. It needs neither Hydra nor the benchmark.
"""

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp import designs, metrics
    from labeldp.classifier import LabelDPClassifier
    from labeldp.cross_validation import cross_val_predict
    from labeldp.estimates import (
        class_shares,
        estimate_accuracy,
        released_accuracy,
    )
    from labeldp.ledger import Ledger
    from labeldp.marginal import MarginalLoss
    from labeldp.planning import plan
    from labeldp.privatization import manifest_for_clients, privatize
    from labeldp.regressor import LabelDPRegressor
    from labeldp.release import Release, load_release

try:
    __version__ = version("labeldp-bench")
except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
    __version__ = "0+checkout"

_MODULES = {
    "LabelDPClassifier": "classifier",
    "LabelDPRegressor": "regressor",
    "Ledger": "ledger",
    "MarginalLoss": "marginal",
    "Release": "release",
    "class_shares": "estimates",
    "cross_val_predict": "cross_validation",
    "estimate_accuracy": "estimates",
    "load_release": "release",
    "manifest_for_clients": "privatization",
    "plan": "planning",
    "privatize": "privatization",
    "released_accuracy": "estimates",
}

__all__ = [
    "LabelDPClassifier",
    "LabelDPRegressor",
    "Ledger",
    "MarginalLoss",
    "Release",
    "class_shares",
    "cross_val_predict",
    "designs",
    "estimate_accuracy",
    "load_release",
    "manifest_for_clients",
    "metrics",
    "plan",
    "privatize",
    "released_accuracy",
]


def __getattr__(name: str) -> object:
    """Returns one of the names above, imported now."""
    if name in ("designs", "metrics"):
        return importlib.import_module(f"labeldp.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    return vars(importlib.import_module(f"labeldp.{_MODULES[name]}"))[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
