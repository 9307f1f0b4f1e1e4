"""The benchmark of learning with label differential privacy; the library is `labeldp`."""

from labeldp import __version__

__all__ = ["__version__"]
