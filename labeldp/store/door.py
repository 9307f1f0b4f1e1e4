"""The learner's side of the wall."""

from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.moments import Descent, LabelDPPro
from labeldp.mechanisms.pate import PateFM
from labeldp.store.release import Release
from labeldp.store.teacher_votes import Vote
from labeldp.store.vault import LabelVault


class ReleaseDoor:
    """A learner's side of a vault: it can ask for releases, within eps, and nothing else.

    A learner gets true labels only on behalf of a mechanism without a guarantee. It cannot change
    eps, edit the ledger or reach the evaluation. The door guards against mistakes; Python
    cannot stop code that sets out to read private names (docs/privacy.md).
    """

    __slots__ = ("__vault",)

    def __init__(self, vault: LabelVault) -> None:
        self.__vault = vault

    def __len__(self) -> int:
        return len(self.__vault)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.__vault.num_classes

    @property
    def bound(self) -> float | None:
        """Real labels lie in [-bound, bound]; None for classes."""
        return self.__vault.bound

    @property
    def eps(self) -> float:
        """What may be spent on each label in all."""
        return self.__vault.eps

    def release(
        self, mechanism: Mechanism, indices: Tensor | None = None, prior: Tensor | None = None
    ) -> Release:
        """Returns one release for each of `indices`; see `LabelVault.release`."""
        return self.__vault.release(mechanism, indices, prior)

    def release_groups(self, mechanism: Mechanism, groups: Tensor, num_groups: int) -> Tensor:
        """Returns what is released about groups of labels; see `LabelVault.release_groups`."""
        return self.__vault.release_groups(mechanism, groups, num_groups)

    def release_moments(self, mechanism: Mechanism, rows: Tensor) -> Tensor:
        """Returns what is released of sums of features; see `LabelVault.release_moments`."""
        return self.__vault.release_moments(mechanism, rows)

    def release_votes(self, mechanism: PateFM, parts: Tensor, vote: Vote, settings: str) -> Tensor:
        """Returns what is released of teachers' votes; see `LabelVault.release_votes`."""
        return self.__vault.release_votes(mechanism, parts, vote, settings)

    def release_descent(self, mechanism: LabelDPPro, descent: Descent, settings: str) -> Tensor:
        """Returns weights learnt from noisy gradients; see `LabelVault.release_descent`."""
        return self.__vault.release_descent(mechanism, descent, settings)

    def release_histogram(self, indices: Tensor, eps: float) -> Tensor:
        """Returns noisy label counts; see `LabelVault.release_histogram`."""
        return self.__vault.release_histogram(indices, eps)

    def trusted_labels(self, mechanism: Mechanism, reason: str, indices: Tensor) -> Tensor:
        """Returns true labels, at eps = inf each; see `LabelVault.trusted_labels`."""
        return self.__vault.trusted_labels(mechanism, reason, indices)

    def publish(self, mechanism: Mechanism, outputs: Tensor, indices: Tensor) -> Release:
        """Returns what was computed from trusted labels as a release; see `LabelVault.publish`."""
        return self.__vault.publish(mechanism, outputs, indices)
