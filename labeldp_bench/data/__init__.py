"""Data sets: features and test labels in the open, training labels in the vault."""

from labeldp_bench.data.bundle import DataBundle, Dataset
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.data.diabetes import Diabetes
from labeldp_bench.data.holder import HolderClassification, HolderRegression
from labeldp_bench.data.images import ImageData
from labeldp_bench.data.imbalanced import ImbalancedImages

__all__ = [
    "CircleGaussians",
    "DataBundle",
    "Dataset",
    "Diabetes",
    "HolderClassification",
    "HolderRegression",
    "ImageData",
    "ImbalancedImages",
]
