"""The wall: the one place that holds true training labels."""

from collections.abc import Callable
from functools import partial
from typing import NoReturn, SupportsIndex

import torch
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism, Mechanism
from labeldp.mechanisms.moments import Descent, LabelDPPro
from labeldp.mechanisms.noise import HISTOGRAM, Noise, discrete_laplace, numpy_stream
from labeldp.mechanisms.pate import PateFM
from labeldp.store.account import Account, Request, check_task
from labeldp.store.ledger import BudgetError, LedgerEntry
from labeldp.store.noise import Drawn, NoiseStreams
from labeldp.store.release import StoredRelease
from labeldp.store.teacher_votes import Vote, by_one_teacher, counted
from labeldp.support.validate import InputError, check_eps, check_labels, check_values

Labels = Callable[[Tensor | slice], Tensor]
"""Gives labels at some positions."""


def histogram_scale(eps: float) -> float:
    """Returns the scale of the noise on a label count: a replaced label moves two counts by 1.

    >>> histogram_scale(0.5)
    4.0
    """
    return 2 / eps


class LabelStore:
    """The only holder of true training labels.

    The data layer makes a store closed: eps is 0 and nothing leaves it. `open` gives a store over
    the same labels with an eps for each label and an account of its own. Releases of one label add
    up; releases of different labels do not (parallel composition). Learners get a `LabelStore`. An
    open store cannot be copied, pickled or opened, and a closed one is opened once: a second ledger
    would hide a second draw. Who needs another opening says what for, and `spent_in_all` adds up
    what all of them spent.

    Args:
        true_labels: int64 (N,), values in [0, K), or real labels, float64 (N,); CPU; copied.
        num_classes: K >= 2; 0 for real labels.
        bound: real labels lie in [-bound, bound], which is public; infinity is allowed.
        absent: the labels are not in this process, and `true_labels` are zeros in their place.
            Nothing can be drawn: what another process released is given again (`load_state_dict`).
    """

    def __init__(
        self,
        true_labels: Tensor,
        num_classes: int,
        bound: float | None = None,
        *,
        absent: bool = False,
    ) -> None:
        self.__labels = (
            check_labels(true_labels, num_classes)
            if bound is None
            else check_values(true_labels, bound)
        ).clone()
        self.num_classes = num_classes
        self.bound = bound
        self._limit = num_classes if bound is None else bound
        self._account = Account(len(true_labels), 0.0, NoiseStreams(0, ""))  # closed: no noise
        self._absent = absent
        self._openings: list[Account] = []
        self.unsanitised: dict[str, float] = {}
        """What a curator found in the labels and did not protect; for the record, not for eps."""

    def open(
        self, eps: float, seed: int | None, data: str = "", *, again: str | None = None
    ) -> "LabelStore":
        """Returns a store over the same labels that may spend `eps` on each of them.

        Args:
            eps: of each label, > 0; `inf` allowed.
            seed: of the run. The noise follows from it, so that anybody who knows the seed can
                undo the noise. None: secret randomness, of which no seed exists.
            data: names the data set among those that are released under one seed.
            again: why a store that was opened before is opened once more.

        Raises:
            BudgetError: the store is open, or it was opened before and `again` says nothing.
        """
        if self.eps > 0:
            raise BudgetError("the store is open; only a closed one can be opened")
        if self._openings and not again:
            raise BudgetError(
                "the store was opened before, and a second ledger hides what the first one spent "
                "(say again='what for'; spent_in_all adds up all openings)"
            )
        store = LabelStore(self.__labels, self.num_classes, self.bound, absent=self._absent)
        store._account = Account(len(self), check_eps(eps), NoiseStreams(seed, data))
        self._openings.append(store._account)
        return store

    @property
    def eps(self) -> float:
        """What may be spent on each label; 0 while the store is closed."""
        return self._account.ledger.eps

    @property
    def spent_in_all(self) -> float:
        """What the worst-off label has spent over all openings of this closed store."""
        spent = [account.ledger.spent for account in self._openings]
        return float(torch.stack(spent).sum(0).max()) if spent and len(self) else 0.0

    def __len__(self) -> int:
        return len(self.__labels)

    def _true(self, indices: Tensor | slice) -> Tensor:
        """Returns a copy of true labels, for the mechanism's hand alone."""
        return self._present(indices).clone()

    def _made_up(self, indices: Tensor | slice) -> Tensor:
        """Returns zeros in place of true labels."""
        return torch.zeros_like(self._present(indices))

    def _present(self, indices: Tensor | slice) -> Tensor:
        if self._absent:
            raise BudgetError(
                "the labels are not here, and the file of releases= does not hold this release "
                "(make that file with the same mechanism and learner)"
            )
        return self.__labels[indices]

    def _once(self, asked: Request, draw: Callable[[Labels, Noise], Tensor]) -> Drawn:
        """Returns what `draw` makes of true labels, once; see `Account.once`."""
        return self._account.once(asked, partial(draw, self._true), partial(draw, self._made_up))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a LabelStore holds true labels: it cannot be copied or pickled")

    def release(
        self, mechanism: Mechanism, indices: Tensor | None = None, prior: Tensor | None = None
    ) -> StoredRelease:
        """Returns one release for each of `indices` (default: all labels) and books its cost.

        Args:
            mechanism: draws the noise, once.
            indices: int64 (n,), distinct positions in [0, N).
            prior: what the mechanism may assume; it must come from other labels than these.

        Raises:
            BudgetError: a label would spend more than its eps; raised before anything leaves.
            InputError: indices out of range or repeated, or the mechanism refuses the prior.
            ReleaseError: the mechanism failed. Nothing was booked, as nothing left.
        """
        self.check_task(mechanism)
        part = None if indices is None else self._account.ledger.check_indices(indices)

        def draw(true: Labels, noise: Noise) -> Tensor:
            labels = true(slice(None) if part is None else part)
            return mechanism.release(labels, self._limit, noise, prior)

        drawn = self._once(Request.of(mechanism, part=part, prior=prior), draw)
        release = StoredRelease(
            drawn["indices"], drawn["outputs"], mechanism, self.num_classes, drawn["prior"]
        )
        if self.bound is None:  # real labels have no classes to agree with
            self._account.releases.append(release)
        return release

    def release_messages(self, mechanism: ClassMechanism) -> Tensor:
        """Returns one release of every label in its small form, and books its cost.

        Args:
            mechanism: draws the noise, once; `mechanism.encoding` reads the messages.

        Returns:
            Messages, (N,) or (N, w).

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)
        form = mechanism.encoding(self.num_classes)

        def draw(true: Labels, noise: Noise) -> Tensor:
            return form.draw(true(slice(None)), noise)

        return self._once(Request.of(mechanism), draw)["outputs"]

    def release_groups(self, mechanism: Mechanism, groups: Tensor, num_groups: int) -> Tensor:
        """Returns what `mechanism` releases about each group of labels, and books all labels.

        A local mechanism's outputs are added up in each group, or their sum is drawn from its law.
        A central one has a curator see the labels. Groups come from public features.

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

        def draw(true: Labels, noise: Noise) -> Tensor:
            labels = true(slice(None))
            return mechanism.release_groups(labels, self._limit, groups, num_groups, noise)

        asked = Request.of(mechanism, f"/groups={num_groups}", groups=groups)
        return self._once(asked, draw)["outputs"]

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

        def draw(true: Labels, noise: Noise) -> Tensor:
            return mechanism.release_moments(true(slice(None)), self._limit, rows, noise)

        return self._once(Request.of(mechanism, "/moments", rows=rows), draw)["outputs"]

    def release_votes(self, mechanism: PateFM, parts: Tensor, vote: Vote, settings: str) -> Tensor:
        """Returns what `mechanism` releases of the votes of teachers; central.

        Every teacher is called once, with the labels of its own part and no others. So a replaced
        label changes the votes of one teacher.

        Args:
            mechanism: draws the noise, once. A curator sees the labels and trains the teachers.
            parts: int64 (N,), the teacher of each label, in [0, n), by features and chance alone.
            vote: called with the positions and the true labels of a part, int64 (m,) each; trains
                its teacher and returns a class for each query, int64 (Q,). It must keep nothing,
                which the store cannot enforce: eps holds for a vote that does not.
            settings: names all that votes depend on beside the labels, as `release_descent`: other
                teachers must not get the same noise.

        Returns:
            Int64 (Q,): the winners, and `REFUSED` where there is none.

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)
        if parts.dtype != torch.int64 or parts.shape != (len(self),):
            raise InputError(f"parts must be int64 of shape ({len(self)},), one for each label")

        def asked(labels: Tensor, vote: Vote) -> Tensor:
            teachers, queries = mechanism.teachers, mechanism.queries
            return counted(vote, labels, parts, teachers, queries, self.num_classes)

        found: dict[str, float] = {}

        def draw(noise: Noise) -> Tensor:
            counts = asked(self._true(slice(None)), vote)
            released = mechanism.release_votes(counts, noise)
            found.update(mechanism.unsanitised(counts, released))
            return released

        def made_up(noise: Noise) -> Tensor:
            return asked(self._made_up(slice(None)), by_one_teacher(vote))

        request = Request.of(mechanism, f"/votes/{settings}", groups=parts)
        drawn = self._account.once(request, draw, made_up)
        # Kept with what left: a run that goes on asks no teacher again, and has the same record.
        self.unsanitised = drawn.setdefault("unsanitised", found)
        return drawn["outputs"]

    def release_descent(self, mechanism: LabelDPPro, descent: Descent, settings: str) -> Tensor:
        """Returns the weights to which noisy gradients, step after step, led `descent`; central.

        Args:
            mechanism: draws the noise of all steps. A curator sees the labels.
            descent: asks for gradients, at true labels; as a vote, it must keep nothing of them.
            settings: names all that its steps depend on, next to its first weights: another descent
                must not get the same noise.

        Returns:
            Float32 (P,).

        Raises:
            BudgetError, InputError, ReleaseError: as `release`.
        """
        self.check_task(mechanism)

        def draw(noise: Noise) -> Tensor:
            return mechanism.release_descent(self._true(slice(None)), descent, noise)

        asked = Request.of(mechanism, f"/descent/{settings}", rows=descent.weights)
        return self._account.once(asked, draw)["outputs"]

    def release_histogram(self, indices: Tensor, eps: float) -> Tensor:
        """Returns the label counts of `indices` with discrete Laplace noise, float64 (K,); central.

        eps-label-DP, by the scale that `histogram_scale` says.

        Args:
            indices: int64 (n,), distinct positions in [0, N).
            eps: > 0, charged to each of them; `inf` gives exact counts.

        Raises:
            BudgetError, InputError: as `release`.
        """
        if self.bound is not None:
            raise InputError("a histogram counts classes, not real labels (use mechanism=laplace)")
        indices, eps = self._account.ledger.check_indices(indices), check_eps(eps)
        scale = histogram_scale(eps)

        def draw(true: Labels, noise: Noise) -> Tensor:
            counts = torch.bincount(true(indices), minlength=self.num_classes)
            drawn = discrete_laplace((self.num_classes,), scale, numpy_stream(noise))
            return (counts + torch.from_numpy(drawn)).to(torch.float64)

        name = "LaplaceHistogram"
        asked = Request(name, f"{name}(eps={eps!r})", "central", eps, HISTOGRAM, part=indices)
        return self._once(asked, draw)["outputs"]

    def state_dict(self) -> dict[str, Drawn]:
        """Returns what left the store, for a checkpoint; it holds no true label.

        What left before a run was cut off is in it, though nobody has asked for it again yet.
        """
        drawn = self._account.drawn
        return {**drawn.earlier, **drawn.left}

    def load_state_dict(self, state: dict[str, Drawn]) -> None:
        """Takes what left the store before a run was cut off.

        The same requests get the same outputs again, and are booked; only new ones draw noise.
        """
        self._account.drawn.earlier = dict(state)

    def trusted_labels(self, mechanism: Mechanism, reason: str, indices: Tensor) -> Tensor:
        """Returns true labels themselves, int64 (n,), to a scheme without a guarantee, at eps=inf.

        Args:
            mechanism: on whose behalf; one that says `private = False`.
            reason: what the labels are for, for the ledger.
            indices: as `release`.

        Raises:
            BudgetError: the mechanism claims privacy, or the run has a finite budget.
            InputError: as `release`.
        """
        return self._account.trust_with(mechanism, reason, indices, lambda: self._true(indices))

    def publish(self, mechanism: Mechanism, outputs: Tensor, indices: Tensor) -> StoredRelease:
        """Returns `outputs`, which were computed from trusted labels, as the release of `indices`.

        Raises:
            BudgetError: `trusted_labels` did not pay for a label, or it has its release already.
        """
        indices = self._account.ledger.check_indices(indices)
        return self._account.publish(StoredRelease(indices, outputs, mechanism, self.num_classes))

    @property
    def ledger(self) -> list[LedgerEntry]:
        """One line for each release, in order."""
        return self._account.ledger.entries

    @property
    def trust(self) -> str:
        """Who saw true labels: the weakest of all ledger lines."""
        return self._account.ledger.trust

    @property
    def eps_spent(self) -> float:
        """What the worst-off label has spent."""
        return self._account.ledger.worst

    @property
    def delta(self) -> float:
        """By how much a probability may exceed what eps allows, of the worst-off label."""
        return self._account.ledger.worst_delta

    @property
    def draws(self) -> int:
        """The largest version of the draws of what was released."""
        return self._account.draws

    @property
    def releases(self) -> tuple[StoredRelease, ...]:
        """What has left the store so far: all that an attacker gets to see."""
        return tuple(self._account.releases)

    @property
    def released_agreement(self) -> float | None:
        """Share of true labels in the argmax set of their release, divided by that set's size.

        None before the first release, or where the labels are absent. A diagnostic for the record,
        not covered by eps: asked after each single release it would tell every label.
        """
        return self._mean(lambda release, labels: release.agreement(labels))

    @property
    def response_accuracy(self) -> float | None:
        """Share of true labels that are the first choice of their release.

        A diagnostic, None and not covered by eps as `released_agreement`.
        """
        return self._mean(lambda release, labels: release.first_choice == labels)

    def _mean(self, measure: Callable[[StoredRelease, Tensor], Tensor]) -> float | None:
        if not self.releases or self._absent:
            return None
        found = [measure(each, self.__labels[each.indices]) for each in self.releases]
        return float(torch.cat(found).double().mean())

    def check_task(self, mechanism: Mechanism) -> None:
        """Refuses a mechanism for another kind of label."""
        check_task(mechanism, real=self.bound is not None)
