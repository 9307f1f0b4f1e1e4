"""The only owner of true training labels, and what leaves it."""

from labeldp.store.account import BudgetError, LedgerEntry
from labeldp.store.label_store import Drawn, LabelStore, digest
from labeldp.store.release import ReleaseError, StoredRelease

__all__ = [
    "BudgetError",
    "Drawn",
    "LabelStore",
    "LedgerEntry",
    "ReleaseError",
    "StoredRelease",
    "digest",
]
