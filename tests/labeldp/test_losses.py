"""Losses against hand computations, autograd and enumeration."""

import math

import pytest
import torch
from torch.nn import functional

from labeldp.losses import LOSSES, PlainCrossEntropy, decode, loss_named
from labeldp.mechanisms import (
    AdditiveLaplace,
    HadamardResponse,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
)
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError

K = 4
MECHANISMS = {"labels": RandomizedResponse(1.0), "bits": Rappor(1.0), "reals": AdditiveLaplace(1.0)}

RELEASING = {
    "alibi": AdditiveLaplace(eps=1.0),
    "rappor": Rappor(eps=1.0),
    "rr": RandomizedResponse(eps=2.0),
    "subset": SubsetSelection(eps=0.5),
    "hadamard": HadamardResponse(eps=1.0),
}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def released(mechanism, size: int = 50, num_classes: int = K) -> StoredRelease:
    labels = torch.randint(num_classes, (size,), generator=generator())
    outputs = mechanism.release(labels, num_classes, generator())
    return StoredRelease(torch.arange(size), outputs, mechanism, num_classes)


def release_of(kind: str, size: int = 50) -> StoredRelease:
    return released(MECHANISMS[kind], size)


def random_logits(size: int = 50) -> torch.Tensor:
    logits = 2 * torch.randn(size, K, generator=generator(), dtype=torch.float64)
    return logits.requires_grad_()


UNSURE, SURE = [0.0, math.log(3.0)], [60.0, 0.0]  # probabilities of 1/4 and 3/4, and of 1
BY_HAND = [
    ("plain", [UNSURE, UNSURE], [0, 1], [math.log(4), math.log(4 / 3)]),
    ("floored", [UNSURE, SURE], [1, 1], [-math.log(0.7501), 4 * math.log(10)]),
    # A mean over classes would shrink the learning rate by K.
    ("bce", [[*UNSURE, 0.0]], [[1.0, 1.0, 0.0]], [2 * math.log(2) + math.log(4 / 3)]),
    ("softmax_bits", [UNSURE], [[0.5, 0.5]], [(math.log(4) + math.log(4 / 3)) / 2]),
    ("unbiased", [[0.0] * 4], [[1.0, 0.0, 0.0, 0.0]], [0.75**2 + 3 * 0.25**2]),
]


@pytest.mark.parametrize(("name", "logits", "targets", "expected"), BY_HAND)
def test_losses_by_hand(name, logits, targets, expected):
    losses = LOSSES[name](torch.tensor(logits), torch.tensor(targets))
    assert losses.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["floored", "bce", "soft_label"])
def test_gradients_by_hand(name):
    # BlockRR's recipe as its code has it would train on wrong labels without a limit; bits would
    # pull the sigmoids to another point than their mean; ALIBI's gradient goes to the posterior
    # under the network's own prediction, that of a soft label to the label.
    kind = {"floored": "labels", "bce": "bits", "soft_label": "reals"}[name]
    logits, targets = random_logits(), LOSSES[name].targets(release_of(kind))
    targets = targets.double() if name != "floored" else targets
    LOSSES[name](logits, targets).sum().backward()
    shares = logits.detach().softmax(1)
    if name == "floored":
        pull = (shares / (shares + 1e-4)).gather(1, targets[:, None])
        expected = pull * (shares - functional.one_hot(targets, K))
    else:
        expected = (logits.detach().sigmoid() if name == "bce" else shares) - targets
    assert torch.allclose(logits.grad, expected, atol=1e-7)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_marginal_is_the_probability_of_the_release(kind):
    # Forward correction would maximise another likelihood.
    release, logits = release_of(kind), random_logits().detach()
    centred_log_likelihood = release.log_likelihood()
    probability = (logits.softmax(1) * centred_log_likelihood.exp()).sum(1)
    constant = centred_log_likelihood.amax(1)  # the targets are centred per row
    losses = LOSSES["marginal"](logits, LOSSES["marginal"].targets(release).double())
    assert torch.allclose(losses, -probability.log() + constant, atol=1e-5)


@pytest.mark.parametrize("name", RELEASING)
def test_marginal_gradient_is_that_of_alibis_posterior_cross_entropy(name):
    # Else the loss would not be that of Malek Esmaeili et al. (2021).
    release = released(RELEASING[name], num_classes=7)
    targets = LOSSES["marginal"].targets(release).double()
    logits = (3 * torch.randn(50, 7, generator=generator()).double()).requires_grad_()
    (found,) = torch.autograd.grad(LOSSES["marginal"](logits, targets).sum(), logits)
    prior = logits.detach().softmax(1)  # no gradient through it
    posterior = (prior.log() + release.log_likelihood()).softmax(1)
    cross_entropy = -(posterior * functional.log_softmax(logits, 1)).sum()
    (expected,) = torch.autograd.grad(cross_entropy, logits)
    assert (found - expected).abs().max() < 1e-6


def test_votes_and_soft_labels_of_alibi_are_equation_29():
    # The O(K) form would differ from the paper's O(K^2) posterior under the uniform prior.
    eps, num_classes = 1.0, 6
    mechanism = AdditiveLaplace(eps=eps)
    labels = torch.arange(60) % num_classes
    outputs = mechanism.release(labels, num_classes, seeding.generator(0, "test"))
    release = StoredRelease(torch.arange(60), outputs, mechanism, num_classes)
    loss = LOSSES["marginal"]
    found = loss.votes(loss.targets(release), num_classes)
    for row, output in enumerate(outputs.double().tolist()):
        weights = [
            math.exp(-sum(abs(o - (j == i)) for j, o in enumerate(output)) * eps / 2)
            for i in range(num_classes)
        ]
        posterior = [weight / sum(weights) for weight in weights]
        assert found[row].tolist() == pytest.approx(posterior, abs=1e-6)
    assert torch.equal(LOSSES["soft_label"].targets(release), found)


@pytest.mark.parametrize("kind", ["labels", "bits"])
def test_decode_is_bayes_rule_by_enumeration(kind):
    # Posteriors would not be posteriors.
    mechanism, prior = MECHANISMS[kind], torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    outputs = mechanism.output_space(K)
    channel = mechanism.log_likelihood(outputs, K).exp()
    total = 0.0
    for row, likelihood in enumerate(channel.tolist()):
        joint = [p * q for p, q in zip(prior.tolist(), likelihood, strict=True)]
        centred_log_likelihood = mechanism.log_likelihood(outputs[row : row + 1], K)
        posterior = decode(prior.log()[None], centred_log_likelihood).softmax(1)[0].tolist()
        assert posterior == pytest.approx([each / sum(joint) for each in joint], rel=1e-12)
        total += sum(joint)
    assert total == pytest.approx(1.0)


def test_decode_without_noise_gives_the_label():
    # eps=inf would give NaN in place of certainty.
    centred_log_likelihood = RandomizedResponse(math.inf).log_likelihood(torch.tensor([2]), K)
    posterior = decode(torch.zeros(1, K, dtype=torch.float64), centred_log_likelihood).softmax(1)
    assert posterior.tolist() == [[0, 0, 1, 0]]
    logits = random_logits(1)
    LOSSES["marginal"](logits, centred_log_likelihood).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_unbiased_squares_are_unbiased():
    # Backward correction would aim at another loss than the one on true labels.
    mechanism, loss = MECHANISMS["labels"], LOSSES["unbiased"]
    outputs = mechanism.output_space(K)
    targets = loss.targets(StoredRelease(outputs, outputs, mechanism, K)).double()
    expected = mechanism.transition_matrix(K) @ targets
    assert torch.allclose(expected, torch.eye(K, dtype=torch.float64), atol=1e-6)


FITS = {
    "plain": {"labels"},
    "floored": {"labels"},
    "bce": {"labels", "bits"},
    "softmax_bits": {"bits"},
    "marginal": {*MECHANISMS},
    "soft_label": {*MECHANISMS},
    "unbiased": {*MECHANISMS},
}


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_takes_the_releases_that_it_fits_and_keeps_its_promises(name, kind):
    # A meaningless pair would train to a number that looks like a result; a new loss would end a
    # run with NaN, or a second vote differ.
    release, loss = release_of(kind), loss_named(name)
    if kind not in FITS[name]:
        with pytest.raises(InputError, match=rf"^learner\.loss={name} needs [^\n]* {kind}[^\n]*$"):
            loss.targets(release)
        return
    targets = loss.targets(release)
    before = targets.clone()
    for scale in (1, 50):  # a network that is sure, and often wrong
        logits = (scale * random_logits().detach().float()).requires_grad_()
        values = loss(logits, targets)
        assert values.shape == (50,) and torch.isfinite(values).all()
        values.sum().backward()
        assert torch.isfinite(logits.grad).all() and logits.grad.abs().sum() > 0
    votes = loss.votes(targets, K).clone()
    assert votes.shape == (50, K) and votes.dtype == torch.float32
    assert torch.equal(loss.votes(targets, K), votes) and torch.equal(targets, before)
    if name in ("marginal", "soft_label"):
        posterior = release.log_likelihood().softmax(1)
        assert torch.allclose(votes.double(), posterior, atol=1e-6)
    elif kind == "labels" and name != "unbiased":
        assert torch.equal(votes, functional.one_hot(release.outputs, K).float())


def test_unknown_loss_names_the_known_ones():
    # A typo would end in a KeyError.
    with pytest.raises(InputError, match=r"learner\.loss .*bce.*marginal\?"):
        loss_named("marginall")


@pytest.mark.parametrize("change", [torch.mean, lambda losses: losses[:, None], lambda _: None])
def test_a_loss_that_is_no_number_for_each_example_is_refused(change):
    # A mean over the batch would be divided by the batch once more, and nothing be learnt.
    class Own(PlainCrossEntropy):
        name = "own"

        def __call__(self, logits, targets):
            return change(super().__call__(logits, targets))

    with pytest.raises(InputError, match=r"loss=own must return the loss of each example, \(2,\)"):
        Supervision.of([release_of("labels")], Own())


def test_a_loss_from_elsewhere_is_taken_by_its_full_name(monkeypatch, tmp_path):
    # An own loss would need an edit of the package; a wrong name would end in a traceback.
    (tmp_path / "my_own_losses.py").write_text(
        "from labeldp.losses import PlainCrossEntropy\n\n\n"
        "class Mine(PlainCrossEntropy):\n    name = 'mine'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert loss_named("my_own_losses.Mine").name == "mine"
    with pytest.raises(InputError, match="nowhere_at_all"):
        loss_named("nowhere_at_all.Mine")
    with pytest.raises(InputError, match="Loss"):
        loss_named("my_own_losses.Yours")
