"""Releases the label column of a file, some rows at a time: memory does not grow with the rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from labeldp.io.tables import ROWS, TableFile, codes_of, is_empty, numbers_of, texts_of
from labeldp.ledger import digest_of_texts
from labeldp.manifest import summary_of
from labeldp.privatization import Recipe, scaled
from labeldp.release import part_of, write_parts
from labeldp.support.validate import InputError

ENTRIES = 2**22
"""Outputs for single classes that are drawn at one time, at most."""
SECRET = "it is not shown, as labels are secret"
TEXTS = "; texts are compared, 1.0 is not 1"


def digest_of_column(table: TableFile, column: str) -> tuple[bytes, int]:
    """Returns a digest of a whole column as texts, and how many rows it has."""
    size = 0

    def parts() -> Iterator[list[str]]:
        nonlocal size
        for labels in table.batches(column, ROWS):
            texts, places = texts_of(labels)
            size += len(places)
            yield np.array(texts, dtype=object)[places].tolist()

    return digest_of_texts(parts()), size


class Stream:
    """One pass over a column: each label is read, gets its noise, and is written.

    Each part has its own store and, without a seed, its own key; the labels of a part are forgotten
    before the next one is read. The distribution is that of `privatize`.

    Args:
        table: the file.
        column: the labels.
        recipe: how they are released.
        ids: of all rows of the file, (N,); None counts from 0.
        kept: which rows are released, bool (N,); None: all.
        before: what rows, or their persons, have spent on earlier releases, (N,).
        seed: for tests; None: secret noise.
    """

    def __init__(
        self,
        table: TableFile,
        column: str,
        recipe: Recipe,
        ids: NDArray | None,
        kept: NDArray[np.bool_] | None,
        before: NDArray[np.float64],
        seed: int | None,
    ) -> None:
        self.table, self.column, self.recipe, self.seed = table, column, recipe, seed
        self.ids, self.kept, self.before = ids, kept, before
        self.size, self.most_spent = 0, 0.0

    def write(self, path: Path) -> None:
        """Writes the release.

        Raises:
            InputError: a label that cannot be released, with its row; the file cannot be written.
        """
        write_parts(path, self._parts())

    def summary(self) -> str:
        """Returns what a person wants to know of what was written."""
        return summary_of(self.recipe.manifest, self.size, self.most_spent)

    def _parts(self) -> Iterator[pa.Table]:
        manifest, start = self.recipe.manifest, 0
        at_once = max(1, min(ROWS, ENTRIES // max(1, len(manifest.classes))))
        for labels in self.table.batches(self.column, at_once):
            coded, part = self._coded(labels, start), slice(start, start + len(labels))
            if part.stop > len(self.before):
                break
            ids = np.arange(part.start, part.stop) if self.ids is None else self.ids[part]
            spent = manifest.eps + self.before[part]
            if self.kept is not None:
                kept = self.kept[part]
                coded, ids, spent = coded[kept], ids[kept], spent[kept]
            name = f"rows from {start}" if start else ""
            messages = self.recipe.draw(torch.from_numpy(coded), self.seed, name)
            self.size += len(ids)
            self.most_spent = max(self.most_spent, float(spent.max(initial=0.0)))
            start = part.stop
            yield part_of(messages.numpy(), ids, spent, manifest)
        if start != len(self.before):
            raise InputError(f"{self.table.path} was changed while it was read")

    def _coded(self, labels: pa.Array, start: int) -> NDArray:
        """Returns labels as the store takes them.

        Raises:
            InputError: one that cannot be released; says its row, not the label, which is secret.
        """
        manifest = self.recipe.manifest
        if manifest.bounds is not None:
            low, high = manifest.bounds
            numbers = numbers_of(labels)
            wrong = np.flatnonzero(~np.isfinite(numbers))
            empty = np.isin(wrong, np.flatnonzero(is_empty(labels)))
            what = f"the label is no finite number ({SECRET})"
            coded: np.ndarray = scaled(numbers, low, high)
        else:
            coded = codes_of(labels, pd.Index(manifest.classes))
            wrong = np.flatnonzero(coded < 0)
            empty = coded[wrong] == -2
            names = ",".join(map(str, manifest.classes[:10]))
            more = ",..." if len(manifest.classes) > 10 else ""
            compared = told_how(labels.type) if self.table.is_parquet else TEXTS
            what = f"the label is none of {names}{more} ({SECRET}{compared})"
        if len(wrong):
            where = f"{self.table.path}, row {start + wrong[0] + 1}, column {self.column}: "
            if empty[0]:
                other = "" if manifest.bounds else ", or add a class for it, such as refused"
                raise InputError(f"{where}the label is empty (leave the row out{other})")
            raise InputError(f"{where}{what}")
        return coded


def told_how(kind: pa.DataType) -> str:
    """Returns how labels of a Parquet column are spelled, where their type does not show it."""
    if pa.types.is_boolean(kind):
        return "; truth values are spelled true and false"
    if pa.types.is_timestamp(kind):
        return "; a time is spelled as 2024-01-31 00:00:00"
    return ""
