"""Scores of trials: the excess risk where the law is known, else the squared test error."""

import math
from dataclasses import dataclass, field
from typing import Protocol, Self, cast

import torch
from torch import Tensor

from labeldp.supervision import Classifier, Estimator, Fitted, predict
from labeldp_bench.data.bundle import DataBundle


class Tally(Protocol):
    """What the trials of one run gave."""

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""

    def merged(self, later: Self) -> Self:
        """Returns the tally over the trials of both."""

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record."""


def empty_tally(bundle: DataBundle) -> Tally | None:
    """Returns what the trials on such data are to be added to; None where accuracies count."""
    if bundle.truth is not None:
        return RiskTally(bundle.truth)
    if bundle.task == "regression":
        return ErrorTally(bundle.test_labels, bundle.label_unit)
    return None


@dataclass
class RiskTally:
    """Excess risks against a known law, added up point by point; never noisy test labels.

    Excess risk: of a classifier the mean of eta* - eta_c(x), of a regression estimate that of
    (estimate - eta)^2, over test points of equal weight.

    Args:
        truth: class probabilities, float64 (M, K), or the regression function, float64 (M,).
    """

    truth: Tensor
    risks: list[float] = field(default_factory=list)
    _sum: Tensor | None = None

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""
        if self.truth.dim() == 2:
            predicted = predict(cast(Classifier, fitted).scores(points), seed)
            chosen = self.truth.gather(1, predicted[:, None]).squeeze(1)
            self.risks.append(float((self.truth.amax(1) - chosen).mean()))
            if self._sum is None:
                self._sum = torch.zeros(self.truth.shape, dtype=torch.int32)
            self._sum[torch.arange(len(predicted)), predicted] += 1
        else:
            error = cast(Estimator, fitted).values(points) - self.truth
            self.risks.append(float(error.square().mean()))
            self._sum = error if self._sum is None else self._sum + error

    def merged(self, later: "RiskTally") -> "RiskTally":
        """Returns the tally over the trials of both."""
        assert self._sum is not None and later._sum is not None
        return RiskTally(self.truth, self.risks + later.risks, self._sum + later._sum)

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record.

        Regression: `bias` is the mean squared bias, less what the variance of a mean over trials
        adds to it, and `variance` the rest of the risk. Classification: `bias` is the excess risk
        of the class that most trials choose at each point, `variance` the rest. Both None for one
        trial.
        """
        assert self._sum is not None
        risks, trials = torch.tensor(self.risks, dtype=torch.float64), len(self.risks)
        risk, bias, sem = float(risks.mean()), None, None
        if trials > 1:
            sem = float(risks.std() / math.sqrt(trials))
            if self.truth.dim() == 2:
                main = self.truth.gather(1, predict(self._sum, 0)[:, None]).squeeze(1)
                bias = float((self.truth.amax(1) - main).mean())
            else:
                squared = float((self._sum / trials).square().mean())
                bias = (trials * squared - risk) / (trials - 1)
        return {
            "excess_risk": risk,
            "excess_risk_sem": sem,
            "bias": bias,
            "variance": None if bias is None else risk - bias,
            "trials": trials,
        }


@dataclass
class ErrorTally:
    """Mean squared errors on true test labels, which are not protected.

    Args:
        labels: float64 (M,).
        unit: size of one unit of them in the units that the data came in.
    """

    labels: Tensor
    unit: float
    errors: list[float] = field(default_factory=list)

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""
        error = cast(Estimator, fitted).values(points) - self.labels
        self.errors.append(float(error.square().mean()) * self.unit**2)

    def merged(self, later: "ErrorTally") -> "ErrorTally":
        """Returns the tally over the trials of both."""
        return ErrorTally(self.labels, self.unit, self.errors + later.errors)

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record.

        `test_mse`: in squared units of the data's own labels, the mean over trials;
        `test_mse_sem`: its standard error over the noise of the trials, not over test examples;
        `test_variance`: of the test labels, so that 1 - test_mse / test_variance is R^2.
        """
        errors, trials = torch.tensor(self.errors, dtype=torch.float64), len(self.errors)
        sem = None
        if trials > 1:
            spread = (errors - errors[0]).std()  # exactly 0 without noise
            sem = float(spread / math.sqrt(trials))
        return {
            "test_mse": float(errors.mean()),
            "test_mse_sem": sem,
            "test_variance": float(self.labels.var(correction=0)) * self.unit**2,
            "trials": trials,
        }
