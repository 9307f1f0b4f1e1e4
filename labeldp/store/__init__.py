"""The only owner of true training labels, and what leaves it."""

from labeldp.store.label_store import LabelStore, histogram_scale

__all__ = ["LabelStore", "histogram_scale"]
