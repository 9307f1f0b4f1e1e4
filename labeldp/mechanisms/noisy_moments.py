"""What a curator releases of features and labels together: their product, with Gaussian noise."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.draws import Noise
from labeldp.mechanisms.gaussian import (
    SENSITIVITY,
    SMALLEST_DELTA,
    as_released,
    gaussian_noise,
    gaussian_stddev,
)
from labeldp.support.validate import InputError, check_number

LONGEST = 1 + 1e-6
"""Length of a row that is 1 but for float32."""


@dataclass(frozen=True)
class NoisyMoments(Mechanism[int]):
    """Releases X'Y, the sum of the features of each class, with Gaussian noise; central.

    (eps, delta)-label-DP under label replacement: features are public, and a replaced label moves
    one row of X, of length at most 1, from one column of X'Y to another. Least squares and logistic
    regression need no more of the labels, so one release serves every penalty and every refit.

    The guarantee is that of real Gaussian noise; it is drawn in float64. With secret noise sums are
    rounded (`gaussian.as_released`), so that its gaps do not show.

    Source: WALR (Interoperable Private Attribution drafts, logistic_regression.md); the noise:
    Balle, Wang (2018), arXiv:1805.06530, theorem 8.

    Args:
        delta: in [1e-12, 1), by how much a probability may exceed what eps allows.
    """

    delta: float = 1e-5  # type: ignore[misc]

    trust: ClassVar[str] = "central"
    asked_by: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.delta", self.delta, low=SMALLEST_DELTA, below=1)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry; 0 at eps=inf."""
        return SENSITIVITY * gaussian_stddev(self.eps, self.delta)

    def release_moments(
        self, labels: Tensor, num_classes: int, /, rows: Tensor, generator: Noise
    ) -> Tensor:
        """Returns noisy sums of the rows of each class, float64 (d, K).

        Raises:
            InputError: a row longer than 1, or of no length.
        """
        check_rows(rows)
        sums = torch.zeros((num_classes, rows.shape[1]), dtype=torch.float64)
        sums.index_add_(0, labels, rows.to(torch.float64))
        noisy = sums.T + gaussian_noise(tuple(sums.T.shape), self.stddev, generator)
        return as_released(noisy, self.stddev, generator)

    def summary(self) -> dict[str, object]:
        """Returns the standard deviation of the noise, for the record."""
        return {"stddev": self.stddev}


def check_rows(rows: Tensor) -> None:
    """Refuses a row longer than 1, to which the noise is not sized, or of no length.

    A sum with a NaN in it is NaN whatever the noise is, and names the class of its row.

    Raises:
        InputError: there is one.
    """
    lengths = rows.to(torch.float64).norm(dim=1)
    if bool((lengths <= LONGEST).all()):
        return
    if bool(lengths.isnan().any()):
        raise InputError("rows must be numbers, got NaN in one (impute it, or leave the row out)")
    raise InputError(f"rows must have length at most 1, got one of {float(lengths.max()):g}")
