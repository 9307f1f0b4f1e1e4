"""The wall: the one place that holds true training labels."""

import math
import traceback
from collections.abc import Callable
from typing import NoReturn, SupportsIndex

import torch
from torch import Tensor

from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.mechanisms.classes import ClassMechanism
from labeldp_bench.mechanisms.draws import discrete_laplace, numpy_stream
from labeldp_bench.mechanisms.version import DRAWS, HISTOGRAM
from labeldp_bench.privacy.ledger import BudgetError, Ledger, LedgerEntry
from labeldp_bench.privacy.noise import Drawn, DrawnReleases, NoiseStreams, spelled
from labeldp_bench.privacy.release import Release, ReleaseError
from labeldp_bench.support.validate import InputError, check_eps, check_labels, check_values


class LabelVault:
    """The only holder of true training labels.

    A vault is made closed (budget 0, nothing leaves it) by the data layer; `open` gives a vault
    over the same labels with a budget per label, its own ledger and its own noise. Releases of
    one label add up; releases of different labels do not (parallel composition). Learners get a
    `ReleaseDoor`. An open vault cannot be copied, pickled or opened, a closed one is opened once: a
    second ledger would hide a second draw. Who needs another opening says what for, and
    `spent_in_all` adds up what all of them spent.

    Args:
        true_labels: int64 (N,), values in [0, K), or real labels, float64 (N,); CPU; copied.
        num_classes: K >= 2; 0 for real labels.
        bound: real labels lie in [-bound, bound], which is public; infinity is allowed.
        absent: the labels are not in this process, and `true_labels` are zeros in their place.
            Nothing can be drawn: only what another process released is given again
            (`load_state_dict`).
    """

    def __init__(
        self,
        true_labels: Tensor,
        num_classes: int,
        bound: float | None = None,
        *,
        absent: bool = False,
    ) -> None:
        if bound is None:
            self.__labels = check_labels(true_labels, num_classes).clone()
        else:
            self.__labels = check_values(true_labels, bound).clone()
        self.num_classes = num_classes
        self.bound = bound
        self._limit = num_classes if bound is None else bound
        self._ledger = Ledger(len(true_labels), budget=0.0)
        self._releases: list[Release] = []
        self._noise = NoiseStreams(0, "")  # a closed vault draws none
        self._drawn = DrawnReleases()
        self._absent = absent
        self._openings: list[Ledger] = []
        self.draws = DRAWS  # the largest version of what was released

    def open(
        self, budget: float, seed: int | None, data: str = "", *, again: str | None = None
    ) -> "LabelVault":
        """Returns a vault over the same labels that may spend `budget` on each of them.

        Args:
            budget: eps per label, > 0; `inf` allowed.
            seed: of the run. The noise follows from it, so that anybody who knows the seed can
                undo the noise. None: secret randomness, of which no seed exists.
            data: names the data set among those that are released under one seed.
            again: why a vault that was opened before is opened once more.

        Raises:
            BudgetError: the vault is open, or it was opened before and `again` says nothing.
        """
        if self.budget > 0:
            raise BudgetError("the vault is open; only a closed one can be opened")
        if self._openings and not again:
            raise BudgetError(
                "the vault was opened before: a second ledger would hide what the first one spent "
                "(say again='what for'; spent_in_all adds up all openings)"
            )
        vault = LabelVault(self.__labels, self.num_classes, self.bound, absent=self._absent)
        vault._ledger.budget = check_eps(budget)
        self._openings.append(vault._ledger)
        vault._noise = NoiseStreams(seed, data)
        return vault

    @property
    def budget(self) -> float:
        """What may be spent on each label; 0 while the vault is closed."""
        return self._ledger.budget

    @property
    def spent_in_all(self) -> float:
        """What the worst-off label has spent over all openings of this closed vault."""
        spent = [ledger.spent for ledger in self._openings]
        return float(torch.stack(spent).sum(0).max()) if spent and len(self) else 0.0

    def __len__(self) -> int:
        return len(self.__labels)

    def _true(self, indices: Tensor | slice) -> Tensor:
        """Returns true labels, for the mechanism's hand alone."""
        if self._absent:
            raise BudgetError(
                "the labels are not here, and what is asked for was not released before (make the "
                "file of releases= with the same mechanism and learner)"
            )
        return self.__labels[indices]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a LabelVault holds true labels: it cannot be copied or pickled")

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
            InputError: indices out of range or repeated, or the mechanism refuses the prior.
            ReleaseError: the mechanism failed. Nothing was booked, as nothing left.
        """
        self.check_task(mechanism)
        part = indices
        indices = torch.arange(len(self)) if part is None else self._ledger.check_indices(part)
        spending = slice(None) if part is None else indices
        self._ledger.check(spending, check_eps(mechanism.eps))
        number, name = len(self.ledger), spelled(mechanism)

        def draw() -> Tensor:
            noise = self._noise.stream(number, name, part, prior)
            return mechanism.release(self._true(indices), self._limit, noise, prior)

        drawn = self._drawn.once(number, name, indices, prior, lambda: _guarded(mechanism, draw))
        self._ledger.book(type(mechanism).__name__, mechanism.trust, mechanism.eps, spending)
        self.draws = max(self.draws, mechanism.draws)
        outputs, prior = drawn["outputs"], drawn["prior"]
        release = Release(indices, outputs, mechanism, self.num_classes, prior)
        if self.bound is None:  # real labels have no classes to agree with
            self._releases.append(release)
        return release

    def release_messages(self, mechanism: ClassMechanism) -> Tensor:
        """Returns one release of every label in its small form, and books its cost.

        Args:
            mechanism: draws the noise, once; `mechanism.form` reads the messages.

        Returns:
            Messages, (N,) or (N, w).

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)
        self._ledger.check(slice(None), check_eps(mechanism.eps))
        form, number, name = mechanism.form(self.num_classes), len(self.ledger), spelled(mechanism)
        messages = _guarded(
            mechanism,
            lambda: form.draw(self._true(slice(None)), self._noise.stream(number, name)),
        )
        self._ledger.book(type(mechanism).__name__, mechanism.trust, mechanism.eps, slice(None))
        return messages

    def release_groups(self, mechanism: Mechanism, groups: Tensor, num_groups: int) -> Tensor:
        """Returns what `mechanism` releases about each group of labels, and books all labels.

        A local mechanism releases every label once, and the outputs are added up in each group;
        it may draw the sum from its exact law. A central one has a curator see the labels. Groups
        are disjoint and come from features, so that a label is in one of them.

        Args:
            mechanism: local or central.
            groups: int64 (N,), the group of each label, in [0, G).
            num_groups: G, fixed in advance.

        Returns:
            Float64 sums (G, K), int64 classes (G,) or float64 means or sums (G,).

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)
        if groups.dtype != torch.int64 or groups.shape != (len(self),):
            raise InputError(f"groups must be int64 of shape ({len(self)},), one for each label")
        self._ledger.check(slice(None), check_eps(mechanism.eps))
        number, name = len(self.ledger), f"{spelled(mechanism)}/groups={num_groups}"

        def draw() -> Tensor:
            noise = self._noise.stream(number, name, groups)
            labels = self._true(slice(None)).clone()
            return mechanism.release_groups(labels, self._limit, groups, num_groups, noise)

        drawn = self._drawn.once(number, name, groups, None, lambda: _guarded(mechanism, draw))
        outputs = drawn["outputs"]
        self._ledger.book(type(mechanism).__name__, mechanism.trust, mechanism.eps, slice(None))
        self.draws = max(self.draws, mechanism.draws)
        return outputs

    def release_moments(self, mechanism: Mechanism, rows: Tensor) -> Tensor:
        """Returns what `mechanism` releases of the sums of the rows of each class; central.

        Args:
            mechanism: draws the noise, once. A curator sees the labels.
            rows: public features, (N, d), CPU, each of length at most 1.

        Returns:
            Float64 (d, K), or (T, d, K) of a mechanism that answers T steps at once.

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)
        if rows.dim() != 2 or len(rows) != len(self):
            raise InputError(f"rows must have shape ({len(self)}, d), one for each label")
        self._ledger.check(slice(None), check_eps(mechanism.eps))
        number, name = len(self.ledger), f"{spelled(mechanism)}/moments"
        everyone = torch.arange(len(self))

        def draw() -> Tensor:
            noise = self._noise.stream(number, name, rows)
            labels = self._true(slice(None)).clone()
            return mechanism.release_moments(labels, self._limit, rows, noise)

        drawn = self._drawn.once(number, name, everyone, None, lambda: _guarded(mechanism, draw))
        self._ledger.book(type(mechanism).__name__, mechanism.trust, mechanism.eps, slice(None))
        return drawn["outputs"]

    def release_histogram(self, indices: Tensor, eps: float) -> Tensor:
        """Returns the label counts of `indices` with discrete Laplace noise, float64 (K,); central.

        eps-label-DP under label replacement: one label moves two counts by 1, so the scale is
        2 / eps. A curator sees the labels that are counted.

        Args:
            indices: int64 (n,), distinct positions in [0, N).
            eps: > 0, charged to each of them; `inf` gives exact counts.

        Raises:
            BudgetError, InputError: as `release`.
        """
        if self.bound is not None:
            raise InputError(
                "a histogram counts classes, and this data set has real labels (use "
                "mechanism=laplace)"
            )
        indices = self._ledger.check_indices(indices)
        self._ledger.check(indices, check_eps(eps))
        number, name = len(self.ledger), f"LaplaceHistogram(eps={eps!r})"

        def draw() -> Tensor:
            counts = torch.bincount(self._true(indices), minlength=self.num_classes)
            noise = self._noise.stream(number, name, indices)
            drawn = discrete_laplace((self.num_classes,), 2 / eps, numpy_stream(noise))
            return (counts + torch.from_numpy(drawn)).to(torch.float64)

        noisy = self._drawn.once(number, name, indices, None, draw)["outputs"]
        self._ledger.book("LaplaceHistogram", "central", eps, indices)
        self.draws = max(self.draws, HISTOGRAM)
        return noisy

    def state_dict(self) -> dict[str, Drawn]:
        """Returns what left the vault, for a checkpoint; it holds no true label."""
        return self._drawn.left

    def load_state_dict(self, state: dict[str, Drawn]) -> None:
        """Takes what left the vault before a run was cut off.

        The same releases give the same outputs again, and are booked; only new ones draw noise.
        """
        self._drawn.earlier = dict(state)

    def trusted_labels(self, mechanism: Mechanism, reason: str, indices: Tensor) -> Tensor:
        """Returns true labels themselves, int64 (n,), to a scheme without a guarantee.

        Each costs eps = inf, and the ledger says trust `none` and the reason.

        Args:
            mechanism: on whose behalf; one that says `private = False`.
            reason: what the labels are for, in a few words.
            indices: int64 (n,), distinct positions in [0, N).

        Raises:
            BudgetError: the mechanism claims privacy, or the run has a finite budget.
            InputError: as `release`.
        """
        name = type(mechanism).__name__
        if mechanism.private:
            raise BudgetError(
                f"{name} claims privacy, so nobody gets true labels on its behalf "
                "(use release; true labels are for mechanisms with private = False)"
            )
        indices = self._ledger.check_indices(indices)
        self._ledger.check(indices, math.inf)
        labels = self._true(indices).clone()
        self._ledger.book(name, "none", math.inf, indices, reason)
        return labels

    def publish(self, mechanism: Mechanism, outputs: Tensor, indices: Tensor) -> Release:
        """Returns `outputs`, which were computed from trusted labels, as the release of `indices`.

        Costs nothing beyond `trusted_labels`, which must have come first.

        Raises:
            BudgetError: nobody was trusted with a label, or it has its release already.
        """
        indices = self._ledger.check_indices(indices)
        before = [release.indices for release in self._releases]
        if (
            not self._ledger.spent[indices].isinf().all()
            or torch.isin(indices, torch.cat([*before, indices[:0]])).any()
        ):
            raise BudgetError("a label can be published once, after trusted_labels has paid for it")
        self._releases.append(Release(indices, outputs, mechanism, self.num_classes))
        return self._releases[-1]

    @property
    def ledger(self) -> list[LedgerEntry]:
        """One line for each release, in order."""
        return self._ledger.entries

    @property
    def trust(self) -> str:
        """Who saw true labels: the weakest of all ledger lines."""
        return self._ledger.trust

    @property
    def eps_spent(self) -> float:
        """What the worst-off label has spent."""
        return self._ledger.worst

    @property
    def releases(self) -> tuple[Release, ...]:
        """What has left the vault so far: all that an attacker gets to see."""
        return tuple(self._releases)

    @property
    def released_agreement(self) -> float | None:
        """Share of true labels in the argmax set of their release, divided by that set's size.

        None before the first release, or where the labels are absent. A diagnostic for the record,
        not covered by eps: asked after each single release it would tell every label, so that no
        learner's door leads here.
        """
        if not self._releases or self._absent:
            return None
        shares = [release.agreement(self.__labels[release.indices]) for release in self._releases]
        return float(torch.cat(shares).mean())

    @property
    def response_accuracy(self) -> float | None:
        """Share of true labels that are the first choice of their release.

        None like `released_agreement`. Like `released_agreement`, it is not covered by eps.
        """
        if not self._releases or self._absent:
            return None
        hits = [each.first_choice == self.__labels[each.indices] for each in self._releases]
        return float(torch.cat(hits).double().mean())

    def check_task(self, mechanism: Mechanism) -> None:
        """Refuses a mechanism for another kind of label."""
        real = self.bound is not None
        if ("regression" if real else "classification") not in mechanism.tasks:
            has = "real labels (use mechanism=laplace" if real else "classes (use mechanism=rappor"
            raise InputError(
                f"{type(mechanism).__name__} is made for {mechanism.tasks[0]}, and this data set "
                f"has {has})"
            )


def _guarded(mechanism: Mechanism, draw: Callable[[], Tensor]) -> Tensor:
    """Returns what the mechanism draws; an exception takes no true label along."""
    try:
        return draw()
    except InputError as error:  # says what is wrong with arguments other than the labels
        traceback.clear_frames(error.__traceback__)
        failure: Exception = InputError(str(error))
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        failure = ReleaseError(
            f"{type(mechanism).__name__}.release failed with {type(error).__name__}; its message "
            "is withheld, as it may hold true labels (call it on made-up labels to see it)"
        )
    raise failure  # with no cause and no frame of the one that was caught
