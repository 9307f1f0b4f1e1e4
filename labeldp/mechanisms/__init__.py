"""Mechanisms: what leaves the vault. They work on their own, without Hydra or a trainer."""

from labeldp.mechanisms.additive_laplace import AdditiveLaplace
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.block_rr import BlockRR
from labeldp.mechanisms.classes import ClassMechanism, LabelMechanism
from labeldp.mechanisms.clipping import ClippingMechanism
from labeldp.mechanisms.cube_means import (
    ClippedCubeMeans,
    CubeMeans,
    FullClippedCubeMeans,
    FullCubeMeans,
)
from labeldp.mechanisms.group_classes import (
    ExponentialCubes,
    FullExponentialCubes,
    NoisyClusters,
)
from labeldp.mechanisms.groups import GroupMechanism
from labeldp.mechanisms.hadamard import HadamardResponse
from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.mechanisms.labeldp_pro import LabelDPPro
from labeldp.mechanisms.laplace import ClippedLaplace, Laplace
from labeldp.mechanisms.local_full import LocalFull
from labeldp.mechanisms.no_privacy import NoPrivacy
from labeldp.mechanisms.noisy_moments import NoisyMoments
from labeldp.mechanisms.optimal import OptimalMechanism
from labeldp.mechanisms.pate_fm import PateFM
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.real import RealMechanism
from labeldp.mechanisms.rp_with_prior import RPWithPrior
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.rr_with_prior import RandomizedResponseWithPrior
from labeldp.mechanisms.subset_selection import SubsetSelection
from labeldp.mechanisms.topk_subset import TopKSubset
from labeldp.mechanisms.unary import (
    LocalHashing,
    OptimizedUnaryEncoding,
    Rappor,
    UnaryEncoding,
)
from labeldp.mechanisms.unbiased_randomizer import UnbiasedRandomizer

__all__ = [
    "AdditiveLaplace", "BlockRR", "ClassMechanism", "ClippedCubeMeans", "ClippedLaplace",
    "ClippingMechanism", "CubeMeans", "ExponentialCubes", "FullClippedCubeMeans", "FullCubeMeans",
    "FullExponentialCubes", "GroupMechanism", "HadamardResponse", "LabelDPPro", "LabelEnhancement",
    "LabelMechanism", "Laplace", "LocalFull", "LocalHashing", "Mechanism", "NoPrivacy",
    "NoisyClusters", "NoisyMoments", "OptimalMechanism", "OptimizedUnaryEncoding", "PateFM",
    "RPWithPrior", "RROnBins", "RandomizedResponse", "RandomizedResponseWithPrior", "Rappor",
    "RealMechanism", "SubsetSelection", "TopKSubset", "UnaryEncoding", "UnbiasedRandomizer",
]  # fmt: skip
