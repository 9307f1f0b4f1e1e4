"""The account of an open store: what each label has paid, its noise, and what left; no label."""

import math
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.noise import DRAWS, Noise
from labeldp.store.ledger import Budget, BudgetError
from labeldp.store.noise import Drawn, DrawnReleases, NoiseStreams, spelled
from labeldp.store.release import ReleaseError, StoredRelease
from labeldp.support.validate import InputError, check_eps

Draw = Callable[[Noise], Tensor]
"""Draws a release from the noise given."""


@dataclass(frozen=True)
class Request:
    """What is asked of a store.

    Attributes:
        mechanism: its class, for the ledger.
        spelled: its class and parameters, which name the noise of the release.
        trust: who sees true labels, 'local' or 'central'.
        eps: what each label pays, > 0; `inf` is allowed.
        draws: version of its draws.
        part: which labels pay, int64 (n,); None: all.
        groups: of which groups of labels, int64 (N,), or None.
        rows: of sums of which features, (N, d), or None.
        prior: what the mechanism may assume, or None.
        delta: by how much a probability may exceed what eps allows; 0: pure.
    """

    mechanism: str
    spelled: str
    trust: str
    eps: float
    draws: int
    part: Tensor | None = None
    groups: Tensor | None = None
    rows: Tensor | None = None
    prior: Tensor | None = None
    delta: float = 0.0

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        suffix: str = "",
        *,
        part: Tensor | None = None,
        groups: Tensor | None = None,
        rows: Tensor | None = None,
        prior: Tensor | None = None,
    ) -> Self:
        """Returns what a mechanism asks for; `suffix` tells apart what it can release."""
        name, eps = type(mechanism).__name__, check_eps(mechanism.eps)
        named = f"{spelled(mechanism)}{suffix}"
        return cls(
            name, named, mechanism.trust, eps, mechanism.draws, part, groups, rows, prior,
            mechanism.delta,
        )  # fmt: skip

    @property
    def keyed(self) -> Tensor | None:
        """What its noise depends on, so that no two releases share any."""
        return next((each for each in (self.groups, self.rows) if each is not None), self.part)


class Account:
    """What was spent on each label of a store, the noise of each release, and what left.

    Args:
        num_labels: N.
        eps: what each label may spend; 0: nothing.
        noise: the random streams of its releases.

    Attributes:
        ledger: what each label has spent, and on what.
        drawn: what left, for a checkpoint.
        releases: those of single class labels, in order.
        draws: the largest version of what was released.
    """

    def __init__(self, num_labels: int, eps: float, noise: NoiseStreams) -> None:
        self.ledger = Budget(num_labels, eps)
        self.noise = noise
        self.drawn = DrawnReleases()
        self.releases: list[StoredRelease] = []
        self.draws = DRAWS
        self.drawing = threading.Lock()

    def once(self, asked: Request, draw: Draw, made_up: Draw | None = None) -> Drawn:
        """Returns what is released, drawn once, after all labels can pay, and books it.

        Args:
            asked: who asks for what, at which cost.
            draw: draws it from the noise given; the only one that sees true labels.
            made_up: the same of made-up labels. What it does not refuse in the same words may be
                refused because of a label, and these are not passed on. None: no words are.

        Raises:
            BudgetError: a label would spend more than its eps, or a release that is not yet booked
                is being drawn, by another thread or around this one; nothing was drawn.
            InputError: the mechanism refuses what was asked for.
            ReleaseError: the mechanism failed. Nothing was booked, as nothing left.
        """
        if not self.drawing.acquire(blocking=False):
            raise BudgetError("another release of this store is being drawn (ask one at a time)")
        try:
            return self._once(asked, draw, made_up)
        finally:
            self.drawing.release()

    def _once(self, asked: Request, draw: Draw, made_up: Draw | None) -> Drawn:
        paying = slice(None) if asked.part is None else asked.part
        self.ledger.check(paying, asked.eps)
        number = len(self.ledger.entries)

        def drawn() -> Tensor:
            noise = self.noise.stream(number, asked.spelled, asked.keyed, asked.prior)
            return _guarded(asked.mechanism, lambda: draw(noise), made_up)

        whose = asked.part if asked.groups is None else asked.groups
        indices = torch.arange(len(self.ledger.spent)) if whose is None else whose
        found = self.drawn.once(number, asked.spelled, indices, asked.prior, drawn)
        self.ledger.book(asked.mechanism, asked.trust, asked.eps, paying, delta=asked.delta)
        self.draws = max(self.draws, asked.draws)
        return found

    def trust_with(
        self, mechanism: Mechanism, reason: str, indices: Tensor, true: Callable[[], Tensor]
    ) -> Tensor:
        """Returns the labels that `true` gives, after booking eps = inf for each of `indices`.

        Raises:
            BudgetError: the mechanism claims privacy, or a label may spend a finite eps alone.
            InputError: indices out of range or repeated.
        """
        name = type(mechanism).__name__
        if mechanism.private:
            raise BudgetError(
                f"{name} claims privacy, so nobody gets true labels on its behalf "
                "(use release; true labels are for mechanisms with private = False)"
            )
        indices = self.ledger.check_indices(indices)
        self.ledger.check(indices, math.inf)
        labels = true()
        self.ledger.book(name, "none", math.inf, indices, reason)
        return labels

    def publish(self, release: StoredRelease) -> StoredRelease:
        """Adds a release that was computed from trusted labels, and returns it.

        Raises:
            BudgetError: nobody was trusted with a label of it, or it has its release already.
        """
        before = [each.indices for each in self.releases]
        is_paid = self.ledger.spent[release.indices].isinf().all()
        if (
            not is_paid
            or torch.isin(release.indices, torch.cat([*before, release.indices[:0]])).any()
        ):
            raise BudgetError("a label can be published once, after trusted_labels has paid for it")
        self.releases.append(release)
        return release


def check_task(mechanism: Mechanism, *, real: bool) -> None:
    """Refuses a mechanism for another kind of label.

    Raises:
        InputError: it is made for classes and the labels are `real`, or the other way round.
    """
    if ("regression" if real else "classification") not in mechanism.tasks:
        has = "real labels (use mechanism=laplace" if real else "classes (use mechanism=rappor"
        raise InputError(
            f"{type(mechanism).__name__} is made for {mechanism.tasks[0]}, and this data set has "
            f"{has})"
        )


def _guarded(mechanism: str, draw: Callable[[], Tensor], made_up: Draw | None) -> Tensor:
    """Returns what the mechanism draws; an exception that leaves here holds no true label."""
    try:
        return draw()
    except BaseException as error:  # also sys.exit, whose status may be a label
        traceback.clear_frames(error.__traceback__)
        failure: BaseException = ReleaseError(
            f"{mechanism}.release failed with {type(error).__name__}; its message is withheld, as "
            "it may hold true labels (call it on made-up labels to see it)"
        )
        if isinstance(error, KeyboardInterrupt):
            failure = KeyboardInterrupt()
        said = str(error) if isinstance(error, InputError) else None
    if said is not None and made_up is not None and _refusal(made_up) == said:
        failure = InputError(said)  # says what is wrong with arguments other than the labels
    raise failure  # with no cause and no frame of the one that was caught


def _refusal(made_up: Draw) -> str | None:
    """Returns in which words made-up labels are refused; None if they are not."""
    try:
        made_up(torch.Generator().manual_seed(0))
    except (Exception, SystemExit) as error:
        return str(error)
    return None
