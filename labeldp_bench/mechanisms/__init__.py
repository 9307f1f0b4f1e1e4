"""Mechanisms: what leaves the vault. They work on their own, without Hydra or a trainer."""

from labeldp_bench.mechanisms.additive_laplace import AdditiveLaplace
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.mechanisms.block_rr import BlockRR
from labeldp_bench.mechanisms.classes import ClassMechanism, LabelMechanism
from labeldp_bench.mechanisms.clipping import ClippingMechanism
from labeldp_bench.mechanisms.cube_means import (
    ClippedCubeMeans,
    CubeMeans,
    FullClippedCubeMeans,
    FullCubeMeans,
)
from labeldp_bench.mechanisms.group_classes import (
    ExponentialCubes,
    FullExponentialCubes,
    NoisyClusters,
)
from labeldp_bench.mechanisms.groups import GroupMechanism
from labeldp_bench.mechanisms.hadamard import HadamardResponse
from labeldp_bench.mechanisms.label_enhancement import LabelEnhancement
from labeldp_bench.mechanisms.labeldp_pro import LabelDPPro
from labeldp_bench.mechanisms.laplace import ClippedLaplace, Laplace
from labeldp_bench.mechanisms.local_full import LocalFull
from labeldp_bench.mechanisms.no_privacy import NoPrivacy
from labeldp_bench.mechanisms.noisy_moments import NoisyMoments
from labeldp_bench.mechanisms.optimal import OptimalMechanism
from labeldp_bench.mechanisms.pate_fm import PateFM
from labeldp_bench.mechanisms.randomized_response import RandomizedResponse
from labeldp_bench.mechanisms.real import RealMechanism
from labeldp_bench.mechanisms.rp_with_prior import RPWithPrior
from labeldp_bench.mechanisms.rr_on_bins import RROnBins
from labeldp_bench.mechanisms.rr_with_prior import RandomizedResponseWithPrior
from labeldp_bench.mechanisms.subset_selection import SubsetSelection
from labeldp_bench.mechanisms.topk_subset import TopKSubset
from labeldp_bench.mechanisms.unary import (
    LocalHashing,
    OptimizedUnaryEncoding,
    Rappor,
    UnaryEncoding,
)
from labeldp_bench.mechanisms.unbiased_randomizer import UnbiasedRandomizer

__all__ = [
    "AdditiveLaplace", "BlockRR", "ClassMechanism", "ClippedCubeMeans", "ClippedLaplace",
    "ClippingMechanism", "CubeMeans", "ExponentialCubes", "FullClippedCubeMeans", "FullCubeMeans",
    "FullExponentialCubes", "GroupMechanism", "HadamardResponse", "LabelDPPro", "LabelEnhancement",
    "LabelMechanism", "Laplace", "LocalFull", "LocalHashing", "Mechanism", "NoPrivacy",
    "NoisyClusters", "NoisyMoments", "OptimalMechanism", "OptimizedUnaryEncoding", "PateFM",
    "RPWithPrior", "RROnBins", "RandomizedResponse", "RandomizedResponseWithPrior", "Rappor",
    "RealMechanism", "SubsetSelection", "TopKSubset", "UnaryEncoding", "UnbiasedRandomizer",
]  # fmt: skip
