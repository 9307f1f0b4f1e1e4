"""Scores against a known law: excess risk, bias and variance, never noisy test labels."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labeldp_bench.evaluate import predict


@dataclass
class RiskTally:
    """What the trials of one run gave, added up point by point.

    Excess risk: of a classifier the mean of eta* - eta_c(x), of a regression estimate that of
    (estimate - eta)^2, over test points of equal weight.

    Args:
        truth: class probabilities, float64 (M, K), or the regression function, float64 (M,).
    """

    truth: Tensor
    risks: list[float] = field(default_factory=list)
    _sum: Tensor | None = None

    def add(self, classifier: Any, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""
        if self.truth.dim() == 2:
            predicted = predict(classifier.scores(points), seed)
            chosen = self.truth.gather(1, predicted[:, None]).squeeze(1)
            self.risks.append(float((self.truth.amax(1) - chosen).mean()))
            if self._sum is None:
                self._sum = torch.zeros(self.truth.shape, dtype=torch.int32)
            self._sum[torch.arange(len(predicted)), predicted] += 1
        else:
            error = classifier.values(points) - self.truth
            self.risks.append(float(error.square().mean()))
            self._sum = error if self._sum is None else self._sum + error

    def merged(self, later: "RiskTally") -> "RiskTally":
        """Returns the tally over the trials of both."""
        assert self._sum is not None and later._sum is not None
        return RiskTally(self.truth, self.risks + later.risks, self._sum + later._sum)

    def summary(self) -> dict[str, Any]:
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
                main = self.truth.gather(1, self._sum.argmax(1, keepdim=True)).squeeze(1)
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
