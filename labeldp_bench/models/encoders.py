"""Frozen networks as features, one or several next to each other."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from labeldp.support.files import replacing, writing
from labeldp.support.last_results import LastResults
from labeldp.support.progress import progress_bar, say
from labeldp.support.validate import InputError, check_made
from labeldp_bench.interfaces import Model, NetworkFactory, WeightsFor
from labeldp_bench.training.fit import (
    INFERENCE_BATCH,
    NetworkClassifier,
    adopt,
    classifier_of,
    has_bf16,
)
from labeldp_bench.training.images import Pixels, pixel_scale


class FeatureConcat(nn.Module):
    """Hands an image to several networks, and what each has below its classifier to one of its own.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image.
        networks: called with `num_classes` and `image_shape`.

    Attributes:
        widths: the number of features of each network.
    """

    def __init__(
        self, num_classes: int, image_shape: Sequence[int], networks: Sequence[NetworkFactory]
    ) -> None:
        super().__init__()
        self.widths: list[int] = []
        parts = []
        for network in networks:
            part = network(num_classes=num_classes, image_shape=image_shape)
            last = part.get_submodule(classifier_of(part))
            assert isinstance(last, nn.Linear)
            self.widths.append(last.in_features)
            part.set_submodule(classifier_of(part), nn.Identity())
            parts.append(part)
        self.parts = nn.ModuleList(parts)
        self.head = nn.Linear(sum(self.widths), num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return self.head(torch.cat([part(images) for part in self.parts], 1))


class MirroredFeatureConcat(FeatureConcat):
    """Averages what `FeatureConcat` makes of an image and of its mirror image, left for right.

    Photographs of one class have it both ways; digits and letters do not.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return (super().forward(images) + super().forward(images.flip(-1))) / 2


@dataclass(frozen=True)
class PretrainableModel(Model):
    """A model with a network whose first weights may come from `pretrain`.

    Args:
        network: called with `num_classes` and `image_shape` (H, W, C).
        initial: weights and statistics that a fresh network starts from, by name. What is not
            named, such as the classifier, starts at random. None: everything does.
    """

    network: NetworkFactory
    initial: Mapping[str, Tensor] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_made("model.network", self.network, see="model")

    def check_images(self, features: Tensor) -> None:
        """Refuses images that the network cannot take; most take all."""
        return None

    def pretrained(self, weights_for: WeightsFor) -> Self:
        """Returns the model with a network that starts from the weights returned for it."""
        network, weights = weights_for(self.network)
        return replace(self, network=network, initial=weights)

    def untrained(
        self,
        features: Tensor,
        num_classes: int,
        device: torch.device,
        *,
        pixels: Pixels,
        precision: str,
    ) -> NetworkClassifier:
        """Returns a fresh network; first weights come from torch's global stream, or `initial`.

        Args:
            features: images, (N, H, W, C), whose pixels it is scaled to.
            num_classes: K.
            device: where it is put.
            pixels: as a trainer's.
            precision: `bf16` or `float32`.
        """
        network = self.network(num_classes=num_classes, image_shape=tuple(features.shape[1:]))
        if self.initial is not None:
            adopt(network, self.initial)
        network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return NetworkClassifier(network, *pixel_scale(pixels, features, device), precision)


FEATURES_AT_ONCE = 1024
ENCODED_AT_ONCE = 500
"""Images whose features are kept together: seconds to a minute of one CPU core."""


@dataclass(frozen=True)
class Encoder:
    """A frozen network whose outputs are standardised over the training examples.

    Networks side by side have the same say: together, the features of each have the same variance.
    """

    network: NetworkClassifier
    mean: Tensor
    stddev: Tensor
    _last: LastResults[Tensor] = field(  # of test images, and of those that choose an epoch
        default_factory=lambda: LastResults(2), init=False, repr=False, compare=False
    )

    @classmethod
    def pretrained(
        cls,
        network: NetworkFactory,
        weights: Mapping[str, Tensor],
        features: Tensor,
        device: torch.device,
    ) -> "tuple[Encoder, Tensor]":
        """Returns the encoder with `weights` below the classifier of a new network.

        It computes in float32; one that keeps its features in half precision, as the device does
        best.

        Args:
            network: as NetworkModel's.
            weights: from `pretrain`.
            features: the training images, uint8 (N, H, W, C).
            device: where it computes.

        Returns:
            The encoder, and what it makes of the training images, float32 (N, d), on `device`.
        """
        built = network(num_classes=2, image_shape=tuple(features.shape[1:]))
        adopt(built, weights)
        built.set_submodule(classifier_of(built), nn.Identity())
        built = built.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        scale = pixel_scale(getattr(built, "pixels", "standardised"), features, device)
        # Not measured: features are kept by precision, and must be found by the next run.
        is_half = _keeps_features(built) and has_bf16(device)
        precision = "bf16" if is_half else "float32"
        return cls.fitted_to(NetworkClassifier(built, *scale, precision), features)

    @classmethod
    def fitted_to(cls, network: NetworkClassifier, features: Tensor) -> "tuple[Encoder, Tensor]":
        """Returns the encoder with mean and standard deviation of its outputs, and these.

        Args:
            network: without a classifier.
            features: of the training examples.
        """
        outputs = _outputs(network, features)
        free = min(1, len(outputs) - 1)  # of one example the deviation is 0
        # Some features at a time: torch works on a copy, in float64.
        parts = [part.std(0, correction=free) for part in outputs.split(FEATURES_AT_ONCE, dim=1)]
        stddev = torch.cat(parts).clamp_min(1e-6)
        if isinstance(network.network, FeatureConcat):
            widths = network.network.widths
            share = sum(widths) / len(widths)
            factors = [math.sqrt(share / width) for width in widths]
            stddev = stddev / torch.repeat_interleave(torch.tensor(factors), torch.tensor(widths))
        encoder = cls(network, outputs.mean(0), stddev)
        return encoder, encoder._standardised(outputs)

    def __call__(self, features: Tensor) -> Tensor:
        """Returns what the network makes of images, float32 (m, d), on the network's device.

        Kept for the next cell; must not be changed.
        """
        return self._last.get(
            (features,), lambda: self._standardised(_outputs(self.network, features))
        )

    def _standardised(self, outputs: Tensor) -> Tensor:
        # In place, a part at a time: thousands of features for each image fill the memory.
        for part in outputs.split(INFERENCE_BATCH):
            part.sub_(self.mean).div_(self.stddev)
        return outputs.to(self.network.device)


def _keeps_features(network: nn.Module) -> bool:
    return getattr(network, "encodings", None) is not None


def _outputs(network: NetworkClassifier, images: Tensor) -> Tensor:
    """Returns what a network makes of images, float32 (m, d), CPU; read from files if it can be."""
    if not _keeps_features(network.network):
        return network.scores(images)
    folder: Path = getattr(network.network, "encodings") / _name(network)  # noqa: B009
    keys = [hashlib.sha256(image).digest()[:16] for image in images.contiguous().numpy()]
    known = _read_blocks(folder)
    places = {key: place for place, key in enumerate(keys) if key not in known}
    blocks = torch.tensor(list(places.values())).split(ENCODED_AT_ONCE) if places else ()
    with writing(folder), saying_what_is_kept(known, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for rows in progress_bar(blocks, len(blocks), f"blocks of {ENCODED_AT_ONCE} images"):
            features = network.scores(images[rows]).half()
            own = [keys[row] for row in rows]
            with replacing(folder / f"{own[0].hex()}.safetensors") as partial:
                names = torch.frombuffer(bytearray(b"".join(own)), dtype=torch.uint8)
                partial.write_bytes(save({"keys": names.view(-1, 16), "features": features}))
            known.update(zip(own, features, strict=True))
    return torch.stack([known[key] for key in keys]).float()


@contextmanager
def saying_what_is_kept(known: Mapping[bytes, Tensor], folder: Path) -> Iterator[None]:
    """Says at Ctrl-C how many images' features are kept, and where."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"the features of {len(known):,} images are kept in {folder}")
        raise


def _read_blocks(folder: Path) -> dict[bytes, Tensor]:
    """Returns the features in a folder, by the hash of the image."""
    known: dict[bytes, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            block = load_file(path)
        except SafetensorError as error:
            raise InputError(f"{path} is damaged: {error} (delete it)") from error
        known.update(zip(map(bytes, block["keys"].numpy()), block["features"], strict=True))
    return known


def _name(network: NetworkClassifier) -> str:
    """Returns a hash of all that decides the features of an image."""
    made: Any = network.network
    settings = [repr(made), made.side, made.mirrored, network.precision, network.device.type]
    digest = hashlib.sha256(repr(settings).encode())
    for tensor in (network.mean, network.stddev, *made.state_dict().values()):
        digest.update(tensor.detach().cpu().contiguous().numpy())
    return digest.hexdigest()[:16]
