"""Networks and neighbour models: `network(num_classes=K, image_shape=(H, W, C))`."""

from labeldp_bench.models.clusters import Clusters
from labeldp_bench.models.convolutional import CNN, Airbench, LinearClassifier
from labeldp_bench.models.efficientnet import EfficientNetLite
from labeldp_bench.models.graphs import LaplaceLearning
from labeldp_bench.models.linear_heads import Probe, Ridge
from labeldp_bench.models.neighbours import Cubes, NearestNeighbours
from labeldp_bench.models.networks import GradientNetwork, NetworkModel
from labeldp_bench.models.resnets import ResNet, WideResNet
from labeldp_bench.models.smooth_models import Eigenmaps, GraphGaussianProcess
from labeldp_bench.models.table_models import BoostedTrees, Logistic

__all__ = [
    "CNN",
    "Airbench",
    "BoostedTrees",
    "Clusters",
    "Cubes",
    "EfficientNetLite",
    "Eigenmaps",
    "GradientNetwork",
    "GraphGaussianProcess",
    "LaplaceLearning",
    "LinearClassifier",
    "Logistic",
    "NearestNeighbours",
    "NetworkModel",
    "Probe",
    "ResNet",
    "Ridge",
    "WideResNet",
]
