"""A release: what was released of your labels.

It is all that anybody may learn of them.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labeldp.designs import Design, check_design
from labeldp.manifest import GIVEN_IN_PYTHON, ClassName, Manifest, Unit, random_name, summary_of
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.encodings import OUTPUT_ENTRIES_AT_ONCE, AsReleased
from labeldp.mechanisms.reordered import Reordered
from labeldp.mechanisms.stacked import Stacked
from labeldp.names import (
    as_list,
    check_columns,
    checked_persons,
    checked_row_ids,
    places_of,
)
from labeldp.store import StoredRelease
from labeldp.support.files import replacing
from labeldp.support.validate import InputError, check_list


class _NoLabel:
    """Stands for a label in the array of a release; refuses to be compared, sorted or counted."""

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            "this tool takes labels, and was given a release of them (LabelDPClassifier(...) and "
            "LabelDPRegressor(...) learn from a release; cross_val_score and GridSearchCV take it "
            "with scoring=labeldp.released_accuracy, labeldp.cross_val_predict as it is)"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __float__ = __int__ = __index__ = __bool__ = _refuse


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """What was released of N labels, and the manifest that says how.

    It holds no label, so it can be handed over. Rows can be chosen as of an array,
    `release[indices]`, and scikit-learn takes it as `y` in cross-validation.

    What was released is kept in the mechanism's small form, which may be a few bytes a row where
    outputs are a bit for each class. What needs outputs or likelihoods of all rows makes N x K
    numbers of them; `batches` gives some rows at a time.

    Classes are sorted as scikit-learn sorts them (`classes`), and columns of outputs, likelihoods,
    scores and probabilities are in that order everywhere, whatever order they were given in.

    Attributes:
        messages: what was released, as `manifest.stored` says, CPU, first axis N; of classes by
            their numbers in the manifest, of numbers float64 (N,), in [-1, 1] before the noise.
        row_ids: (N,), distinct; which rows of the features they belong to.
        spent: float64 (N,), eps of each row over all its releases so far; of its person, where the
            manifest has a unit.
        manifest: mechanism, parameters, eps, classes.
    """

    messages: Tensor
    row_ids: NDArray
    spent: NDArray[np.float64]
    manifest: Manifest

    def __post_init__(self) -> None:
        if not len(self.messages) == len(self.row_ids) == len(self.spent):
            raise InputError("a release needs an output, a row id and a cost for each row")

    def __repr__(self) -> str:
        return (f"<Release of {len(self):,} labels by {self.mechanism}, eps={self.eps:g}, "
                f"eps_spent={self.eps_spent:g}>")  # fmt: skip

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def mechanism(self) -> str:
        """The mechanism's name on the command line."""
        return self.manifest.name

    @property
    def eps(self) -> float:
        """What this release cost a label; a person, where the manifest has a unit."""
        return self.manifest.eps

    @property
    def classes(self) -> list[ClassName]:
        """The classes, sorted, as the columns of the likelihood are; empty for numbers."""
        return [self.manifest.classes[place] for place in self.manifest.order]

    @property
    def eps_spent(self) -> float:
        """What the worst-off label, or person, has spent over all releases of it so far."""
        return float(self.spent.max()) if len(self) else 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K) for classes, (N,) for numbers; scikit-learn asks for it."""
        return (len(self), len(self.classes)) if self.classes else (len(self),)

    def __getitem__(self, rows: object) -> "Release":
        """Returns the release of the chosen rows: positions, truth values or a slice."""
        if isinstance(rows, tuple):  # scikit-learn writes y[indices, ...]
            rows = rows[0]
        if not isinstance(rows, slice) or (rows.step or 1) < 0:
            rows = np.ascontiguousarray(np.arange(len(self))[rows])  # type: ignore[call-overload]
        return replace(
            self,
            messages=self.messages[rows],
            row_ids=self.row_ids[rows],
            spent=self.spent[rows],
        )

    def batches(self, size: int) -> Iterator["Release"]:
        """Yields the release in parts of at most `size` rows, in order."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray:
        """Returns N objects that are no labels; comparing one raises an InputError.

        scikit-learn makes an array of `y` before it chooses a splitter, and looks at no entry.
        """
        return np.full(len(self), _NoLabel(), object)

    @property
    def outputs(self) -> Tensor:
        """What the mechanism gave: int64 labels (N,), uint8 bits (N, K) or float32 reals (N, K).

        Labels are positions in `classes`, and columns are in that order.
        """
        return self.stored.outputs if self.classes else self.messages

    @cached_property
    def stored(self) -> StoredRelease:
        """The same as losses and learners take it; positions count from 0."""
        mechanism, outputs = self.class_mechanism, self.manifest.encoding.outputs(self.messages)
        if isinstance(mechanism, Reordered):
            outputs = mechanism.renumbered(outputs)
        return StoredRelease(torch.arange(len(self)), outputs, mechanism, len(self.classes))

    @property
    def class_mechanism(self) -> ClassMechanism:
        """The mechanism of a release of classes, which are numbered as in `classes`.

        Only here the order of the manifest becomes the sorted one.
        """
        mechanism, order = self.manifest.class_mechanism, self.manifest.order
        if order == tuple(range(len(order))):
            return mechanism
        return Reordered(mechanism.eps, mechanism, torch.tensor(order))

    def log_likelihood(self) -> NDArray[np.float64]:
        """Returns log P(what was released | class), exact, float64 (N, K), columns as `classes`."""
        return self.stored.log_likelihood().numpy()

    def unbiased_values(self) -> NDArray[np.float64]:
        """Returns a number for each row whose mean, over the noise, is the true one, (N,)."""
        if self.manifest.bounds is None:
            raise InputError("this is a release of classes, not of numbers")
        low, high = self.manifest.bounds
        return (low + high) / 2 + (high - low) / 2 * self.outputs.numpy()

    def summary(self) -> str:
        """Returns what a person wants to know of the release, in a few lines."""
        return summary_of(self.manifest, len(self), self.eps_spent)

    def save(self, path: str | Path) -> None:
        """Writes a Parquet file with row ids, what was released, what was spent, the manifest.

        Args:
            path: ends in .parquet.

        Raises:
            InputError: another ending; or the file holds another release, or more rows of this one.
            CannotWrite: the folder is not there, cannot be written to, or is full.
        """
        from labeldp.release_file import check_replaces, part_of, write_parts  # Arrow

        path = Path(path)
        if isinstance(self.manifest.mechanism, Stacked):
            raise InputError("a stack is not saved (save each release, load and stack them again)")
        if path.suffix != ".parquet":
            raise InputError(f"a release is saved as a Parquet file, whose name must end in "
                             f".parquet, got {path}")  # fmt: skip
        check_replaces(path, self.row_ids, self.manifest)
        whole = part_of(self.messages.numpy(), self.row_ids, self.spent, self.manifest)
        with replacing(path) as partial:
            write_parts(partial, [whole])

    @classmethod
    def of_reports(
        cls, manifest: Manifest, row_ids: Sequence[int | str], reports: ArrayLike
    ) -> "Release":
        """Returns the release that clients drew one by one, each on a device of its own.

        Args:
            manifest: that the clients had.
            row_ids: N distinct ones.
            reports: what they drew: class numbers (N,), or bits (N, K); classes as in the manifest.

        Raises:
            InputError: a report that the mechanism cannot have drawn.
        """
        try:
            given = np.asarray(reports)
        except ValueError:  # lists of several lengths
            given = np.array("")
        if given.dtype.kind not in "biuf" or given.ndim not in (1, 2):
            raise InputError(
                "reports must be what clients draw: class numbers (N,), or bits (N, K)"
            )
        are_bits = given.ndim == 2 and bool(np.isin(given, (0, 1)).all())
        are_labels = given.ndim == 1 and given.dtype.kind != "f"
        kind = np.uint8 if are_bits else np.int64 if are_labels else np.float32
        ids = checked_row_ids(row_ids, len(given))
        spent = np.full(len(given), manifest.eps)
        own = replace(manifest, release=random_name(), row_id=GIVEN_IN_PYTHON)
        release = cls(torch.from_numpy(given.astype(kind)), ids, spent, own)
        try:
            possible = (release.log_likelihood() > -np.inf).any(1)
        except InputError as error:
            raise InputError(f"reports do not fit {manifest.name}: {error}") from None
        numbers = np.isfinite(given).reshape(len(given), -1).all(1)
        impossible = np.flatnonzero(~(possible & numbers))
        if len(impossible):
            raise InputError(
                f"report {impossible[0]} cannot come from {manifest.name} "
                "(was it drawn by another manifest?)"
            )
        return release

    @classmethod
    def from_answers(
        cls, answers: ArrayLike, design: Design, *, row_ids: ArrayLike | None = None,
        persons: ArrayLike | None = None, source: str = "", persons_column: str = "persons",
    ) -> "Release":  # fmt: skip
        """Returns the release that people made who randomised their own answers.

        Nothing is drawn, and no account knows of it: a second survey of the same people costs its
        eps once more. Read all answers at once, and take parts of the release: a model that was
        fitted to some of its rows then refuses to be judged by them.

        Args:
            answers: N answers, as people gave them.
            design: that they followed, such as `labeldp.designs.warner(p=0.7)`.
            row_ids: N distinct ones, by which features are found; None counts from 0.
            persons: N names of persons; a person's answers add up.
            source: name of the column, which `labeldp fit` then refuses as a feature.
            persons_column: name of the persons' column, for the manifest.

        Raises:
            InputError: an answer that the design does not know, or a missing one, with its row.

        >>> from labeldp import class_shares, designs
        >>> release = Release.from_answers(["yes"] * 40 + ["no"] * 60, designs.warner(p=0.7))
        >>> print(class_shares(release)["yes"])
        0.250 (0.008 to 0.507)
        """
        check_columns(source=source, persons_column=persons_column)
        values = as_list(answers, "answer")
        design = check_design(design).of(values)
        places = places_of(values, design.answers, "answer")
        ids = checked_row_ids(row_ids, len(places))
        who = None if persons is None else checked_persons(persons, len(places))
        unit, _ = Unit.of(who, persons_column)
        # The same answers are the same rows, whenever they are read.
        digest = hashlib.sha256(repr((design, design.table)).encode())
        digest.update(places.tobytes() + "\0".join(ids.astype(str)).encode())
        name = digest.hexdigest()[:32]
        digest.update(source.encode())  # another column may say the same of the same rows
        manifest = design.manifest(
            unit, source=source, row_id="" if row_ids is None else GIVEN_IN_PYTHON, identity=name,
            release=digest.hexdigest()[:32],
        )  # fmt: skip
        return cls(torch.from_numpy(places), ids, np.full(len(places), manifest.eps), manifest)

    @classmethod
    def stack(cls, releases: Sequence["Release"]) -> "Release":
        """Returns releases of the same rows as one, which a model learns from in one fit.

        Such as two surveys of one panel, or the labels of several annotators. What they say is
        taken for independent given the true label, so that likelihoods add. What was spent adds up
        too, but for an earlier release that a later one of the same ledger counts already.

        Args:
            releases: two or more, of the same row ids and classes; rows come in the order of the
                first one.

        Raises:
            InputError: other rows, classes or persons; numbers; the same release twice; outputs of
                a row that rule out all classes together.

        >>> from labeldp import designs
        >>> both = [Release.from_answers(["yes"], designs.warner(p)) for p in (0.75, 0.9)]
        >>> np.exp(Release.stack(both).log_likelihood()).round(3)
        array([[0.025, 0.675]])
        """
        given = check_list("releases", releases, "releases")
        if len(given) < 2 or not all(isinstance(each, Release) for each in given):
            raise InputError("releases must be a list of two releases or more")
        first, about = given[0], [each.manifest for each in given]
        named = ["counted" if each.row_id == "" else "given" for each in about]
        for what, of_each in (
            ("classes", [each.classes or "numbers" for each in given]),
            ("persons, over whose rows eps adds up", [each.unit for each in about]),
            ("kind of row ids (give row_ids= to all, or to none)", named),
        ):
            for each in of_each:
                if each != of_each[0]:
                    got = " and ".join(str(one)[:200] for one in (of_each[0], each))
                    raise InputError(f"releases must have the same {what}, got {got}")
        names = [name for each in about for name in each.release.split()]
        if len(set(names)) < len(names):
            raise InputError(
                "releases must be different, got one twice (take it once; answers of two people "
                "who said the same need a source= for each)"
            )
        drawn = [each for each in given if each.manifest.noise == "seeded" and each.eps < np.inf]
        for one, other in itertools.combinations(drawn, 2):
            if one.mechanism == other.mechanism and torch.equal(one.messages, other.messages):
                raise InputError(
                    "releases must have noise of their own, got the same outputs by a seed twice "
                    "(give each another seed=)"
                )
        ids = [each.row_ids.astype(str) for each in given]
        for own in ids:
            for lost in np.setxor1d(own, ids[0], assume_unique=True)[:1]:
                raise InputError(
                    f"releases must be of the same rows, and only one has row {lost} (take those "
                    "of both: a[np.isin(a.row_ids, b.row_ids)])"
                )
        places = ids[0].argsort().argsort()
        given = [each[own.argsort()[places]] for each, own in zip(given, ids, strict=True)]
        made, outputs = Stacked.of(
            [each.class_mechanism for each in given], [each.outputs for each in given]
        )
        inside = {name for each in about for name in each.counted}
        spent = [each.spent for each in given if not inside >= set(each.manifest.release.split())]
        manifest = replace(
            first.manifest,
            name=" + ".join(each.name for each in about),
            mechanism=made,
            eps=sum(each.eps for each in about),
            classes=tuple(first.classes),
            noise="secret" if all(each.noise == "secret" for each in about) else "seeded",
            stored=AsReleased.name,
            identity=" ".join({name: None for each in about for name in each.identity.split()}),
            release=" ".join(names),
            counted=tuple(sorted(inside)),
        ).checked()
        release = cls(outputs, first.row_ids, np.sum(spent, 0), manifest)
        # Only where eps is infinite are there likelihoods of 0.
        of_all = release.log_likelihood() if np.isinf(made.eps) else np.zeros((1, 1))
        for row in np.flatnonzero(np.isneginf(of_all).all(1))[:1]:
            raise InputError(
                f"row {row}: the releases together rule out all classes (is a design wrong, or do "
                "ids name other people?)"
            )
        return release


def load_release(path: str | Path) -> Release:
    """Returns the release that `Release.save` wrote.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    from labeldp.release_file import read_parts

    messages, row_ids, spent, manifest = read_parts(Path(path))
    try:
        ids = checked_row_ids(row_ids, len(messages))
        release = Release(torch.from_numpy(messages), ids, spent, manifest)
        _check(release)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError, IndexError, RuntimeError) as error:  # columns of other types
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path} holds no release: {reason}") from None
    return release


def _check(release: Release) -> None:
    """Refuses what the mechanism cannot have drawn; some rows at a time."""
    if not release.classes:
        return
    form, count = release.manifest.encoding, len(release.classes)
    form.checked(release.messages)
    if form.name == AsReleased.name:
        for rows in release.batches(max(1, OUTPUT_ENTRIES_AT_ONCE // count)):
            if np.isnan(rows.log_likelihood()).any():
                raise InputError("an output is not a number")
