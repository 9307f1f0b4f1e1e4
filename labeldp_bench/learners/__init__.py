"""Learners: from releases to a classifier. They see features and releases, nothing else."""

from labeldp_bench.learners.averages import LocalAverages
from labeldp_bench.learners.noisy_descent import Moments, NoisyGradients, NoisySGD
from labeldp_bench.learners.ple import EnhancedLabels
from labeldp_bench.learners.stages import ClusterPrior, HeldOutPrior, MultiStage, SingleStage
from labeldp_bench.learners.teachers import FixMatch, Pate

__all__ = [
    "ClusterPrior",
    "EnhancedLabels",
    "FixMatch",
    "HeldOutPrior",
    "LocalAverages",
    "Moments",
    "MultiStage",
    "NoisyGradients",
    "NoisySGD",
    "Pate",
    "SingleStage",
]
