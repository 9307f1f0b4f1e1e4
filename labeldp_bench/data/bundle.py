"""What a data set is, and what it hands to a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import Tensor

from labeldp.store import LabelStore


@dataclass(frozen=True)
class DataBundle:
    """One drawn data set: features and test labels in the open, training labels in the store.

    The wall runs through here: true training labels exist only inside `store`, which is closed
    (budget 0) until a run opens it. Test labels are for the evaluator, which learners do not see.

    Attributes:
        name: of the data set.
        train_features: uint8 (N, H, W, C) for images, float32 (N, d) for points.
        store: holds the N training labels, in the order of `train_features`.
        test_features: like `train_features`, (M, ...).
        test_labels: int64 (M,), values in [0, K), or real labels, float64 (M,).
        num_classes: K; 0 for real labels.
        sha256: hash of the arrays that were used, for the record. The training labels are left
            out: who knows all of them but one could read that one off a published hash. None
            where the arrays follow from the seed alone.
        selection_sha256: hash that names the chosen subset whatever the order of the file; None
            where no fixed subset was chosen.
        label_unit: size of one unit of real labels in the units that the data came in, for scores.
        truth: where the distribution of the labels is known: class probabilities, float64 (M, K),
            or the regression function, float64 (M,), at `test_features`, whose points weigh the
            same.
        bayes_accuracy: of the best classifier, where the distribution of the points is known.
        extra_tests: further test sets, name -> (features, labels), reported besides the main one.
        labels_per_unit: how many training labels one unit of privacy has at most; each is released
            with eps / labels_per_unit.
        fresh_labels: whether each trial draws its labels again; of the same labels the eps of all
            trials adds up.
        scores_probabilities: whether predicted probabilities are scored too (AUC and the like).
        remark: what the labels say about the data set's settings, such as classes without an
            example; shown to those alone whose labels are no secret.
    """

    name: str
    train_features: Tensor
    store: LabelStore
    test_features: Tensor
    test_labels: Tensor
    num_classes: int
    sha256: str | None = None
    selection_sha256: str | None = None
    label_unit: float = 1.0
    truth: Tensor | None = None
    bayes_accuracy: float | None = None
    extra_tests: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    labels_per_unit: int = 1
    fresh_labels: bool = False
    scores_probabilities: bool = False
    remark: str = ""

    @property
    def task(self) -> str:
        """`classification`, or `regression` where labels are real numbers."""
        return "classification" if self.num_classes else "regression"


class Dataset(Protocol):
    """What configs/dataset builds."""

    @property
    def trials(self) -> int:
        """Independent repetitions inside one run."""

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the data of one trial; `seed` is the trial's own.

        Raises:
            InputError: a file in `data_dir` is missing, damaged or does not fit.
        """
