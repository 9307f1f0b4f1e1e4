"""How labels were randomised elsewhere: in surveys, by dice or cards, by vendors or annotators.

A design says how likely each answer is under each class, and so what an answer costs: its `eps`.
`Release.from_answers(answers, design)` reads answers that were given under it, and
`privatize(labels, design=design)` draws such answers from labels. Shares, metrics and models then
work as on any release. `LabelDPClassifier(design=design)` and the metrics take arrays of answers.

>>> warner(p=0.7)
<Design warner: classes no, yes; answers no, yes; eps=0.847>
>>> forced_response({"no": 0, "yes": 1 / 6}).eps
inf
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.manifest import ClassName, Manifest, Unit, check_classes, wrong_class_names
from labeldp.mechanisms import ClassMechanism, NoPrivacy
from labeldp.mechanisms.answers import AnswerTable, checked_table, epsilon_of
from labeldp.named_mechanisms import DESIGNS
from labeldp.names import class_key
from labeldp.support.validate import InputError, check_choice, check_eps, check_number

NO_YES = ("no", "yes")


@dataclass(frozen=True, repr=False)
class Design:
    """How people with each class answer.

    Attributes:
        name: such as `warner`; one of the functions of this module.
        classes: K names, of what is asked.
        answers: M names, of what people say.
        table: chance of each answer, K rows of M numbers; empty for `identity`.
        eps: of one answer; infinite where an answer rules out a class, so that nothing is promised
            to people who give it.
    """

    name: str
    classes: tuple[ClassName, ...]
    answers: tuple[ClassName, ...]
    table: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        check_choice("name", self.name, DESIGNS)
        if self.name == "identity":
            return
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "answers", check_classes(self.answers, "answers"))
        chances = checked_table(self.table)
        if chances.shape != (len(self.classes), len(self.answers)):
            raise InputError(
                f"table must have a row for each of {len(self.classes)} classes and a column for "
                f"each of {len(self.answers)} answers, got {chances.shape}"
            )
        object.__setattr__(self, "table", tuple(map(tuple, chances.tolist())))
        check_eps(self.eps, "eps of the design")

    def __repr__(self) -> str:
        if not self.classes:
            return f"<Design {self.name}: classes are those that occur>"
        classes, answers = (", ".join(map(str, names)) for names in (self.classes, self.answers))
        return f"<Design {self.name}: classes {classes}; answers {answers}; eps={self.eps:.3g}>"

    @property
    def eps(self) -> float:
        """What one answer costs."""
        return math.inf if self.name == "identity" else epsilon_of(np.array(self.table))

    @property
    def mechanism(self) -> ClassMechanism:
        """The same as a mechanism, which `labeldp.audit.audit` takes."""
        if self.name == "identity":
            return NoPrivacy()
        return AnswerTable(self.eps, self.table, self.answers)

    def of(self, answers: Iterable[ClassName]) -> "Design":
        """Returns the design with its classes: `identity()` has those that occur among answers."""
        if self.classes:
            return self
        names = list(answers)
        if wrong := wrong_class_names(names):  # which is not shown, as it may be a true label
            raise InputError(
                f"labels must be texts or finite numbers, got {type(wrong[0]).__name__} (give "
                "another form of them, such as y.astype(str))"
            )
        names = sorted({*names}, key=class_key)
        if len(names) < 2:
            raise InputError(
                "labels must be of two classes at least, got one class or none (where others "
                "may occur, give identity(classes))"
            )
        return identity(names)

    def manifest(self, unit: Unit | None = None, **about: Any) -> Manifest:
        """Returns the manifest of a release under this design.

        Args:
            unit: whose rows each cost eps; a person's add up.
            about: as of the manifest: noise, source, row_id, identity, release.
        """
        if not self.classes:
            raise InputError("identity must know all classes here (give identity(classes))")
        eps = self.eps * (unit.most_rows if unit else 1)
        return Manifest(self.name, self.mechanism, eps, self.classes, unit=unit, **about).checked()


def check_design(design: object) -> Design:
    """Returns a design; refuses anything else."""
    if isinstance(design, Design):
        return design
    raise InputError(
        "design must be one of labeldp.designs, such as labeldp.designs.warner(p=0.7), got "
        f"{type(design).__name__}"
    )


def warner(
    p: float, classes: Sequence[Any] = NO_YES, answers: Sequence[Any] | None = None
) -> Design:
    """Returns Warner's design: people say whether a statement, or its opposite, is true of them.

    Also the crosswise model: people say whether both or neither of two statements is true, one
    sensitive, one true of a share p. There `answers=("different", "same")`.

    Source: Warner (1965), JASA 60, 63-69. Yu, Tian, Tang (2008), Metrika 67, 251-263 (crosswise).

    Args:
        p: chance to be asked for the statement itself, in [0, 1], but not 1/2.
        classes: without and with the sensitive attribute.
        answers: to the second one belongs the answer that people with the attribute give with
            chance p; None: those of `classes`.

    >>> warner(p=0.75).table
    ((0.75, 0.25), (0.25, 0.75))
    """
    check_number("p", p, low=0, high=1)
    return Design("warner", _two(classes), tuple(answers or classes), ((p, 1 - p), (1 - p, p)))


def forced_response(forced: Mapping[Any, float]) -> Design:
    """Returns the design in which chance tells some people what to say, and the others the truth.

    Source: Boruch (1971), American Sociologist 6, 308-311.

    Args:
        forced: each class, with the chance that somebody is told to say it; the sum is below 1. An
            answer that nobody is told to say is given by its own class alone, so that eps is
            infinite.

    >>> forced_response({"no": 1 / 6, "yes": 1 / 6}).table[1]
    (0.16666666666666666, 0.8333333333333334)
    """
    if not isinstance(forced, Mapping):
        raise InputError(
            f'forced must be a dict, such as {{"no": 1 / 6, "yes": 1 / 6}}, got {forced!r}'
        )
    told = [check_number(f"forced {name}", part, low=0, high=1) for name, part in forced.items()]
    names, truth = tuple(forced), 1 - sum(told)
    if truth <= 0:
        raise InputError(f"forced answers must have a sum below 1, got {sum(told):g}")
    return Design("forced_response", names, names, _with_truth(truth, told))


def unrelated_question(p: float, prevalence: float, classes: Sequence[Any] = NO_YES) -> Design:
    """Returns the design in which some people answer another question, of a known share of yes.

    Source: Greenberg et al. (1969), JASA 64, 520-539.

    Args:
        p: chance to be asked the sensitive question, in (0, 1].
        prevalence: share of people whose answer to the other one is the second class, in [0, 1]. At
            0 or 1 an answer is given by its own class alone, so that eps is infinite.
        classes: without and with the sensitive attribute.

    >>> unrelated_question(p=0.5, prevalence=0.5).table
    ((0.75, 0.25), (0.25, 0.75))
    """
    check_number("p", p, above=0, high=1)
    check_number("prevalence", prevalence, low=0, high=1)
    names = _two(classes)
    others = [(1 - p) * (1 - prevalence), (1 - p) * prevalence]
    return Design("unrelated_question", names, names, _with_truth(p, others))


def table(
    chances: Any, classes: Sequence[Any] = NO_YES, answers: Sequence[Any] | None = None
) -> Design:
    """Returns the design with any chances, such as those of Kuk's cards or Mangat's two steps.

    Args:
        chances: of each answer, (K, M); a row for each class, with sum 1.
        classes: K names.
        answers: M names; None: those of the classes.

    >>> table([[0.75, 0.25], [0.25, 0.75]], answers=["black", "red"])  # eps is log(3)
    <Design table: classes no, yes; answers black, red; eps=1.1>
    """
    if hasattr(chances, "columns"):
        raise InputError(
            "table takes no names of rows and columns, which may be in another order than classes "
            "and answers (give chances.to_numpy(), classes= and answers=)"
        )
    return Design("table", tuple(classes), tuple(classes if answers is None else answers), chances)


def identity(classes: Sequence[Any] | None = None) -> Design:
    """Returns the design of labels as they are: nobody randomised them, and eps is infinite.

    Args:
        classes: K names; None: those that occur. Numbers for `LabelDPRegressor`, and for metrics of
            numbers, have none.

    >>> identity()
    <Design identity: classes are those that occur>
    """
    names = () if classes is None else check_classes(classes)
    return Design("identity", names, names, ())


def _two(classes: Sequence[Any]) -> tuple[Any, ...]:
    names = check_classes(classes)
    if len(names) != 2:
        raise InputError(f"classes must be two here, got {list(names)} (more: forced_response)")
    return names


def _with_truth(truth: float, others: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Returns the chances where people say the truth with one chance, and else something else."""
    return tuple(map(tuple, (truth * np.eye(len(others)) + np.array(others)).tolist()))
