"""Gradients of single examples, shortened to length 1, for noisy descents."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from labeldp.support.validate import InputError
from labeldp_bench.training.fit import NetworkClassifier


def nearest_point(
    target: Tensor, start: Tensor, corner: Callable[[Tensor], Tensor], iterations: int
) -> Tensor:
    """Returns nearly the nearest point to `target` in a convex set, of the shape of `target`.

    Exact steps towards one corner after the other.

    Source: Frank, Wolfe (1956).

    Args:
        target: any tensor.
        start: a point of the set, of that shape.
        corner: returns the corner of the set with the least inner product with a direction.
        iterations: >= 1.
    """
    nearest = start
    for _ in range(iterations):
        direction = corner(nearest - target) - nearest
        length = float(direction.square().sum())
        if length == 0:
            break
        step = float(((target - nearest) * direction).sum()) / length
        if step <= 0:
            break
        nearest = nearest + min(step, 1.0) * direction
    return nearest


JACOBIANS_AT_ONCE = 16
"""Examples whose K gradients are in memory together."""


@dataclass(frozen=True)
class NetworkGradients:
    """The cross-entropy of a network's examples, as a function of its weights in one vector.

    Dropout is off. Lengths are in units of `clip`: a gradient of that length has length 1.

    Args:
        classifier: the network and the scale of its pixels.
        features: of all examples, (N, H, W, C).
        clip: > 0.

    Raises:
        InputError: the network normalises batches, so that no example has a gradient of its own.
    """

    classifier: NetworkClassifier
    features: Tensor
    clip: float = 1.0

    def __post_init__(self) -> None:
        network = self.classifier.network
        if any(name.endswith("running_mean") for name, _ in network.named_buffers()):
            raise InputError(
                "learner=noisy_sgd needs the gradient of each example alone, and "
                f"{type(network).__name__} normalises over batches (use model=tiny_cnn)"
            )
        network.eval()

    @property
    def weights(self) -> Tensor:
        """All parameters of the network, float32 (P,), CPU."""
        parts = [each.detach().cpu().flatten() for each in self.classifier.network.parameters()]
        return torch.cat(parts)

    def trained(self, weights: Tensor) -> NetworkClassifier:
        """Returns the classifier with `weights`, (P,), in its network."""
        nn.utils.vector_to_parameters(
            weights.to(self.classifier.device), self.classifier.network.parameters()
        )
        return self.classifier

    def of(self, weights: Tensor, indices: Tensor, labels: Tensor) -> Tensor:
        """Returns the gradient of each example's loss, float32 (m, P).

        Args:
            weights: (P,), where the network lives.
            indices: int64 (m,), positions of the examples.
            labels: int64 (m,).
        """

        def loss(weights: Tensor, image: Tensor, label: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self._logits(weights, image[None]), label[None])

        images, labels = self._images(indices), labels.to(self.classifier.device)
        return vmap(grad(loss), in_dims=(None, 0, 0))(weights, images, labels) / self.clip

    def nearest_in_hull(
        self, weights: Tensor, target: Tensor, indices: Tensor, iterations: int
    ) -> Tensor:
        """Returns nearly the nearest mean gradient to `target` that soft labels can give, (P,).

        The corners give each example one label, and its gradient is shortened to length 1, as a
        curator shortens it. They are never written down: products with the network's Jacobian find
        them, by one pass forward and one backward for each iteration.

        Args:
            weights: (P,), where the network lives.
            target: noisy mean gradient, (P,).
            indices: int64 (m,), of public examples.
            iterations: >= 1.
        """
        images = self._images(indices)

        def logits(weights: Tensor) -> Tensor:
            return self._logits(weights, images)

        scores, back = vjp(logits, weights)[:2]
        guess = scores.softmax(1)
        factors = self._factors(weights, images, guess) / (self.clip * len(indices))

        def mean_of(soft: Tensor) -> Tensor:
            # Label c adds its share times (p - e_c) to what is sent back through the network.
            shares = soft * factors
            (found,) = back(guess * shares.sum(1, keepdim=True) - shares)
            return found

        def corner(direction: Tensor) -> Tensor:
            moved = jvp(logits, (weights,), (direction,))[1]
            products = factors * ((guess * moved).sum(1, keepdim=True) - moved)
            best = products.argmin(1)
            return mean_of(nn.functional.one_hot(best, guess.shape[1]).to(guess))

        uniform = torch.full_like(guess, 1 / guess.shape[1])
        return nearest_point(target, mean_of(uniform), corner, iterations)

    def _factors(self, weights: Tensor, images: Tensor, guess: Tensor) -> Tensor:
        """Returns by what the gradient under each label is shortened, in (0, 1], (m, K)."""

        def single(weights: Tensor, image: Tensor) -> Tensor:
            return self._logits(weights, image[None])[0]

        one_hot, factors = torch.eye(guess.shape[1], device=guess.device), []
        parts = zip(images.split(JACOBIANS_AT_ONCE), guess.split(JACOBIANS_AT_ONCE), strict=True)
        for some, likely in parts:
            jacobian = vmap(jacrev(single), in_dims=(None, 0))(weights, some)
            products = jacobian @ jacobian.transpose(1, 2)
            away = likely[:, None, :] - one_hot  # of label c: p - e_c
            squares = torch.einsum("ick,ikl,icl->ic", away, products, away).clamp_min(0)
            factors.append((self.clip / squares.sqrt()).clamp_max(1))
        return torch.cat(factors)

    def _images(self, indices: Tensor) -> Tensor:
        return self.classifier.normalise(self.features[indices].to(self.classifier.device))

    def _logits(self, weights: Tensor, images: Tensor) -> Tensor:
        named = dict(self.classifier.network.named_parameters())
        parts = weights.split([each.numel() for each in named.values()])
        shaped = {
            name: part.view(each.shape)
            for part, (name, each) in zip(parts, named.items(), strict=True)
        }
        return functional_call(self.classifier.network, shaped, (images,))
