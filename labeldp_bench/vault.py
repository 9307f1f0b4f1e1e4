"""The wall: the one place that holds true training labels, and the ledger of what they cost."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labeldp_bench import seeding
from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.validate import InputError, check_eps, check_labels


class BudgetError(InputError):
    """A release would have cost a label more than its budget; nothing left the vault."""


@dataclass(frozen=True)
class Release:
    """What left the vault for some examples: all that a learner may know of their labels.

    Attributes:
        indices: int64 (n,), positions in the training set.
        outputs: what the mechanism released, first axis n.
        mechanism: who released it.
        num_classes: K.
        prior: the prior that was used, (K,) or (n, K), or None.
    """

    indices: Tensor
    outputs: Tensor
    mechanism: Mechanism
    num_classes: int
    prior: Tensor | None = None

    def take(self, kept: Tensor) -> "Release":
        """Returns the release of the examples where `kept`, bool (n,), holds."""
        per_example = self.prior is not None and self.prior.dim() == 2
        prior = self.prior[kept] if self.prior is not None and per_example else self.prior
        return Release(
            self.indices[kept], self.outputs[kept], self.mechanism, self.num_classes, prior
        )

    @cached_property
    def log_likelihood(self) -> Tensor:
        """Exact log P(output | true label = c), float64 (n, K)."""
        return self.mechanism.log_likelihood(self.outputs, self.num_classes, self.prior)

    @cached_property
    def plausible(self) -> Tensor:
        """Which classes explain the output best, bool (n, K): the argmax set of the likelihood."""
        return self.log_likelihood == self.log_likelihood.amax(1, keepdim=True)


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: which mechanism touched how many labels, at what cost each."""

    mechanism: str
    trust: str
    eps: float
    num_labels: int


class LabelVault:
    """The only holder of true training labels.

    A vault is made closed (budget 0, nothing leaves it) by the data layer; `open` gives a vault
    over the same labels with a budget per label, its own ledger and its own noise. Releases of
    one label add up; releases of different labels do not (parallel composition).

    Args:
        true_labels: int64 (N,), values in [0, K), CPU; copied.
        num_classes: K >= 2.
    """

    def __init__(self, true_labels: Tensor, num_classes: int) -> None:
        self.__labels = check_labels(true_labels, num_classes).clone()
        self.num_classes = num_classes
        self.budget = 0.0
        self.ledger: list[LedgerEntry] = []
        self._spent = torch.zeros(len(true_labels), dtype=torch.float64)
        self._releases: list[Release] = []
        self._generator = torch.Generator()

    def open(self, budget: float, seed: int) -> "LabelVault":
        """Returns a vault over the same labels that may spend `budget` on each of them.

        Args:
            budget: eps per label, > 0; `inf` allowed.
            seed: seed of the run; the noise comes from its stream "privacy".
        """
        vault = LabelVault(self.__labels, self.num_classes)
        vault.budget = check_eps(budget)
        vault._generator = seeding.generator(seed, "privacy")
        return vault

    def __len__(self) -> int:
        return len(self._spent)

    def release(
        self, mechanism: Mechanism, indices: Tensor | None = None, prior: Tensor | None = None
    ) -> Release:
        """Returns one release for each of `indices` (default: all labels) and books its cost.

        Args:
            mechanism: draws the noise, once.
            indices: int64 (n,), distinct positions in [0, N).
            prior: what the mechanism may assume; it must come from other labels than these.

        Raises:
            BudgetError: a label would be spent beyond the budget; raised before anything leaves.
            InputError: indices out of range or repeated.
        """
        indices = torch.arange(len(self)) if indices is None else self._check_indices(indices)
        after = self._spend(indices, mechanism.eps)
        outputs = mechanism.release(
            self.__labels[indices], self.num_classes, self._generator, prior
        )
        self._book(type(mechanism).__name__, mechanism.trust, mechanism.eps, indices, after)
        self._releases.append(Release(indices, outputs, mechanism, self.num_classes, prior))
        return self._releases[-1]

    def release_histogram(self, indices: Tensor, eps: float) -> Tensor:
        """Returns the label counts of `indices` with Laplace noise, float64 (K,); central.

        eps-label-DP under label replacement: one label moves two counts by 1, so the scale is
        2 / eps. A curator sees the labels that are counted.

        Args:
            indices: int64 (n,), distinct positions in [0, N).
            eps: > 0, charged to each of them; `inf` gives exact counts.

        Raises:
            BudgetError, InputError: as `release`.
        """
        indices = self._check_indices(indices)
        after = self._spend(indices, check_eps(eps))
        counts = torch.bincount(self.__labels[indices], minlength=self.num_classes)
        uniform = torch.rand(2, self.num_classes, generator=self._generator, dtype=torch.float64)
        # A difference of two exponentials is Laplace, and never infinite.
        exponentials = -torch.log1p(-uniform)
        self._book("LaplaceHistogram", "central", eps, indices, after)
        return counts + (exponentials[0] - exponentials[1]) * (2 / eps)

    @property
    def trust(self) -> str:
        """Who saw true labels: the weakest of all ledger lines."""
        order = ("local", "central", "none")
        return max((entry.trust for entry in self.ledger), key=order.index, default="local")

    @property
    def eps_spent(self) -> float:
        """What the worst-off label has spent."""
        return float(self._spent.max()) if len(self) else 0.0

    @property
    def released_agreement(self) -> float | None:
        """Share of true labels in the argmax set of their release, divided by that set's size.

        The evaluation door: a diagnostic for the record, not covered by eps; learners do not see
        it. None before the first release.
        """
        if not self._releases:
            return None
        agreement = torch.cat([self._agreement(release) for release in self._releases])
        return float(agreement.mean())

    def _agreement(self, release: Release) -> Tensor:
        true_labels = self.__labels[release.indices]
        hit = release.plausible.gather(1, true_labels[:, None]).squeeze(1)
        return hit.to(torch.float64) / release.plausible.sum(1)

    def _spend(self, indices: Tensor, eps: float) -> Tensor:
        """Returns what the labels will have spent; raises before anything leaves."""
        after = self._spent[indices] + eps
        # The tolerance absorbs the rounding of a budget that was split into parts.
        if len(after) and after.max() > self.budget * (1 + 1e-12):
            raise BudgetError(
                f"label budget exceeded: a label has spent {float(self._spent[indices].max()):g}, "
                f"this release costs {eps:g}, the budget is {self.budget:g} "
                "(release each label once, or split eps over the releases)"
            )
        return after

    def _book(self, name: str, trust: str, eps: float, indices: Tensor, after: Tensor) -> None:
        self._spent[indices] = after
        self.ledger.append(LedgerEntry(name, trust, eps, len(indices)))

    def _check_indices(self, indices: Tensor) -> Tensor:
        if indices.numel() and (indices.min() < 0 or indices.max() >= len(self)):
            raise InputError(f"indices must be in [0, {len(self) - 1}], got one outside")
        if len(indices.unique()) != len(indices):
            raise InputError("indices must be distinct: a label is released once")
        return indices
