"""A short recipe on images of three brightnesses, and one fit of it."""

import functools

import torch

from labeldp.losses import loss_named
from labeldp.store import LabelStore
from labeldp.supervision import Supervision
from labeldp_bench.interfaces import Epoch, Session
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.trainer import Trainer

CPU = torch.device("cpu")
SEED = 5


def images_and_labels(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (size,), generator=generator)
    noise = torch.randint(60, (size, 8, 8, 1), generator=generator)
    return (noise + 60 * labels[:, None, None, None]).to(torch.uint8), labels


def trainer(**changes) -> Trainer:
    recipe = dict(
        epochs=2, batch_size=25, optimizer=functools.partial(torch.optim.Adam, lr=0.001),
        selection="last", precision="float32",
    )  # fmt: skip
    return Trainer(**(recipe | changes))


def supervision_of(labels: torch.Tensor, mechanism, loss: str) -> Supervision:
    release = LabelStore(labels, 3).open(mechanism.eps, SEED).release(mechanism)
    return Supervision.of([release], loss_named(loss))


def fit(model: NetworkModel, images, supervision):
    epochs: list[Epoch] = []
    session = Session(SEED, CPU, lambda epoch, _: epochs.append(epoch), lambda text: None)
    return model.fit(images, supervision, session), epochs
