"""Linear classifiers on frozen features: a probe by any loss, and ridge regression on votes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from labeldp.linear import held_out_rows
from labeldp.losses import Loss
from labeldp.supervision import LogitClassifier, Supervision, VoteClassifier
from labeldp.support.last_results import LastResults
from labeldp.support.validate import (
    Diverged,
    InputError,
    check_integer,
    check_number,
    check_numbers,
)
from labeldp_bench.interfaces import Classifier, Session
from labeldp_bench.models.convolutional import LinearClassifier
from labeldp_bench.models.encoders import Encoder, PretrainableModel
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.models.penalised import fit_by_evidence, fit_penalised, with_constant

EXACT_UP_TO = 2000
"""Features whose eigenvectors are found in float64; in float32 more take minutes rather than an
hour, and every penalty that wins is far above its rounding."""
DECAYS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Powers by which weights may be smaller in directions in which the features vary more."""


@dataclass(frozen=True)
class LinearOnFeatures:
    """Least squares on features of length 1, from noisy sums over each class.

    Attributes:
        encoder: of images.
        rows: the training examples' features, float32 (N, d), CPU, each of length 1.
        notes: of the run.
        directions: returns the features' sum of squares in each direction, > 0, (d,), and these,
            (d, d).
    """

    encoder: Encoder
    rows: Tensor
    notes: dict[str, Any]
    directions: Callable[[], tuple[Tensor, Tensor]]

    def fitted(self, moments: Tensor, stddev: float) -> "MomentsClassifier":
        """Returns the classifier; each direction of the features counts by what noise leaves of it.

        In the directions in which the features vary the noise is alike and independent. A weight is
        taken to be normal with variance `scale` over the features' variance to the power `decay`;
        the two are those under which the noisy moments are likeliest (empirical Bayes), and the
        weights are their posterior means. No label is needed to choose anything.
        """
        values, vectors = self.directions()
        turned = vectors.T @ moments
        scale, decay = _likeliest_prior(turned, values, stddev)
        variance = scale * values**-decay
        kept = values * variance / (values.square() * variance + stddev**2)
        self.notes.update(weight_decay_power=decay, features=len(values))
        return self.classifier(vectors @ (turned * kept[:, None]))

    def classifier(self, weights: Tensor) -> "MomentsClassifier":
        """Returns the classifier with these weights, (d, K), of features of length 1."""
        return MomentsClassifier(self.encoder, weights.float())


def directions_of(rows: Tensor, say: Callable[[str], None]) -> tuple[Tensor, Tensor]:
    """Returns the sum of squares in each direction of the rows, > 0, (d,), and these, (d, d).

    Args:
        rows: (N, d).
        say: where it says what takes long.
    """
    count = rows.shape[1]
    if count > EXACT_UP_TO:
        say(f"  the directions of {count:,} features, once")
    rows = rows.to(torch.float64)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    return values.clamp_min(1e-9 * values[-1]), vectors


def _likeliest_prior(moments: Tensor, values: Tensor, stddev: float) -> tuple[float, float]:
    """Returns scale and decay of the weights' variance that explain the moments best.

    Args:
        moments: noisy, in the directions of the features, (d, K).
        values: sums of squares of the features in each direction, > 0, (d,).
        stddev: of the noise.
    """
    squares, count = moments.square().sum(1), moments.shape[1]

    def misfit(scale: float, decay: float) -> float:
        expected = scale * values ** (2 - decay) + stddev**2
        return float((count * expected.log() + squares / expected).sum())

    choices = []
    for decay in DECAYS:
        # What the moments would say of the scale if there were no noise, and much less.
        largest = float((squares / count / values ** (2 - decay)).max())
        choices += [(largest * 10 ** (-step / 5), decay) for step in range(-5, 60)]
    return min(choices, key=lambda each: misfit(*each))


@dataclass(frozen=True)
class MomentsClassifier(VoteClassifier):
    """An encoder and weights (d, K) of its features, which are scaled to length 1."""

    encoder: Encoder
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float32 (m, K), CPU."""
        return nn.functional.normalize(self.encoder(features)).cpu() @ self.weights


ROWS = 2000
"""Examples at a time, for sums over all of them."""


class Spectrum(NamedTuple):
    """The fitted examples' features, in the directions in which they vary.

    Attributes:
        features: float32 (N, d), of all training examples.
        indices: int64 (n,), of those that the fit uses.
        mean: float32 (d,), over these.
        values: (d,), their variance in each direction, >= 0.
        vectors: (d, d), the directions, one in each column.
    """

    features: Tensor
    indices: Tensor
    mean: Tensor
    values: Tensor
    vectors: Tensor


@dataclass(frozen=True)
class EncoderModel(PretrainableModel):
    """A linear model on the features of a pre-trained network, which is not trained any more.

    Features take minutes and gigabytes: the model's next cell finds them, and what was derived
    from them.
    """

    _encoded: LastResults[tuple[Encoder, Tensor]] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )
    _derived: LastResults[Any] = field(
        default_factory=lambda: LastResults(2), init=False, repr=False, compare=False
    )

    shares_work: ClassVar[bool] = True
    needs_pretraining: ClassVar[bool] = True

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of the features."""
        return "float32"

    def encoded(self, features: Tensor, session: Session) -> tuple[Encoder, Tensor]:
        """Returns the encoder and what it makes of all examples, on the session's device."""

        def encode() -> tuple[Encoder, Tensor]:
            initial = self.initial
            assert initial is not None, "a cell without pre-training is refused when it is built"
            self._encoded.clear()  # old features and new ones together would fill the memory
            self._derived.clear()
            session.say(f"  the features of {len(features):,} examples, once")
            return Encoder.pretrained(self.network, initial, features, session.device)

        return self._encoded.get((session.device, features), encode)

    def representation(self, features: Tensor, session: Session) -> Tensor:
        """Returns the encoder's features, each example's scaled to length 1."""
        return nn.functional.normalize(self.encoded(features, session)[1]).cpu()


@dataclass(frozen=True)
class Ridge(EncoderModel):
    """Fits what each release adds to a vote, linearly, on top of d features learnt without labels.

    The fit is linear in the releases and has one minimum. After one decomposition of the features
    every mechanism, eps and penalty costs seconds. The penalty is the one with the least error by
    generalised cross-validation: the mean squared error on the releases over the squared share of
    examples that the fit leaves free, an estimate of the error on other releases. No true label is
    needed: it is post-processing. Beyond a penalty of about 30 the squared error may go on falling
    while the order of the classes suffers, so that the list ends there.

    Source: Golub, Heath, Wahba (1979), "Generalized cross-validation as a method for choosing a
    good ridge parameter"; on releases, ours.

    Args:
        network, initial: as `PretrainableModel`; the classifier is not used.
        penalties: > 0, to choose from, as shares of a feature's variance.
    """

    penalties: Sequence[float] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("model.penalties", self.penalties, above=0)

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "RidgeClassifier":
        """Returns the classifier on the encoder's features."""
        encoder, encoded = self.encoded(features, session)

        def decompose() -> Spectrum:
            self._derived.clear()
            if encoded.shape[1] > EXACT_UP_TO:
                session.say(f"  the directions of {encoded.shape[1]:,} features, once")
            return spectrum_of(encoded, supervision.indices)

        spectrum = self._derived.get((encoded, supervision.indices), decompose)
        penalty, weights, bias = ridge(spectrum, supervision.votes(), self.penalties)
        session.notes["penalty"] = penalty
        return RidgeClassifier(encoder, weights, bias)

    def linear(self, features: Tensor, session: Session) -> LinearOnFeatures:
        """Returns the encoder's features, each example's scaled to length 1."""
        encoder, encoded = self.encoded(features, session)
        rows = nn.functional.normalize(encoded).cpu()

        def directions() -> tuple[Tensor, Tensor]:
            return self._derived.get((rows,), lambda: directions_of(rows, session.say))

        return LinearOnFeatures(encoder, rows, session.notes, directions)


@dataclass(frozen=True)
class RidgeClassifier(VoteClassifier):
    """An encoder, weights (d, K) of its features, and what is added, (K,)."""

    encoder: Encoder
    weights: Tensor
    bias: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float32 (m, K), CPU."""
        return (self.encoder(features) @ self.weights + self.bias).cpu()


def spectrum_of(features: Tensor, indices: Tensor) -> Spectrum:
    """Returns the directions in which the examples `indices` vary.

    Args:
        features: float32 (N, d).
        indices: int64 (n,).
    """
    dtype = torch.float64 if features.shape[1] <= EXACT_UP_TO else torch.float32
    parts = indices.to(features.device).split(ROWS)
    mean = torch.stack([features[rows].sum(0) for rows in parts]).sum(0) / len(indices)
    gram = torch.zeros((features.shape[1],) * 2, dtype=dtype, device=features.device)
    for rows in parts:
        part = (features[rows] - mean).to(dtype)
        gram.addmm_(part.T, part)
    values, vectors = torch.linalg.eigh(gram.div_(len(indices)))
    return Spectrum(features, indices, mean, values.clamp_min(0), vectors)


def ridge(
    spectrum: Spectrum, votes: Tensor, penalties: Sequence[float]
) -> tuple[float, Tensor, Tensor]:
    """Returns the best penalty by generalised cross-validation, its weights (d, K) and bias (K,).

    Args:
        spectrum: of the examples.
        votes: of each of them, (n, K).
        penalties: > 0, of the mean squared error.
    """
    features, indices, mean, values, vectors = spectrum
    count, votes = len(votes), votes.to(vectors)
    mean_votes = votes.mean(0)
    centred = votes - mean_votes
    products = torch.zeros((features.shape[1], votes.shape[1])).to(vectors)
    for rows, part in zip(
        indices.to(features.device).split(ROWS), centred.split(ROWS), strict=True
    ):
        products.addmm_((features[rows] - mean).to(vectors).T, part)
    moments = vectors.T @ products / count  # of each direction with the votes
    squares = moments.square().sum(1).double()
    spread, total = values.double(), float(centred.double().square().sum()) / count

    def error(penalty: float) -> float:
        shrunk = spread + penalty
        explained = (squares * (2 / shrunk - spread / shrunk.square())).sum()
        free = 1 - (float((spread / shrunk).sum()) + 1) / count
        return (total - float(explained)) / free**2 if free > 0 else float("inf")

    best = min(sorted(penalties, reverse=True), key=error)
    weights = (vectors @ (moments / (values + best)[:, None])).float()
    return best, weights, mean_votes.float() - mean @ weights


@dataclass(frozen=True)
class Probe(EncoderModel):
    """Fits K (d + 1) numbers to what was released, on top of d features learnt without it.

    At small eps a release tells so little that a whole network learns its noise. The features come
    from `pretrain`, are standardised and stay as they are; the classifier minimises the mean loss
    plus penalty / 2 times its squared weights, in few steps. The penalty is the one with the least
    loss on held-out releases, and the fit is repeated on all; or, with `powers`, the one of the
    largest evidence of all releases. No true label is needed.

    At small eps held-out releases tell hardly anything, and what is to be learnt lies in few of the
    features' directions: `powers` lets weights be larger where features vary more.

    Source: ours; linear evaluation as in Chen et al. (2020), arXiv:2002.05709.

    Args:
        network, initial: as `PretrainableModel`; the classifier is not used.
        penalties: > 0, to choose from; one alone is taken as it is.
        held_out: share of the examples that choose, in (0, 1); unused with `powers`.
        components: number of the features' leading directions to which the fit is limited, >= 1.
            None: no limit.
        powers: >= 0, to choose from with the penalty. The penalty of a direction's squared weight
            is divided by the features' variance there to this power; the variance of scores before
            the fit does not depend on it. Needs `components`. None: held-out releases choose.
        iterations: of L-BFGS for each penalty, at most, >= 1.
    """

    penalties: Sequence[float] = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
    held_out: float = 0.2
    components: int | None = None
    powers: Sequence[float] | None = None
    iterations: int = 25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("model.penalties", self.penalties, above=0)
        check_number("model.held_out", self.held_out, above=0, below=1)
        if self.components is not None:
            check_integer("model.components", self.components, low=1)
        if self.powers is not None:
            check_numbers("model.powers", self.powers, low=0)
            if self.components is None:
                raise InputError(
                    f"model.powers={list(self.powers)} needs a number of directions, and "
                    "model.components is null (model.components=256)"
                )
        check_integer("model.iterations", self.iterations, low=1)

    def check_loss(self, loss: Loss) -> None:
        """Refuses, with `powers`, a loss that is no likelihood: its evidence would mean nothing."""
        if self.powers is not None and not loss.is_likelihood:
            raise InputError(
                f"model.powers={list(self.powers)} needs a loss that is a likelihood, and "
                f"learner.loss={loss.name} is none (learner.loss=marginal, or model.powers=null)"
            )

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "ProbeClassifier":
        """Returns the classifier on the encoder's features."""
        assert supervision.refine is None, "refined targets need epochs, which a probe lacks"
        encoder, encoded = self.encoded(features, session)
        directions = None
        if self.components is not None:
            key = encoded, self.components
            encoded, directions = self._derived.get(key, lambda: leading_directions(*key))
        inputs = with_constant(encoded[supervision.indices.to(session.device)])
        targets = supervision.targets.to(session.device)
        problem = targets, supervision.loss, supervision.num_classes, self.penalties
        if self.powers is None:
            splits = []
            if len(inputs) > 1:
                rows = held_out_rows(len(inputs), self.held_out, session.seed)
                splits = [(rows[0].to(session.device), rows[1].to(session.device))]
            weights, penalty = fit_penalised(inputs, *problem, splits, self.iterations)
        else:
            scales = [scale_of(inputs, power) for power in self.powers]
            fits = [fit_by_evidence(inputs * scale, *problem, self.iterations) for scale in scales]
            place = max(range(len(fits)), key=lambda number: fits[number].evidence)
            session.notes["power"] = self.powers[place]
            weights, penalty = scales[place][:, None] * fits[place].weights, fits[place].penalty
        session.notes["penalty"] = penalty
        if not bool(weights.isfinite().all()):
            raise Diverged(
                "the classifier's weights are NaN or infinite (take larger model.penalties)"
            )
        if directions is not None:
            weights = torch.cat([directions @ weights[:-1], weights[-1:]])
        return ProbeClassifier(encoder, weights)


def scale_of(inputs: Tensor, power: float) -> Tensor:
    """Returns by what features are multiplied, (d + 1,), the constant by 1.

    It is a feature's variance to half the power, times what leaves the sum of variances as it is.
    """
    variances = inputs[:, :-1].var(0, correction=0)
    factors = variances**power
    factors *= variances.sum() / (variances * factors).sum().clamp_min(1e-30)
    return torch.cat([factors.sqrt(), factors.new_ones(1)])


def leading_directions(encoded: Tensor, components: int) -> tuple[Tensor, Tensor]:
    """Returns what the features are in their directions of largest variance, and these.

    Args:
        encoded: of all examples, (N, d).
        components: number of directions; of fewer features all directions are taken.

    Returns:
        (N, c) and (d, c), float32, c the smaller one of `components` and d.
    """
    everyone = torch.arange(len(encoded))
    vectors = spectrum_of(encoded, everyone).vectors[:, -components:].float()
    return encoded @ vectors, vectors


@dataclass(frozen=True)
class ProbeClassifier(LogitClassifier):
    """An encoder and a linear classifier, (d + 1, K); its last row is the bias."""

    encoder: Encoder
    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K), CPU."""
        # With the weights in this order few classes take a CPU a tenth of the time.
        weights = self.weights[:-1].T.contiguous()
        return nn.functional.linear(self.encoder(features), weights, self.weights[-1]).cpu()


@dataclass(frozen=True)
class TrainedHead(EncoderModel, NetworkModel):
    """A linear classifier that a trainer trains on frozen features, epoch by epoch.

    For learners that need epochs, such as PLE's, which refines its targets after each; `Probe`
    finds the minimum itself. Source: ours.

    Args:
        network, initial: as `PretrainableModel`; the classifier is not used.
        trainer: the recipe, without augmentation and smaller images: features are no images.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trainer.augment or self.trainer.resolution:
            raise InputError(
                "model=head trains on features, which cannot be cropped or shrunk (use "
                "trainer.augment=[] and trainer.resolution=[])"
            )

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> "HeadClassifier":
        """Returns the trained classifier on the encoder's features."""
        encoder, encoded = self.encoded(features, session)
        recipe = replace(self.trainer, precision=self.precision_on(session.device))
        head = NetworkModel(LinearClassifier, recipe)
        validate, start = supervision.validate, session.start
        inner = replace(
            session,
            on_epoch=lambda epoch, each: session.on_epoch(epoch, HeadClassifier(encoder, each)),
            start=start.head if isinstance(start, HeadClassifier) else None,
        )
        if validate is not None:
            supervision = replace(
                supervision, validate=lambda each: validate(HeadClassifier(encoder, each))
            )
        return HeadClassifier(encoder, head.fit(as_pixels(encoded), supervision, inner))


def as_pixels(encoded: Tensor) -> Tensor:
    """Returns features (m, d) as images of one pixel with d channels, (m, 1, 1, d)."""
    return encoded[:, None, None]


@dataclass(frozen=True)
class HeadClassifier(LogitClassifier):
    """An encoder, and the network that was trained on its features."""

    encoder: Encoder
    head: Classifier

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K), CPU."""
        return self.head.scores(as_pixels(self.encoder(features)))
