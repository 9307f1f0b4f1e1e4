"""Mechanisms: what leaves the store. They work on their own, without Hydra or a trainer."""

from labeldp.mechanisms.base import (
    ClassMechanism,
    GroupMechanism,
    LabelMechanism,
    Mechanism,
    RealMechanism,
)
from labeldp.mechanisms.bits import (
    LocalHashing,
    OptimizedUnaryEncoding,
    Rappor,
    UnaryEncoding,
)
from labeldp.mechanisms.groups import (
    ClippedCubeMeans,
    CubeMeans,
    ExponentialCubes,
    FullClippedCubeMeans,
    FullCubeMeans,
    FullExponentialCubes,
    LocalFull,
    NoisyClusters,
)
from labeldp.mechanisms.hadamard import HadamardResponse
from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.mechanisms.laplace import AdditiveLaplace, ClippedLaplace, ClippingMechanism, Laplace
from labeldp.mechanisms.moments import LabelDPPro, NoisyMoments
from labeldp.mechanisms.optimal import OptimalMechanism
from labeldp.mechanisms.pate import PateFM
from labeldp.mechanisms.real_response import RROnBins, UnbiasedRandomizer
from labeldp.mechanisms.response import (
    BlockRR,
    NoPrivacy,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    RPWithPrior,
)
from labeldp.mechanisms.subsets import SubsetSelection, TopKSubset

__all__ = [
    "AdditiveLaplace", "BlockRR", "ClassMechanism", "ClippedCubeMeans", "ClippedLaplace",
    "ClippingMechanism", "CubeMeans", "ExponentialCubes", "FullClippedCubeMeans", "FullCubeMeans",
    "FullExponentialCubes", "GroupMechanism", "HadamardResponse", "LabelDPPro", "LabelEnhancement",
    "LabelMechanism", "Laplace", "LocalFull", "LocalHashing", "Mechanism", "NoPrivacy",
    "NoisyClusters", "NoisyMoments", "OptimalMechanism", "OptimizedUnaryEncoding", "PateFM",
    "RPWithPrior", "RROnBins", "RandomizedResponse", "RandomizedResponseWithPrior", "Rappor",
    "RealMechanism", "SubsetSelection", "TopKSubset", "UnaryEncoding", "UnbiasedRandomizer",
]  # fmt: skip
