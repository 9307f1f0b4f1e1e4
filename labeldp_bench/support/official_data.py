"""Facts about the official data sets. Imports no torch: reports need them too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OfficialData:
    """One data set that torchvision fetches.

    Attributes:
        torchvision: the name of torchvision's class.
        num_classes: K.
        n_train: number of training images.
    """

    torchvision: str
    num_classes: int
    n_train: int


OFFICIAL = {
    "mnist": OfficialData("MNIST", 10, 60_000),
    "fashion_mnist": OfficialData("FashionMNIST", 10, 60_000),
    "kmnist": OfficialData("KMNIST", 10, 60_000),
    "cifar10": OfficialData("CIFAR10", 10, 50_000),
    "cifar100": OfficialData("CIFAR100", 100, 50_000),
}
"""Our name -> the data set; configs/dataset has a file for each."""
