"""What was released of your labels: all that anybody may learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp_bench.own_labels.file import write_parts
from labeldp_bench.own_labels.law import chance_of_change
from labeldp_bench.own_labels.manifest import ClassName, Manifest
from labeldp_bench.privacy import release as vault
from labeldp_bench.support.validate import InputError


@dataclass(frozen=True, eq=False)
class Release:
    """What was released of N labels, and the manifest that says how.

    It holds no label, so it can be handed over. Rows can be chosen as of an array,
    `release[indices]`, and scikit-learn takes it as `y` in cross-validation.

    Attributes:
        outputs: of the mechanism, CPU: int64 labels (N,), uint8 bits (N, K), float32 reals
            (N, K); of numbers float64 (N,), in [-1, 1] before the noise.
        row_ids: (N,), distinct; which rows of the features they belong to.
        spent: float64 (N,), eps of each row over all its releases so far.
        manifest: mechanism, parameters, eps, classes.
    """

    outputs: Tensor = field(repr=False)
    row_ids: NDArray = field(repr=False)
    spent: NDArray[np.float64] = field(repr=False)
    manifest: Manifest

    def __post_init__(self) -> None:
        if not len(self.outputs) == len(self.row_ids) == len(self.spent):
            raise InputError("a release needs an output, a row id and a cost for each row")

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def mechanism(self) -> str:
        """The mechanism's name on the command line."""
        return self.manifest.mechanism

    @property
    def eps(self) -> float:
        """What this release cost a label; a person, where the manifest has a unit."""
        return self.manifest.eps

    @property
    def classes(self) -> list[ClassName]:
        """The classes in the order of the likelihood's columns; empty for numbers."""
        return list(self.manifest.classes)

    @property
    def eps_spent(self) -> float:
        """What the worst-off label, or person, has spent over all releases of it so far."""
        rows = self.manifest.unit.most_rows if self.manifest.unit else 1
        return float(self.spent.max()) * rows if len(self) else 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K) for classes, (N,) for numbers; scikit-learn asks for it."""
        return (len(self), len(self.classes)) if self.classes else (len(self),)

    def __getitem__(self, rows: object) -> "Release":
        """Returns the release of the chosen rows: positions, truth values or a slice."""
        if isinstance(rows, tuple):  # scikit-learn writes y[indices, ...]
            rows = rows[0]
        chosen = np.atleast_1d(np.arange(len(self))[rows])  # type: ignore[call-overload]
        return replace(
            self,
            outputs=self.outputs[torch.from_numpy(chosen)],
            row_ids=self.row_ids[chosen],
            spent=self.spent[chosen],
        )

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray:
        """Returns the posterior under equally frequent classes, float64 (N, K); numbers as drawn.

        No estimator takes it for labels: its rows are shares.
        """
        if not self.classes:
            return self.unbiased_values().astype(dtype or np.float64)  # type: ignore[call-overload]
        return self.vaulted.evidence.double().softmax(1).numpy().astype(dtype or np.float64)  # type: ignore[call-overload]

    @cached_property
    def vaulted(self) -> vault.Release:
        """The same as learners of the benchmark take it; positions count from 0."""
        self._needs_classes("losses")
        return vault.Release(
            torch.arange(len(self)), self.outputs, self.manifest.class_mechanism(),
            len(self.classes),
        )  # fmt: skip

    def log_likelihood(self) -> NDArray[np.float64]:
        """Returns log P(what was released | class), exact, float64 (N, K)."""
        return self.vaulted.log_likelihood.numpy()

    def unbiased_values(self) -> NDArray[np.float64]:
        """Returns a number for each row whose mean, over the noise, is the true one, (N,)."""
        if self.manifest.bounds is None:
            raise InputError("this is a release of classes, not of numbers")
        low, high = self.manifest.bounds
        return (low + high) / 2 + (high - low) / 2 * self.outputs.numpy()

    def summary(self) -> str:
        """Returns what a person wants to know of the release, in a few lines."""
        manifest = self.manifest
        each = f"eps={manifest.row_eps:g} each" if manifest.unit else f"eps={self.eps:g}"
        lines = [f"{len(self):,} labels released by {self.mechanism}, {each}"]
        if self.manifest.row_eps == float("inf"):
            lines.append("eps=inf is no privacy: these are the true labels (keep the file)")
        elif self.classes:
            share = chance_of_change(manifest.class_mechanism(), len(self.classes))
            lines.append(
                f"the best guess from a release is another class for about "
                f"{100 * share:.0f} % of the rows ({share * len(self):,.0f})"
            )
        if manifest.unit:
            lines.append(
                f"a {manifest.unit.column} has at most {manifest.unit.most_rows} "
                f"row{'s' if manifest.unit.most_rows > 1 else ''} here, and "
                f"spends at most eps={self.eps:g} on them"
            )
        if self.eps_spent > self.eps * (1 + 1e-9):
            lines.append(f"with earlier releases of the same rows: eps={self.eps_spent:g} spent")
        if manifest.noise != "secret":
            lines.append("the noise has a seed: for tests only, as who knows it can undo the noise")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Writes a Parquet file with row ids, what was released, what was spent, the manifest."""
        outputs = self.outputs.numpy()
        write_parts(Path(path), outputs, self.row_ids, self.spent, self.manifest)

    @classmethod
    def of_reports(
        cls, manifest: Manifest, row_ids: Sequence[int | str], reports: ArrayLike
    ) -> "Release":
        """Returns the release that clients drew one by one, each on a device of its own.

        Args:
            manifest: that the clients had.
            row_ids: N distinct ones.
            reports: what they drew: class numbers (N,), or bits (N, K).

        Raises:
            InputError: a report that the mechanism cannot have drawn.
        """
        given = np.asarray(reports)
        kind = np.float32 if given.dtype.kind == "f" else np.uint8 if given.ndim == 2 else np.int64
        ids = checked_row_ids(row_ids, len(given))
        spent = np.full(len(given), manifest.row_eps)
        release = cls(torch.from_numpy(given.astype(kind)), ids, spent, manifest)
        impossible = np.flatnonzero(np.isneginf(release.log_likelihood()).all(1))
        if len(impossible):
            raise InputError(
                f"report {impossible[0]} cannot come from {manifest.mechanism} "
                "(was it drawn by another manifest?)"
            )
        return release

    @classmethod
    def joined(cls, parts: Sequence["Release"]) -> "Release":
        """Returns several releases of different rows, made alike, as one.

        Raises:
            InputError: none, a row twice, or manifests that differ.
        """
        if not parts:
            raise InputError("there is no release to join")
        first = parts[0].manifest
        if not all(part.manifest.like(first) for part in parts):
            raise InputError("releases to be joined must have the same mechanism, eps and classes")
        total = sum(len(part) for part in parts)
        return cls(
            torch.cat([part.outputs for part in parts]),
            checked_row_ids(np.concatenate([part.row_ids for part in parts]), total),
            np.concatenate([part.spent for part in parts]),
            Manifest(**{**vars(first), "identity": Manifest("", {}, 1.0).identity}),
        )

    def _needs_classes(self, what: str) -> None:
        if not self.classes:
            raise InputError(f"{what} need a release of classes, and this is one of numbers")


def checked_row_ids(row_ids: ArrayLike | None, size: int) -> NDArray:
    """Returns `row_ids` as an array of numbers or texts, (N,); None counts from 0.

    Raises:
        InputError: their number is wrong, or one is there twice.
    """
    if row_ids is None:
        return np.arange(size)
    ids = pd.Index(np.asarray(row_ids))
    if len(ids) != size:
        raise InputError(f"there must be a row id for each of {size} labels, got {len(ids)}")
    if not ids.is_unique:
        raise InputError(
            f"row ids must be distinct, got {ids[ids.duplicated()][0]!r} twice "
            "(a person with several rows is named by unit=)"
        )
    values = ids.to_numpy()
    return values if values.dtype.kind in "iu" else values.astype(str)
