"""Mechanisms: what leaves the store. They work on their own, without Hydra or a trainer."""

from labeldp.mechanisms.base import (
    ClassMechanism,
    GroupSums,
    LabelMechanism,
    Mechanism,
    Messages,
    RealMechanism,
)
from labeldp.mechanisms.bits import LocalHashing, OptimizedUnaryEncoding, Rappor, UnaryEncoding
from labeldp.mechanisms.groups import (
    ClippedCubeMeans,
    CubeMeans,
    ExponentialCubes,
    FullClippedCubeMeans,
    FullCubeMeans,
    FullExponentialCubes,
    GroupMechanism,
    LaplaceHistogram,
    LocalFull,
    NoisyClusters,
)
from labeldp.mechanisms.hadamard import HadamardResponse
from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.mechanisms.laplace import AdditiveLaplace, ClippedLaplace, ClippingMechanism, Laplace
from labeldp.mechanisms.measurement import Measurement, Trust
from labeldp.mechanisms.moments import ClassSums, LabelDPPro, NoisyMoments
from labeldp.mechanisms.optimal import OptimalMechanism
from labeldp.mechanisms.pate import PateFM
from labeldp.mechanisms.real_response import RPWithPrior, RROnBins, UnbiasedRandomizer
from labeldp.mechanisms.response import (
    BlockRR,
    NoPrivacy,
    OrdinalResponse,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from labeldp.mechanisms.subsets import SubsetSelection

__all__ = [
    "AdditiveLaplace",
    "BlockRR",
    "ClassMechanism",
    "ClassSums",
    "ClippedCubeMeans",
    "ClippedLaplace",
    "ClippingMechanism",
    "CubeMeans",
    "ExponentialCubes",
    "FullClippedCubeMeans",
    "FullCubeMeans",
    "FullExponentialCubes",
    "GroupMechanism",
    "GroupSums",
    "HadamardResponse",
    "LabelDPPro",
    "LabelEnhancement",
    "LabelMechanism",
    "Laplace",
    "LaplaceHistogram",
    "LocalFull",
    "LocalHashing",
    "Measurement",
    "Mechanism",
    "Messages",
    "NoPrivacy",
    "NoisyClusters",
    "NoisyMoments",
    "OptimalMechanism",
    "OptimizedUnaryEncoding",
    "OrdinalResponse",
    "PateFM",
    "RPWithPrior",
    "RROnBins",
    "RandomizedResponse",
    "RandomizedResponseWithPrior",
    "Rappor",
    "RealMechanism",
    "SubsetSelection",
    "Trust",
    "UnaryEncoding",
    "UnbiasedRandomizer",
]
