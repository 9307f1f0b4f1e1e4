"""PLE: label enhancement on a server, with its clients. No guarantee."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.losses import Loss
from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.mechanisms.measurement import Measurement
from labeldp.store import LabelStore, StoredRelease
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer, check_made, check_number
from labeldp_bench.interfaces import Classifier, Epoch, Learner, Model, Session
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.trainer import Trainer


class ClientLoss(Loss):
    """Cross entropy, less where the true label is on top, more where it is out of sight.

    Source: ple, equations 1 to 4. Punishment and compensation both scale the cross entropy of the
    true label: 1 - a1 if it is on top, 1 + a2 if it is outside the top k1, else 1. That of the
    random labels is summed over them (the paper leaves sum or mean open; ours).

    Args:
        mechanism: a1, a2, a3 and k1.
    """

    name = "ple_client"

    def __init__(self, mechanism: LabelEnhancement) -> None:
        self.mechanism = mechanism

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the loss of each example, (B,); `targets`: int64 (B, k1), true label first."""
        log_d = functional.log_softmax(logits, -1)
        own = log_d.gather(1, targets[:, :1])
        above = (log_d.detach() > own.detach()).sum(1)  # labels above the true one
        on_top, out_of_sight = (above == 0).to(log_d), (above >= self.mechanism.k1).to(log_d)
        weight = 1 - self.mechanism.punishment * on_top + self.mechanism.compensation * out_of_sight
        random = log_d.gather(1, targets[:, 1:]).sum(1)
        return -weight * own.squeeze(1) - self.mechanism.randomness * random


def enhance(
    features: Tensor,
    part: Tensor,
    store: LabelStore,
    mechanism: LabelEnhancement,
    model: NetworkModel,
    trainer: Trainer,
    session: Session,
) -> StoredRelease:
    """Returns what the client publishes of the examples `part`: d = f(x), float32 (n, K).

    Source: ple, Algorithm 1, lines 1 to 7, with the k1 - 1 random labels of section 3.2.

    Args:
        features: images of all examples.
        part: int64 (n,), whose true labels the client is trusted with.
        store: books them without a guarantee.
        mechanism: the objective.
        model: the architecture of f; the paper names none for it.
        trainer: f's recipe.
        session: the run's.
    """
    num_classes = store.num_classes
    labels = store.trusted_labels(mechanism, "the client trains on them", part)
    generator = seeding.generator(session.seed, "ple", "random labels")
    random = mechanism.random_labels(labels, num_classes, generator)
    supervision = Supervision(
        part,
        torch.cat([labels[:, None], random], 1),
        functional.one_hot(labels, num_classes).bool(),
        ClientLoss(mechanism),
    )

    def report(epoch: Epoch, classifier: Classifier) -> None:
        session.say(
            f"  client epoch {epoch.number:>3}/{epoch.total}  loss {epoch.loss:.4f}  "
            f"argmax f(x) = y: {100 * epoch.released_hits:.2f} %  {epoch.seconds:.1f} s"
        )

    seed = seeding.derive(session.seed, "ple", "client")
    own = replace(session, seed=seed, on_epoch=report, notes={}, stage=0, stages=2)
    client = replace(model, trainer=trainer).fit(features, supervision, own)
    published = client.probabilities(features[part]).to(torch.float32)
    session.notes["enhancement"] = diagnosis(published, labels)
    return store.publish(mechanism, published, part)


def diagnosis(published: Tensor, labels: Tensor) -> dict[str, list[float] | list[list[float]]]:
    """Returns what the client may say of its vectors, which it made from true labels.

    Args:
        published: d, float32 (n, K).
        labels: true, int64 (n,).

    Returns:
        `unreliability`: for k = 1..K the share of examples whose true label is not in the top k
        of d (ple, equation 10). `ambiguity`: for each k the largest share, over true classes y and
        other labels l, of examples of y that have l in their top k. (Equation 11 takes the largest
        over single examples; as d is a function of x, that is 1 as soon as one example has a wrong
        label in its top k.) `mean`: the mean d of each true class, (K, K) (ple, Figure 4).
        `example`: d of the first example of each class, (K, K) (ple, Figure 1b).
    """
    num_classes = published.shape[1]
    one_hot = functional.one_hot(labels, num_classes).double()
    sizes = one_hot.sum(0).clamp_min(1)[:, None]
    ranks = published.argsort(1, descending=True).argsort(1)
    unreliability, ambiguity = [], []
    for k in range(1, num_classes + 1):
        inside = (ranks < k).double()
        unreliability.append(1 - float((inside * one_hot).sum() / len(labels)))
        ambiguity.append(float((one_hot.T @ inside / sizes).fill_diagonal_(0).max()))
    mean = one_hot.T @ published.double() / sizes
    example = published[one_hot.argmax(0)]
    return {
        "unreliability": [round(max(0.0, share), 6) for share in unreliability],
        "ambiguity": [round(share, 6) for share in ambiguity],
        "mean": [[round(share, 5) for share in row] for row in mean.tolist()],
        "example": [[round(share, 5) for share in row] for row in example.tolist()],
    }


LOSSES = ("enhanced", "plain")
SURE = 1 - 1e-6
"""What log(1 - h) takes for a larger h: no example may have an infinite loss."""


@dataclass(frozen=True)
class EnhancedLabels(Learner):
    """Trains a client on true labels, then a server on what it published; no guarantee.

    Source: ple, section 3.3 and Algorithm 1. Where the trainer chooses by validation, a share of
    the examples is set aside, and its true labels are taken out of the store for that.

    Args:
        loss: `enhanced` (equation 8, with the update of equation 9), or `plain`: cross entropy
            with the published vectors as they are, cut to their top k2 (ablation of Figure 3; that
            they are cut there too is ours).
        client: the recipe of f.
        k2: how many entries of a published vector are kept, >= 1.
        negative_weight: lambda >= 0, the largest weight of the negative loss.
        ramp_epochs: T' >= 1: the weight grows to lambda over so many epochs.
        stay_within_top: whether refined targets stay within the k2 labels that were kept, as in the
            work that equation 9 cites (Wu et al. 2022); as printed, it ranges over all labels.
        validation: share of the training set in (0, 1) that is set aside for early stopping.
    """

    loss: str
    client: Trainer
    k2: int = 4
    negative_weight: float = 1.0
    ramp_epochs: int = 10
    stay_within_top: bool = False
    validation: float = 0.2

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(
                f"learner=ple is for mechanism=ple: learner.loss must be one of "
                f"{', '.join(LOSSES)}, got {self.loss!r}"
            )
        check_made("learner.client", self.client, Trainer, see="learner")
        check_integer("learner.k2", self.k2, low=1)
        check_number("learner.negative_weight", self.negative_weight, low=0)
        check_integer("learner.ramp_epochs", self.ramp_epochs, low=1)
        check_number("learner.validation", self.validation, above=0, below=1)

    def check(self, mechanism: Measurement, model: Model) -> None:
        """Refuses other mechanisms, a model that is no network, and mixed images."""
        if not isinstance(mechanism, LabelEnhancement):
            raise InputError(
                f"learner=ple goes with mechanism=ple, got {type(mechanism).__name__}: it trains a "
                "client on true labels"
            )
        if not isinstance(model, NetworkModel):
            raise InputError(
                "mechanism=ple needs a network (use model=cnn on images, and tuning=none)"
            )
        if model.trainer.mixup is not None:
            raise InputError("learner=ple aligns views of one image (use trainer.mixup=null)")

    def fit(
        self,
        features: Tensor,
        store: LabelStore,
        mechanism: Measurement,
        model: Model,
        session: Session,
    ) -> Classifier:
        """Returns the server's classifier."""
        assert isinstance(mechanism, LabelEnhancement) and isinstance(model, NetworkModel)
        check_integer("learner.k2", self.k2, low=1, high=store.num_classes)
        rest, held_out = self.split(len(features), model.trainer, session.seed)
        release = enhance(features, rest, store, mechanism, model, self.client, session)

        def validate(classifier: Classifier) -> float:
            predicted = classifier.scores(features[held_out]).argmax(1)
            return float((predicted == true_labels).double().mean())

        chooses = len(held_out) > 0
        if chooses:
            true_labels = store.trusted_labels(mechanism, "early stopping on them", held_out)
        views, first = model.trainer.views, cut(release.outputs, self.k2)
        allowed = first > 0 if self.stay_within_top else torch.ones_like(first, dtype=torch.bool)

        def refine(epoch: int, mean_log_probabilities: Tensor) -> Tensor:
            # Equation 9: the softmax of mean logarithms is the normalised geometric mean.
            logits = mean_log_probabilities.cpu().masked_fill(~allowed, -torch.inf)
            return self.targets(logits.softmax(1), epoch + 1, views)

        supervision = Supervision(
            rest,
            self.targets(first, 1, views),
            release.most_likely_labels,
            ServerLoss(),
            refine=refine if self.loss == "enhanced" else None,
            validate=validate if chooses else None,
        )
        return model.fit(features, supervision, replace(session, stage=1, stages=2))

    def split(self, num_examples: int, trainer: Trainer, seed: int) -> tuple[Tensor, Tensor]:
        """Returns the examples to learn from and those set aside; none without validation.

        Raises:
            InputError: the data set is too small for two parts.
        """
        order = torch.randperm(num_examples, generator=seeding.generator(seed, "ple", "split"))
        size = round(self.validation * num_examples)
        if trainer.selection != "best_validation":
            size = 0
        elif not 0 < size < num_examples:
            raise InputError(
                f"learner.validation={self.validation:g} of {num_examples} examples leaves "
                f"{num_examples - size} to train on and {size} to validate on; both need one"
            )
        return order[size:].sort().values, order[:size].sort().values

    def targets(self, p: Tensor, epoch: int, views: int) -> Tensor:
        """Returns what the loss of an epoch needs, (n, 2, K): p, and each label's penalty.

        The penalty is lambda_t (equation 7) outside the top k2 of p and 0 inside; shared out over
        the views, whose losses are summed.
        """
        if self.loss == "plain":
            return torch.stack([p, torch.zeros_like(p)], 1)
        weight = min(epoch / self.ramp_epochs, 1.0) * self.negative_weight / views
        return torch.stack([p, weight * (cut(p, self.k2) == 0).to(p.dtype)], 1)


class ServerLoss(Loss):
    """Cross entropy with a target distribution, and a penalty on labels that it rules out.

    Source: ple, equations 5, 6 and 8. The paper takes the negative loss at the image itself; here
    it is the mean over its views, which saves a pass (ours).
    """

    name = "ple_server"

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the loss of each example, (B,); `targets` as `EnhancedLabels.targets` gives."""
        log_h = functional.log_softmax(logits, -1)
        negative = torch.log1p(-log_h.exp().clamp_max(SURE))
        return -(targets[:, 0] * log_h + targets[:, 1] * negative).sum(-1)


def cut(vectors: Tensor, k: int) -> Tensor:
    """Returns each row with all but its k largest entries at 0, scaled to sum 1.

    >>> cut(torch.tensor([[0.5, 0.125, 0.25, 0.25]]), 1).tolist()
    [[1.0, 0.0, 0.0, 0.0]]
    """
    top = vectors.topk(k, 1)
    kept = torch.zeros_like(vectors).scatter_(1, top.indices, top.values)
    return kept / kept.sum(1, keepdim=True)
