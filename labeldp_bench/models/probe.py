"""A linear classifier on a frozen, pre-trained network."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from labeldp.linear import held_out_rows
from labeldp.supervision import LogitClassifier, Supervision
from labeldp.support.last_results import LastResults
from labeldp.support.progress import progress_bar
from labeldp.support.validate import Diverged, check_number, check_numbers
from labeldp_bench.interfaces import Session
from labeldp_bench.models.encoders import Encoder, PretrainableModel

ITERATIONS = 25
"""Of L-BFGS for each penalty, at most; each fit starts from that of the next larger penalty."""


@dataclass(frozen=True)
class Probe(PretrainableModel):
    """Fits K (d + 1) numbers to what was released, on top of d features learnt without it.

    At small eps a release tells so little that a whole network learns its noise. The features come
    from `pretrain`, are standardised and stay as they are; the classifier minimises the mean loss
    plus penalty / 2 times its squared weights, in few steps. The penalty is the one with the least
    loss on held-out releases; the fit is then repeated on all releases. No true label is needed.

    Source: ours; linear evaluation as in Chen et al. (2020), arXiv:2002.05709.

    Args:
        network, initial: as `PretrainableModel`; the classifier is not used.
        penalties: > 0, to choose from; one alone is taken as it is.
        held_out: share of the examples that choose, in (0, 1).
    """

    penalties: Sequence[float] = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
    held_out: float = 0.2
    _last: LastResults[tuple[Encoder, Tensor]] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    shares_work: ClassVar[bool] = True  # the features of all examples
    needs_pretraining: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("model.penalties", self.penalties, above=0)
        check_number("model.held_out", self.held_out, above=0, below=1)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of features and classifier."""
        return "float32"

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "ProbeClassifier":
        """Returns the classifier on the encoder's features."""
        assert supervision.refine is None, "refined targets need epochs, which a probe lacks"
        encoder, encoded = self._last.get(
            (session.device, features), lambda: self._encoded(features, session.device)
        )
        inputs = encoded[supervision.indices.to(session.device)]
        shape = (inputs.shape[1] + 1, supervision.num_classes)
        penalty, weights = self.penalties[0], torch.zeros(shape, device=session.device)
        if len(self.penalties) > 1 and len(inputs) > 1:
            penalty, weights = self._chosen(inputs, supervision, session, weights)
        session.notes["penalty"] = penalty
        weights = _fitted(inputs, supervision, torch.arange(len(inputs)), penalty, weights)
        if not bool(weights.isfinite().all()):
            raise Diverged(
                "the classifier's weights are NaN or infinite (take larger model.penalties)"
            )
        return ProbeClassifier(encoder, weights)

    def representation(self, features: Tensor, session: Session) -> Tensor:
        """Returns the encoder's features, each example's scaled to length 1."""
        _, encoded = self._last.get(
            (session.device, features), lambda: self._encoded(features, session.device)
        )
        return nn.functional.normalize(encoded).cpu()

    def _encoded(self, features: Tensor, device: torch.device) -> tuple[Encoder, Tensor]:
        """Returns the encoder and its outputs for all examples."""
        assert self.initial is not None, "a cell without pre-training is refused when it is built"
        return Encoder.pretrained(self.network, self.initial, features, device)

    def _chosen(
        self, inputs: Tensor, supervision: Supervision, session: Session, weights: Tensor
    ) -> tuple[float, Tensor]:
        """Returns the penalty with the least loss on held-out releases, and its classifier."""
        fitted, out = held_out_rows(len(inputs), self.held_out, session.seed)
        found = []
        falling = sorted(self.penalties, reverse=True)
        for penalty in progress_bar(falling, len(falling), "penalties"):
            weights = _fitted(inputs, supervision, fitted, penalty, weights)
            loss = float(_mean_loss(weights, inputs, supervision, out))
            found.append((loss, penalty, weights))
        _, penalty, weights = min(found, key=lambda each: each[0])
        return penalty, weights


@dataclass(frozen=True)
class ProbeClassifier(LogitClassifier):
    """An encoder and a linear classifier, (d + 1, K); its last row is the bias."""

    encoder: Encoder
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K), CPU."""
        return _logits(self.encoder(features), self.weights).cpu()


def _logits(inputs: Tensor, weights: Tensor) -> Tensor:
    return inputs @ weights[:-1] + weights[-1]


def _mean_loss(weights: Tensor, inputs: Tensor, supervision: Supervision, rows: Tensor) -> Tensor:
    targets = supervision.targets[rows].to(inputs.device)
    return supervision.loss(_logits(inputs[rows.to(inputs.device)], weights), targets).mean()


def _fitted(
    inputs: Tensor, supervision: Supervision, rows: Tensor, penalty: float, start: Tensor
) -> Tensor:
    """Returns the classifier, float32 (d + 1, K), that fits the examples `rows`."""
    weights = start.clone().requires_grad_()
    part = inputs[rows.to(inputs.device)]
    targets = supervision.targets[rows].to(inputs.device)
    optimizer = torch.optim.LBFGS([weights], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = supervision.loss(_logits(part, weights), targets).mean()
        loss = loss + penalty / 2 * weights[:-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(objective)
    return weights.detach()
