"""Networks and neighbour models: `network(num_classes=K, image_shape=(H, W, C))`."""

from labeldp_bench.models.airbench import Airbench
from labeldp_bench.models.boosted_trees import BoostedTrees
from labeldp_bench.models.clusters import Clusters
from labeldp_bench.models.cnn import CNN
from labeldp_bench.models.cubes import Cubes
from labeldp_bench.models.eigenmaps import Eigenmaps
from labeldp_bench.models.gradient_network import GradientNetwork
from labeldp_bench.models.graph_gaussian_process import GraphGaussianProcess
from labeldp_bench.models.inception import Inception
from labeldp_bench.models.knn import NearestNeighbours
from labeldp_bench.models.laplace_learning import LaplaceLearning
from labeldp_bench.models.linear import LinearClassifier
from labeldp_bench.models.logistic import Logistic
from labeldp_bench.models.network import NetworkModel
from labeldp_bench.models.poisson_learning import PoissonLearning
from labeldp_bench.models.probe import Probe
from labeldp_bench.models.resnet import ResNet
from labeldp_bench.models.ridge import Ridge
from labeldp_bench.models.wide_resnet import WideResNet

__all__ = [
    "CNN",
    "Airbench",
    "BoostedTrees",
    "Clusters",
    "Cubes",
    "Eigenmaps",
    "GradientNetwork",
    "GraphGaussianProcess",
    "Inception",
    "LaplaceLearning",
    "LinearClassifier",
    "Logistic",
    "NearestNeighbours",
    "NetworkModel",
    "PoissonLearning",
    "Probe",
    "ResNet",
    "Ridge",
    "WideResNet",
]
