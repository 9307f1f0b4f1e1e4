"""What a release and a fit would reach, simulated on a pilot whose labels may be used."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing as rows_of

from labeldp.information import recommended
from labeldp.manifest import check_classes
from labeldp.names import as_list
from labeldp.privatization import privatize
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_eps, check_number

GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PARTS = 5
METRICS = ("accuracy", "balanced_accuracy", "roc_auc")


@dataclass(frozen=True)
class PilotPlan:
    """What to expect of a model, by simulation.

    Attributes:
        table: a row for each eps: eps, mechanism, and for each of accuracy, balanced_accuracy and
            roc_auc the mean with the ends of its 95 % interval, such as accuracy_low; last, at
            eps = inf, what the true labels would give.
        mechanism: recommended at `eps`, or at the largest eps of the table.
        eps: the smallest, of those in the range of the table, at which the accuracy that was asked
            for is expected; None: none was.
    """

    table: pd.DataFrame = field(repr=False)
    mechanism: str
    eps: float | None

    def text(self) -> str:
        """Returns the plan for a terminal."""
        rows = pd.DataFrame({"eps": self.table.eps.map("{:g}".format)})
        rows["mechanism"] = self.table.mechanism
        for name in METRICS:
            rows[name] = [
                f"{value:.3f} ({low:.3f} to {high:.3f})"
                for value, low, high in zip(
                    self.table[name], self.table[f"{name}_low"], self.table[f"{name}_high"],
                    strict=True,
                )
            ]  # fmt: skip
        lines = [rows.to_string(index=False), ""]
        if self.eps is not None:
            least = " or less" if self.eps == self.table.eps.min() else ""
            lines.append(f"that accuracy needs eps={self.eps:.2g}{least}, by {self.mechanism}")
        lines.append("simulated on the pilot's rows; more rows of other people may do better")
        return "\n".join(lines)


def simulated_plan(
    X: Any, y: Any, num_rows: int, eps: Sequence[float] = GRID, accuracy: float | None = None,
    model: Any = None,
) -> PilotPlan:  # fmt: skip
    """Returns what a model learns from `num_rows` releases, by simulation.

    Each fifth of the pilot is predicted by a model that is fitted to releases of `num_rows` rows,
    drawn with replacement from the other four fifths. The interval is the t interval over the
    fifths, widened for what their fits share (Nadeau and Bengio 2003).

    Args:
        X: features of the pilot, (n, d).
        y: n labels of the pilot, which may be used; it spends their privacy.
        num_rows: N >= 1, of the release that is planned.
        eps: to try, each > 0.
        accuracy: that is wanted; solved for eps by interpolation between those that are tried.
        model: unfitted, whose `fit` takes a release; None: `LabelDPClassifier()`.

    Raises:
        InputError: a class with fewer than five rows; an accuracy that no eps reaches.
    """
    from labeldp.classifier import LabelDPClassifier

    labels = as_list(y)
    classes = check_classes(sorted(set(labels), key=lambda each: (str(type(each)), each)), "pilot")
    codes = np.array([classes.index(label) for label in labels])
    if (least := int(np.bincount(codes).min())) < PARTS:
        raise InputError(f"a pilot needs {PARTS} rows of each class, got {least} of one")
    if np.shape(X)[0] != len(codes):
        raise InputError(f"a pilot needs a label for each row, got {len(codes)} labels for "
                         f"{np.shape(X)[0]} rows")  # fmt: skip
    if accuracy is not None:
        check_number("accuracy", accuracy, above=0, below=1)
    tried = [*sorted({check_eps(each) for each in eps} - {math.inf}), math.inf]
    model = LabelDPClassifier() if model is None else model
    splitter = StratifiedKFold(PARTS, shuffle=True, random_state=0)
    parts = list(splitter.split(np.zeros(len(codes)), codes))
    rows = []
    for each in progress_bar(tried, len(tried), "eps"):
        mechanism = "none" if math.isinf(each) else recommended(len(classes), each)
        scores = [
            _scores(model, X, codes, train, test, num_rows, each, mechanism, seed)
            for seed, (train, test) in enumerate(parts)
        ]
        rows.append([each, mechanism, *_summary(np.array(scores))])
    columns = [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")]
    table = pd.DataFrame(rows, columns=["eps", "mechanism", *columns])
    wanted = None if accuracy is None else _solved(table, accuracy)
    at = tried[-2] if wanted is None and len(tried) > 1 else wanted
    return PilotPlan(table, recommended(len(classes), math.inf if at is None else at), wanted)


def _scores(
    model: Any, X: Any, codes: NDArray[np.int64], train: NDArray, test: NDArray, num_rows: int,
    eps: float, mechanism: str, seed: int,
) -> list[float]:  # fmt: skip
    """Returns accuracy, balanced accuracy and AUC of one fit."""
    count = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).choice(train, num_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is practically noise, which the plan says
        release = privatize(codes[drawn], range(count), eps, mechanism, seed=seed)
        fitted = clone(model).fit(_rows(X, drawn), release)
    probabilities = fitted.predict_proba(_rows(X, test))
    true, chosen = codes[test], probabilities.argmax(1)
    scores = probabilities[:, 1] if count == 2 else probabilities / probabilities.sum(1)[:, None]
    return [
        float((chosen == true).mean()),
        float(balanced_accuracy_score(true, chosen)),
        float(roc_auc_score(true, scores, multi_class="ovr")),
    ]


def _rows(X: Any, rows: NDArray) -> Any:
    part = rows_of(X, rows)
    return part.reset_index(drop=True) if isinstance(part, pd.DataFrame) else part


def _summary(scores: NDArray[np.float64]) -> list[float]:
    """Returns mean, low and high of each column, over the fifths."""
    spread = scores.std(0, ddof=1) * math.sqrt(1 / PARTS + 1 / (PARTS - 1))
    reach = float(t.ppf(0.975, PARTS - 1)) * spread
    mean = scores.mean(0)
    return (
        np.stack([mean, (mean - reach).clip(0), (mean + reach).clip(None, 1)], 1).ravel().tolist()
    )


def _solved(table: pd.DataFrame, accuracy: float) -> float:
    """Returns the eps at which the accuracy is expected, linear in log eps between two of them."""
    private = table[np.isfinite(table.eps)]
    reached = np.maximum.accumulate(private.accuracy.to_numpy())
    if not len(reached) or reached[-1] < accuracy:
        raise InputError(
            f"an accuracy of {accuracy:g} is not expected at any eps up to "
            f"{private.eps.max():g}: the most is {reached.max(initial=0):.3f}, and true labels "
            f"would give {table.accuracy.iloc[-1]:.3f} (more rows, or better features)"
        )
    return float(np.exp(np.interp(accuracy, reached, np.log(private.eps))))
