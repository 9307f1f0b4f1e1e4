"""A short recipe on images of three brightnesses, and one fit of it."""

import functools
from dataclasses import replace

import torch

from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store import LabelStore
from labeldp.supervision import Supervision
from labeldp_bench.interfaces import Epoch, Session
from labeldp_bench.models.convolutional import CNN
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.trainer import Trainer

CPU = torch.device("cpu")
SEED = 5
SMALL = functools.partial(CNN, kernel_size=3, widths=[4, 4], hidden=8)
EXACT = functools.partial(SMALL, dropout=0.0)
ADAM = functools.partial(torch.optim.Adam, lr=0.001)
RR = RandomizedResponse(1.0)


def images_and_labels(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (size,), generator=generator)
    noise = torch.randint(60, (size, 8, 8, 1), generator=generator)
    return (noise + 60 * labels[:, None, None, None]).to(torch.uint8), labels


def trainer(**changes) -> Trainer:
    recipe = dict(epochs=2, batch_size=25, optimizer=ADAM, selection="last", precision="float32")
    return Trainer(**(recipe | changes))


def supervision_of(labels: torch.Tensor, mechanism=RR, loss: str = "plain") -> Supervision:
    release = LabelStore(labels, 3).open(mechanism.eps, SEED).release(mechanism)
    return Supervision.of([release], loss_named(loss))


def fit(model: NetworkModel, images, supervision, **changes):
    """Returns the classifier and the report of each epoch; `changes` are those of the session."""
    epochs: list[Epoch] = []
    session = Session(SEED, CPU, lambda epoch, _: epochs.append(epoch), lambda text: None)
    return model.fit(images, supervision, replace(session, **changes)), epochs


def train(size=60, network=SMALL, mechanism=RR, loss="plain", session=(), targets=(), **recipe):
    """Returns what `fit` does, for a recipe on `size` images and their releases."""
    images, labels = images_and_labels(size)
    supervision = replace(supervision_of(labels, mechanism, loss), **dict(targets))
    return fit(NetworkModel(network, trainer(**recipe)), images, supervision, **dict(session))
