"""FixMatch: a network must say of a distorted image what it is sure of for the image itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.supervision import Supervision
from labeldp.support.validate import check_integer, check_list, check_made, check_number
from labeldp_bench.interfaces import Session
from labeldp_bench.training.augment import Augmentation, Mixing
from labeldp_bench.training.fit import NetworkClassifier
from labeldp_bench.training.network_fit import NetworkFit
from labeldp_bench.training.trainer import Trainer


@dataclass(frozen=True)
class Consistency:
    """What FixMatch adds to a training.

    Args:
        strong: distortions, applied after those of the trainer.
        threshold: least probability of a class that is taught, in [0, 1].
        weight: of what is taught, beside the loss on releases.
        begin: share of the epochs before anything is taught, in [0, 1). Noisy releases say little
            in each step, and a network that has seen few of them is soon sure of one class for
            every image: on MNIST with subset selection, eps=0.5, all images had it after an epoch.
        released_batch: examples with a release in each step, where most examples have none.
    """

    strong: Sequence[Augmentation]
    threshold: float = 0.95
    weight: float = 1.0
    begin: float = 0.0
    released_batch: int = 64

    def __post_init__(self) -> None:
        for augmentation in check_list("learner.student.strong", self.strong, "mappings"):
            check_made("each of learner.student.strong", augmentation)
        check_number("learner.student.threshold", self.threshold, low=0, high=1)
        check_number("learner.student.weight", self.weight, low=0)
        check_number("learner.student.begin", self.begin, low=0, below=1)
        check_integer("learner.student.released_batch", self.released_batch, low=1)


class FixMatchFit(NetworkFit):
    """The fit of a network to releases of some or all examples, and to its own sure guesses.

    A class is taught for a distorted image if the posterior of the image as it is, the network's
    probabilities times the likelihood of the release, exceeds the threshold. Without a release that
    is the network's word alone, as in the paper. The loss on releases is any: the marginal one
    takes the place of labels where those are noisy.

    Source: Sohn et al. (2020), arXiv:2001.07685, equations 2 to 4. Ours: the posterior; a step
    takes as many unlabelled examples as the trainer's batch, of all examples, released ones too.

    Args:
        trainer, classifier, supervision, session: as `NetworkFit`; an epoch goes over all examples.
        features: of all examples, uint8 (N, H, W, C).
        consistency: what is added.
    """

    def __init__(
        self,
        trainer: Trainer,
        classifier: NetworkClassifier,
        supervision: Supervision,
        session: Session,
        *,
        features: Tensor,
        consistency: Consistency,
    ) -> None:
        super().__init__(trainer, classifier, supervision, session)
        self.consistency = consistency
        device, released = session.device, supervision.indices
        self.images, self.released = features.to(device), released.to(device)
        self.indices = torch.arange(len(features))
        self.centred_log_likelihood = torch.zeros(
            (len(features), supervision.num_classes), device=device
        )
        if supervision.releases:
            self.centred_log_likelihood[self.released] = supervision.centred_log_likelihood.to(
                device
            )
        self.place = torch.zeros(len(features), dtype=torch.int64, device=device)
        self.place[self.released] = torch.arange(len(released), device=device)
        self.all_released = len(released) == len(features)
        self.sure = torch.zeros((), device=device)

    def begin_epoch(self) -> None:
        """Clears the sums of losses, hits and sure guesses."""
        super().begin_epoch()
        self.sure.zero_()

    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch of images as they are, and from the same images distorted."""
        draws, network = self.streams[1], self.classifier.network
        with self.classifier.autocast():
            if self.all_released:
                own, logits = self.place[rows], network(batch).float()
            else:
                own = torch.randint(
                    len(self.released), (self.consistency.released_batch,), generator=draws
                ).to(self.place.device)
                images = self.classifier.normalise(self.images[self.released[own]])
                logits = network(self.trainer.augmented(images, draws)).float()
            losses = self.supervision.loss(logits, self.targets[own])
            loss = losses.mean()
            if self.number >= self.consistency.begin * self.trainer.epochs:
                known = logits.detach() if self.all_released else None
                loss = loss + self.consistency.weight * self._taught(batch, rows, known)
        self.descend(loss)
        if self.averaged is not None:
            self.averaged.update_parameters(network)
        self.loss_sum += loss.detach() * len(rows)
        hits = self.most_likely_labels[own].gather(1, logits.detach().argmax(1, keepdim=True))
        self.hits += hits.float().mean() * len(rows)

    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Notes how many guesses were taught, and ends the epoch as `NetworkFit` does."""
        self.session.notes["taught_share"] = float(self.sure) / len(self.indices)
        return super().end_epoch(number, started, views)

    def _taught(self, batch: Tensor, rows: Tensor, known: Tensor | None) -> Tensor:
        """Returns the mean loss of distorted images against the network's sure guesses.

        Args:
            batch: images as they are.
            rows: their positions.
            known: the network's logits for them; None: still to be found.
        """
        network, distorted = self.classifier.network, batch
        with torch.no_grad():
            plain = network(batch).float() if known is None else known
            posterior = (plain.log_softmax(1) + self.centred_log_likelihood[rows]).softmax(1)
            certainty, guess = posterior.max(1)
            is_sure = certainty >= self.consistency.threshold
            self.sure += is_sure.sum()
        for augmentation in self.consistency.strong:
            distorted = augmentation(distorted, self.streams[1])
        logits = network(distorted).float()
        return (functional.cross_entropy(logits, guess, reduction="none") * is_sure).mean()
