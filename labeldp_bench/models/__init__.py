"""Networks and neighbour models: `network(num_classes=K, image_shape=(H, W, C))`."""

from importlib import import_module
from typing import Any

MODULES = {
    "Airbench": "convolutional",
    "BoostedTrees": "table_models",
    "CNN": "convolutional",
    "Clusters": "clusters",
    "Cubes": "neighbours",
    "EfficientNetLite": "efficientnet",
    "Eigenmaps": "smooth_models",
    "GradientNetwork": "networks",
    "GraphGaussianProcess": "smooth_models",
    "LaplaceLearning": "graphs",
    "LinearClassifier": "convolutional",
    "Logistic": "table_models",
    "NearestNeighbours": "neighbours",
    "NetworkModel": "networks",
    "Probe": "linear_heads",
    "ResNet": "resnets",
    "Ridge": "linear_heads",
    "WideResNet": "resnets",
}
"""{class: its module}, which is imported when a config names the class."""


def __getattr__(name: str) -> Any:
    """Returns a class of this package."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
