"""The one class that holds true training labels."""

import hashlib
import math
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, NotRequired, SupportsIndex, TypedDict, overload

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.measurement import Measurement, Notes, Trust
from labeldp.mechanisms.noise import DISTRIBUTION, DRAWS, Noise, SecretGenerator
from labeldp.store.account import Account, BudgetError, LedgerEntry
from labeldp.store.release import ReleaseError, StoredRelease
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_eps, check_labels, check_values


class Drawn(TypedDict):
    """What one release gave, what it was about and under which prior; holds no true label.

    `unsanitised`: what else was computed from the labels without protection, for the record.
    """

    indices: Tensor
    outputs: Tensor
    prior: Tensor | None
    unsanitised: NotRequired[Notes]


class LabelStore:
    """The only owner of true training labels.

    The data layer makes a store closed: eps is 0 and nothing leaves it. `open` gives a store over
    the same labels with an eps for each label and an account of its own. Releases of one label add
    up; releases of different labels do not (parallel composition). An open store cannot be copied,
    pickled or opened, and a closed one is opened once: a second account would hide a second draw.
    Who needs another opening says what for, and `spent_in_all` adds up what all of them spent.

    It is a wall against mistakes: Python cannot stop code that sets out to read private names.

    Args:
        true_labels: int64 (N,), values in [0, K), or real labels, float64 (N,); CPU; copied.
        num_classes: K >= 2; 0 for real labels.
        bound: real labels lie in [-bound, bound], which is public; infinity is allowed.

    Attributes:
        unsanitised: what a curator found in the labels and did not protect; for the record.
        draws: the largest version of the draws of what was released.
    """

    def __init__(self, true_labels: Tensor, num_classes: int, bound: float | None = None) -> None:
        if bound is None:
            check_labels(true_labels, num_classes, secret=True)
        else:
            check_values(true_labels, bound)
        self._begin(true_labels.clone(), num_classes, bound)

    def _begin(self, labels: Tensor, num_classes: int, bound: float | None) -> None:
        """Takes labels that were checked; an opening shares those of the closed store."""
        self.__labels = labels
        self.num_classes = num_classes
        self.bound = bound
        self.unsanitised: Notes = {}
        self.draws, self.distribution = DRAWS, DISTRIBUTION
        self._limit = num_classes if bound is None else float(bound)
        self._account = Account(len(labels), 0.0)  # closed: nothing may be spent
        self._openings: list[Account] = []
        self._seed: int | None = None
        self._data = ""
        self._left: dict[str, Drawn] = {}
        self._earlier: dict[str, Drawn] = {}
        self._releases: list[StoredRelease] = []
        self._drawing = threading.Lock()

    def open(
        self, eps: float, seed: int | None, data: str = "", *, again: str | None = None
    ) -> "LabelStore":
        """Returns a store over the same labels that may spend `eps` on each of them.

        Args:
            eps: of each label, > 0; `inf` allowed.
            seed: of the run. The noise follows from it, so that anyone with the seed can remove
                it. None: secret randomness, of which no seed exists.
            data: names the data set among those that are released under one seed.
            again: why a store that was opened before is opened once more.

        Raises:
            BudgetError: the store is open, or it was opened before and `again` says nothing.
        """
        if self.eps > 0:
            raise BudgetError("the store is open; only a closed one can be opened")
        if self._openings and not again:
            raise BudgetError(
                "the store was opened before, and a second account hides what the first one spent "
                "(say again='what for'; spent_in_all adds up all openings)"
            )
        store = LabelStore.__new__(LabelStore)
        store._begin(self.__labels, self.num_classes, self.bound)
        store._account = Account(len(self), check_eps(eps))
        store._seed, store._data = seed, data
        self._openings.append(store._account)
        return store

    def __len__(self) -> int:
        return len(self.__labels)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a LabelStore holds true labels: it cannot be copied or pickled")

    @overload
    def release(  # type: ignore[overload-overlap]  # a Measurement may be a Mechanism
        self, measurement: Mechanism, rows: Tensor | None = None, prior: Tensor | None = None
    ) -> StoredRelease: ...

    @overload
    def release(self, measurement: Measurement, rows: Tensor | None = None) -> Tensor: ...

    def release(
        self, measurement: Measurement, rows: Tensor | None = None, prior: Tensor | None = None
    ) -> StoredRelease | Tensor:
        """Returns what `measurement` releases of the labels of `rows`, and books its cost on each.

        Args:
            measurement: draws the noise, once.
            rows: int64 (n,), distinct positions in [0, N); None: all.
            prior: what a mechanism may assume; it must come from other labels than these.

        Returns:
            The answer; that of a mechanism, which is about single labels, as a `Release`.

        Raises:
            BudgetError: a label would spend more than its eps, or another release is being drawn,
                by another thread or around this one; raised before anything leaves.
            InputError: rows out of range or repeated, or the measurement refuses its arguments.
            ReleaseError: it failed on true labels. Nothing was booked, as nothing left.
        """
        self.check_task(measurement)
        if rows is not None:
            self._account.check_rows(rows)
        if not self._drawing.acquire(blocking=False):
            raise BudgetError("another release of this store is being drawn (ask one at a time)")
        try:
            drawn = self._once(measurement, rows, prior)
        finally:
            self._drawing.release()
        if not isinstance(measurement, Mechanism):
            return drawn["outputs"]
        release = StoredRelease(
            drawn["indices"], drawn["outputs"], measurement, self.num_classes, drawn["prior"]
        )
        if self.bound is None:  # real labels have no classes to agree with
            self._releases.append(release)
        return release

    def _once(self, measurement: Measurement, rows: Tensor | None, prior: Tensor | None) -> Drawn:
        """Returns what is released, drawn once, after all labels can pay, and books it."""
        paying = slice(None) if rows is None else rows
        eps, context = check_eps(measurement.eps_spent), measurement.context
        self._account.check(paying, eps)
        if context is not None and rows is not None:
            raise InputError(f"{measurement.name} is asked about all labels here: leave rows out")
        rehearsal = SecretGenerator() if self._seed is None else torch.Generator()
        measurement.check(len(self._account.spent[paying]), self._limit, rehearsal, prior)
        about = rows if context is None else context
        number, key = len(self.ledger), measurement.key
        name = f"{number} {key}"
        drawn = self._earlier.pop(name, None)
        indices = torch.arange(len(self)) if about is None else about
        if drawn is None:
            noise = self._noise(number, key, about, prior)
            outputs, notes = self._draw(measurement, paying, noise, prior)
            drawn = Drawn(indices=indices, outputs=outputs, prior=prior, unsanitised=notes)
        elif not torch.equal(drawn["indices"], indices):
            raise BudgetError(
                f"release {number} was of other labels before the run was cut off (delete its "
                "checkpoint.pt to start afresh)"
            )
        self._left[name] = drawn
        self._book(measurement, eps, paying, delta=measurement.delta)
        self.draws = max(self.draws, measurement.draws)
        self.distribution = max(self.distribution, measurement.distribution)
        self.unsanitised |= drawn.get("unsanitised", {})
        return drawn

    def _noise(self, number: int, key: str, about: Tensor | None, prior: Tensor | None) -> Noise:
        """Returns the random stream of a release.

        Runs of one seed share no random numbers if they differ in the data set, the mechanism,
        eps, the labels that they ask for, or the prior: two releases with the same random numbers
        would tell more of a label than both budgets together. Where nothing differs, they share
        the release itself.
        """
        if self._seed is None:
            return SecretGenerator()
        seed = str(self._seed).encode()
        digests = ["-" if each is None else digest(each) for each in (about, prior)]
        return seeding.keyed_generator(seed, "privacy", self._data, key, number, *digests)

    def _draw(
        self, measurement: Measurement, rows: Tensor | slice, noise: Noise, prior: Tensor | None
    ) -> tuple[Tensor, Notes]:
        """Returns the answer of true labels; an exception that leaves here holds none of them."""
        try:
            return measurement.answer(self.__labels[rows].clone(), self._limit, noise, prior)
        except BaseException as error:  # also sys.exit, whose status may be a label
            traceback.clear_frames(error.__traceback__)
            failure: BaseException = ReleaseError(
                f"{measurement.name} failed with {type(error).__name__} on true labels; its "
                "message is withheld, as it may hold some (call it on made-up labels to see it)"
            )
            if isinstance(error, KeyboardInterrupt):
                failure = KeyboardInterrupt()
        raise failure  # with no cause and no frame of the one that was caught

    def _book(
        self, measurement: Measurement, eps: float, rows: Tensor | slice, **more: Any
    ) -> None:
        count, trust = len(self._account.spent[rows]), measurement.trust
        self._account.book(LedgerEntry(measurement.name, trust, eps, count, **more), rows)

    def state_dict(self) -> dict[str, Drawn]:
        """Returns what left the store, for a checkpoint; it holds no true label.

        It includes what left before a run was cut off and was not asked for again.
        """
        return {**self._earlier, **self._left}

    def load_state_dict(self, state: dict[str, Drawn]) -> None:
        """Takes what left the store before a run was cut off.

        The same requests get the same outputs again, and are booked; only new ones draw noise.
        """
        self._earlier = dict(state)

    def trusted_labels(self, mechanism: Measurement, reason: str, rows: Tensor) -> Tensor:
        """Returns true labels themselves, int64 (n,), to a scheme without a guarantee, at eps=inf.

        Args:
            mechanism: on whose behalf; one that says `private = False`.
            reason: what the labels are for, for the account.
            rows: as `release`.

        Raises:
            BudgetError: the mechanism claims privacy, or a label may spend only a finite eps.
            InputError: as `release`.
        """
        if mechanism.private:
            raise BudgetError(
                f"{mechanism.name} claims privacy, so it gets no true labels "
                "(use release; true labels are for mechanisms with private = False)"
            )
        self._account.check_rows(rows)
        self._account.check(rows, math.inf)
        self._book(mechanism, math.inf, rows, reason=reason)
        return self.__labels[rows].clone()

    def publish(self, mechanism: Mechanism, outputs: Tensor, rows: Tensor) -> StoredRelease:
        """Returns `outputs`, which were computed from trusted labels, as the release of `rows`.

        Raises:
            BudgetError: `trusted_labels` did not pay for a label, or it has its release already.
        """
        self._account.check_rows(rows)
        released = torch.cat([rows[:0], *(each.indices for each in self._releases)])
        if not self._account.spent[rows].isinf().all() or torch.isin(rows, released).any():
            raise BudgetError("a label can be published once, after trusted_labels has paid for it")
        self._releases.append(StoredRelease(rows, outputs, mechanism, self.num_classes))
        return self._releases[-1]

    @property
    def eps(self) -> float:
        """What may be spent on each label; 0 while the store is closed."""
        return self._account.eps

    @property
    def ledger(self) -> list[LedgerEntry]:
        """One line for each release, in order."""
        return self._account.entries

    @property
    def trust(self) -> Trust:
        """Who saw true labels: the weakest of all lines."""
        return self._account.trust

    @property
    def eps_spent(self) -> float:
        """What the worst-off label has spent."""
        return float(self._account.spent.max()) if len(self) else 0.0

    @property
    def delta(self) -> float:
        """By how much a probability may exceed what eps allows, of the worst-off label."""
        return float(self._account.deltas.max()) if len(self) else 0.0

    @property
    def spent_in_all(self) -> float:
        """What the worst-off label has spent over all openings of this closed store."""
        spent = [account.spent for account in self._openings]
        return float(torch.stack(spent).sum(0).max()) if spent and len(self) else 0.0

    @property
    def releases(self) -> tuple[StoredRelease, ...]:
        """The releases of single class labels so far: all that an attacker gets to see."""
        return tuple(self._releases)

    @property
    def released_agreement(self) -> float | None:
        """Share of true labels in the argmax set of their release, divided by that set's size.

        None before the first release. A diagnostic for the record, not covered by eps: asked after
        each single release it would tell every label.
        """
        return self._mean(lambda release, labels: release.agreement(labels))

    @property
    def response_accuracy(self) -> float | None:
        """Share of true labels that are the first choice of their release.

        A diagnostic, None and not covered by eps as `released_agreement`.
        """
        return self._mean(lambda release, labels: release.first_choice == labels)

    def _mean(self, measure: Callable[[StoredRelease, Tensor], Tensor]) -> float | None:
        if not self._releases:
            return None
        found = [measure(each, self.__labels[each.indices]) for each in self._releases]
        return float(torch.cat(found).double().mean())

    def check_task(self, measurement: Measurement) -> None:
        """Refuses a measurement for another kind of label.

        Raises:
            InputError: it is made for classes and the labels are real, or the other way round.
        """
        task, use = ("classification", "classes (use mechanism=rappor")
        if self.bound is not None:
            task, use = "regression", "real labels (use mechanism=laplace"
        if task not in measurement.tasks:
            raise InputError(
                f"{measurement.name} is made for {measurement.tasks[0]}, and this data set has "
                f"{use})"
            )


def digest(tensor: Tensor) -> str:
    """Returns a hash of a tensor, for the name of a random stream."""
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()
