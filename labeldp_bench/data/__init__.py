"""Data sets: features and test labels in the open, training labels in the vault."""

from labeldp_bench.data.bundle import DataBundle, Dataset
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.data.images import ImageData, ImbalancedImages
from labeldp_bench.data.theory import Diabetes, HolderClassification, HolderRegression

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
