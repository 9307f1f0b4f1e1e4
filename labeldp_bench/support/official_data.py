"""Facts about the official data sets. Imports no torch: reports need them too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OfficialData:
    """One data set that torchvision fetches.

    Attributes:
        torchvision: the name of torchvision's class.
        num_classes: K.
        n_train: number of training images.
        images_sha256: of the images and the test labels, as `data.fingerprint.of_images` returns
            it; None where no copy was at hand.
        labels_sha256: the same of the training images with their labels, which are public here.
    """

    torchvision: str
    num_classes: int
    n_train: int
    images_sha256: str | None = None
    labels_sha256: str | None = None


OFFICIAL = {
    "mnist": OfficialData(
        "MNIST", 10, 60_000,
        "2fec4d150af52121cc4540b83bca04a6c9f6d606d74c3f2f1199348b0d87a421",
        "d46044cef7880c9975c113b330e9a17126081c8c145fd9342f9d872dad4c4759",
    ),
    "fashion_mnist": OfficialData(
        "FashionMNIST", 10, 60_000,
        "76a3023006ccfa033af9a5eebf9f310617076ec47804f0e4c13297faf862b2af",
        "f5574727cf739480a59de07a9172d6ac06cedc5ac18faa4084b4e799b7ce6318",
    ),
    "kmnist": OfficialData("KMNIST", 10, 60_000),
    "cifar10": OfficialData(
        "CIFAR10", 10, 50_000,
        "95b30d54b182c2e7289533a38689e24e091f8715fa2e14ed7482c2bc84d563db",
        "fa8a58a3e006a5e151f2c6387b6857ae980d48d94cddc42b3f0bfd6ac11c4e87",
    ),
    "cifar100": OfficialData(
        "CIFAR100", 100, 50_000,
        "539a47ea8fb333d7150b7b5588d9adbb57ee7e0507404be480112922ffab91e0",
        "dfdf998228e48e0a57c26cb8aa66598899ba8102da45ecb3af4c04f4fc683e5d",
    ),
}  # fmt: skip
"""Our name -> the data set; configs/dataset has a file for each.

Hashes are of the copies that the committed results were made on. Those of MNIST and Fashion-MNIST,
written as the four files of the official site, have these files' known MD5s. Those of CIFAR have
another order than torchvision's, which the hashes leave out.
"""
