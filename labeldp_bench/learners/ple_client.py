"""The client of protective label enhancement: trained on true labels, publishes its output.

Nothing here is private, and nothing here claims to be.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.losses import Loss
from labeldp.mechanisms.label_enhancement import LabelEnhancement
from labeldp.store.door import ReleaseDoor
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp_bench.interfaces import Classifier, Epoch, Session
from labeldp_bench.models.network import NetworkModel
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
    vault: ReleaseDoor,
    mechanism: LabelEnhancement,
    model: NetworkModel,
    trainer: Trainer,
    session: Session,
) -> Release:
    """Returns what the client publishes of the examples `part`: d = f(x), float32 (n, K).

    Source: ple, Algorithm 1, lines 1 to 7, with the k1 - 1 random labels of section 3.2.

    Args:
        features: images of all examples.
        part: int64 (n,), whose true labels the client is trusted with.
        vault: books them without a guarantee.
        mechanism: the objective.
        model: the architecture of f; the paper names none for it.
        trainer: f's recipe.
        session: the run's.
    """
    num_classes = vault.num_classes
    labels = vault.trusted_labels(mechanism, "the client trains on them", part)
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
    return vault.publish(mechanism, published, part)


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
