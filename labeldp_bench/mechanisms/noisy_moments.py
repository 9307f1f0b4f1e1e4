"""What a curator releases of features and labels together: their product, with Gaussian noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri
from torch import Tensor

from labeldp_bench.mechanisms.base import Mechanism
from labeldp_bench.mechanisms.draws import Noise, uniforms
from labeldp_bench.support.validate import InputError, check_number

SENSITIVITY = math.sqrt(2)
"""A replaced label moves a row of length at most 1 from one column to another."""
LONGEST = 1 + 1e-6
"""Length of a row that is 1 but for float32."""


@dataclass(frozen=True)
class NoisyMoments(Mechanism[int]):
    """Releases X'Y, the sum of the features of each class, with Gaussian noise; central.

    (eps, delta)-label-DP under label replacement: features are public, and a replaced label moves
    one row of X, of length at most 1, from one column of X'Y to another. Least squares and logistic
    regression need no more of the labels, so one release serves every penalty and every refit.

    The guarantee is that of real Gaussian noise; it is drawn in float64, whose gaps are not
    accounted for.

    Source: WALR (Interoperable Private Attribution drafts, logistic_regression.md); the noise:
    Balle, Wang (2018), arXiv:1805.06530, theorem 8.

    Args:
        delta: probability in (0, 1) with which the promise of eps may fail.
    """

    delta: float = 1e-5  # type: ignore[misc]

    trust: ClassVar[str] = "central"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.delta", self.delta, above=0, below=1)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry; 0 at eps=inf."""
        return SENSITIVITY * gaussian_stddev(self.eps, self.delta)

    def release_moments(
        self, labels: Tensor, num_classes: int, /, rows: Tensor, generator: Noise
    ) -> Tensor:
        """Returns noisy sums of the rows of each class, float64 (d, K).

        Raises:
            InputError: a row longer than 1.
        """
        longest = float(rows.norm(dim=1).max())
        if longest > LONGEST:
            raise InputError(f"rows must have length at most 1, got one of {longest:g}")
        sums = torch.zeros((num_classes, rows.shape[1]), dtype=torch.float64)
        sums.index_add_(0, labels, rows.to(torch.float64))
        # Half a step away from 0 and 1, where the variable would be infinite.
        uniform = uniforms(tuple(sums.T.shape), generator) + 2.0**-54
        return sums.T + self.stddev * torch.from_numpy(ndtri(uniform.numpy()))

    def summary(self) -> dict[str, Any]:
        """Returns the standard deviation of the noise, for the record."""
        return {"stddev": self.stddev}


def gaussian_stddev(eps: float, delta: float) -> float:
    """Returns the least noise that makes an answer of sensitivity 1 (eps, delta)-DP.

    Source: Balle, Wang (2018), arXiv:1805.06530, theorem 8, which holds with equality.

    >>> round(gaussian_stddev(1.0, 1e-5), 4), round(gaussian_stddev(0.1, 1e-5), 3)
    (3.7306, 30.75)
    """
    if math.isinf(eps):
        return 0.0

    def excess(log_stddev: float) -> float:
        return gaussian_delta(eps, math.exp(log_stddev)) - delta

    return math.exp(brentq(excess, math.log(1e-3 / (1 + eps)), math.log(1e6 / min(eps, 1.0))))


def gaussian_delta(eps: float, stddev: float) -> float:
    """Returns the delta that Gaussian noise has at eps, for an answer of sensitivity 1."""
    near, far = 1 / (2 * stddev) - eps * stddev, -1 / (2 * stddev) - eps * stddev
    # The second term is a product of something huge and something tiny.
    return math.exp(log_ndtr(near)) - math.exp(eps + log_ndtr(far))
