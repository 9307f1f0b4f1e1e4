"""A mechanism under another numbering of its classes."""

from dataclasses import dataclass

from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism
from labeldp.mechanisms.noise import Noise, Prior
from labeldp.support.validate import InputError, check_labels


@dataclass(frozen=True, eq=False)
class Reordered(ClassMechanism):
    """The same releases with other numbers for the classes; takes no prior.

    A released label is a new number, and column c of bits and reals belongs to the new class c. The
    numbers of a survey's answers stay.

    Attributes:
        own: the mechanism.
        order: its number of each new class, int64 (K,).

    >>> import torch
    >>> from labeldp.mechanisms import Rappor
    >>> turned = Reordered(1.0, Rappor(1.0), torch.tensor([2, 0, 1]))
    >>> turned.renumbered(torch.tensor([[0, 0, 1]], dtype=torch.uint8)).tolist()
    [[1, 0, 0]]
    """

    own: ClassMechanism
    order: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "outputs_are_classes", self.own.outputs_are_classes)

    @property
    def name(self) -> str:
        """That of the mechanism."""
        return self.own.name

    def renumbered(self, outputs: Tensor) -> Tensor:
        """Returns outputs of the mechanism by the new numbers.

        Raises:
            InputError: labels outside [0, K), or another number of columns than K.
        """
        return self._moved(outputs, self.order, self._places)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns what the mechanism draws, by the new numbers."""
        labels = self.order[check_labels(labels, num_classes)]
        return self.renumbered(self.own.release(labels, num_classes, generator))

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns that of the mechanism, float64 (N, K)."""
        return self.own.log_likelihood(self._back(released), num_classes)[:, self.order]

    def centred_log_likelihood(
        self, released: Tensor, num_classes: int, prior: Prior = None
    ) -> Tensor:
        """Returns that of the mechanism, float32 (N, K)."""
        return self.own.centred_log_likelihood(self._back(released), num_classes)[:, self.order]

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns those of the mechanism, bool (N, K)."""
        return self.own.most_likely_labels(self._back(released), num_classes)[:, self.order]

    def unbiased(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns that of the mechanism, float64 (N, K)."""
        return self.own.unbiased(self._back(released), num_classes)[:, self.order]

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns every possible output, by the new numbers."""
        return self.renumbered(self.own.output_space(num_classes))

    @property
    def _places(self) -> Tensor:
        """The new number of each of the mechanism's classes, int64 (K,)."""
        return self.order.argsort()

    def _back(self, released: Tensor) -> Tensor:
        """Returns outputs by the mechanism's own numbers."""
        return self._moved(released, self._places, self.order)

    def _moved(self, outputs: Tensor, columns: Tensor, numbers: Tensor) -> Tensor:
        if outputs.dim() == 2:
            if outputs.shape[1] != len(columns):  # or columns would be left out unseen
                raise InputError(
                    f"outputs must have a column for each of {len(columns)} classes, got "
                    f"{outputs.shape[1]}"
                )
            return outputs[:, columns]
        if self.outputs_are_classes:
            return numbers[check_labels(outputs, len(numbers))]
        return outputs
