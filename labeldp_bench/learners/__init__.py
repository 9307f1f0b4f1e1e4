"""Learners: from releases to a classifier. They see features and releases, nothing else."""

from importlib import import_module
from typing import Any

MODULES = {
    "ClusterPrior": "stages",
    "EnhancedLabels": "ple",
    "FixMatch": "teachers",
    "HeldOutPrior": "stages",
    "LocalAverages": "averages",
    "Moments": "noisy_descent",
    "MultiStage": "stages",
    "NoisyGradients": "noisy_descent",
    "NoisySGD": "noisy_descent",
    "Pate": "teachers",
    "SingleStage": "stages",
}
"""{class: its module}, which is imported when a config names the class."""


def __getattr__(name: str) -> Any:
    """Returns a class of this package."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
