"""A benchmark of learning with label differential privacy."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("labeldp-bench")
except PackageNotFoundError:  # a checkout on PYTHONPATH, not installed
    __version__ = "0+checkout"
