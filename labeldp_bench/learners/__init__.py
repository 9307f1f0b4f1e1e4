"""Learners: from releases to a classifier. They see features and releases, nothing else."""

from labeldp_bench.learners.cluster_prior import ClusterPrior
from labeldp_bench.learners.fixmatch import FixMatch
from labeldp_bench.learners.held_out_prior import HeldOutPrior
from labeldp_bench.learners.local_averages import LocalAverages
from labeldp_bench.learners.moments import Moments
from labeldp_bench.learners.multi_stage import MultiStage
from labeldp_bench.learners.noisy_gradients import NoisyGradients
from labeldp_bench.learners.noisy_sgd import NoisySGD
from labeldp_bench.learners.pate import Pate
from labeldp_bench.learners.ple_server import EnhancedLabels
from labeldp_bench.learners.single_stage import SingleStage

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
