"""What this program has released, so that it knows the same labels again."""

import contextlib
import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.spending import Earlier, names_of
from labeldp.store.ledger import BudgetError

MANY = 50
"""Labels from which on the same ones in the same order are taken for the same rows."""


class Remembered:
    """What this program has released, by keyed digests; the key is random and never leaves."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)
        self.releases: dict[bytes, list[Earlier]] = {}
        self.looking = threading.Lock()

    def digests_of(self, ids: NDArray, labels: list[Any]) -> list[bytes]:
        """Returns what names these rows with these labels, whatever classes or bounds are given.

        By their ids, so that rows in another order are the same ones; and, where many labels are
        alike, by their order: ids that were given cannot be compared with rows that were counted.
        Many labels of a few classes are known by which of them are alike, as `yes` and `no` that
        became 1 and 0 tell the same again. Nothing of a single label, which is not remembered: many
        clients have the same one.
        """
        if len(ids) < 2:
            return []
        names = names_of(ids)
        order = np.argsort(pd.util.hash_array(names, categorize=False), kind="stable")
        given = np.array([*labels, None], dtype=object)[:-1]
        try:
            different = len(pd.unique(given))
            is_many = len(ids) >= MANY and different > 1
            # Numbers that all differ, of two columns, are no less alike.
            by_names = not is_many or 2 * different > len(ids)
            digests = [self._digest(names[order], given[order], by_names)]
            if is_many:
                digests.append(self._digest(names[:0], given, by_names))
            return digests
        except (TypeError, UnicodeDecodeError):  # no names of classes; `codes` says so
            return []

    def _digest(self, names: NDArray, labels: NDArray, by_names: bool) -> bytes:
        """Returns the digest of rows and labels, or of which labels are alike."""
        places, different = pd.factorize(labels)  # numbered as they come, whatever they are called
        called = names_of(different).tolist() if by_names else []
        content = repr((names.tolist(), called)).encode()
        return hmac.new(self.key, content + places.tobytes(), hashlib.sha256).digest()

    def earlier(self, digests: list[bytes], row_id: str) -> list[Earlier]:
        """Returns what is remembered of these labels.

        Args:
            digests: as `digests_of`.
            row_id: as in the manifest. Of rows whose ids are given both times, the ids decide.
        """
        found = [self.releases.get(digest, []) for digest in digests]
        in_order = [each for each in chain(*found[1:]) if "" in (each.manifest.row_id, row_id)]
        return [*chain(*found[:1]), *in_order]

    @contextlib.contextmanager
    def once(
        self, digests: list[bytes], release: Earlier, counted: list[Earlier] | None
    ) -> Iterator[None]:
        """Remembers the release that is drawn inside; one that fails is forgotten.

        Args:
            digests: as `digests_of`.
            release: with what it and all before it have spent.
            counted: what was remembered before it; None: it must be the first one.

        Raises:
            BudgetError: it is not the first one of its labels, or there is one that is not counted.
        """
        kept = [self.releases.setdefault(digest, []) for digest in digests]
        with self.looking:  # another thread may have the same labels, and look before it draws
            found = self.earlier(digests, release.manifest.row_id or "")
            if counted is not None and len(found) > len(counted):
                raise BudgetError(
                    "another thread has released these labels in the meantime, which eps_spent "
                    "does not count (ask for one release after the other)"
                )
            if found and counted is None:
                raise BudgetError(
                    "these labels were released before, and a second release adds its eps to the "
                    "first (use the release that there is; or give it as after=, so that eps_spent "
                    "says both)"
                )
            for known in kept:
                known.append(release)
        try:
            yield
        except BaseException:
            for known in kept:
                known.remove(release)
            raise
