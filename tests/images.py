"""Small image data and their .npz files."""

import numpy as np


def make_arrays(shape=(4, 5), train=40, test=20, num_classes=4):
    """Random images whose first pixel is their label, so that a shuffle of one half shows."""
    random = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", train), ("test", test)):
        labels = np.arange(size, dtype=np.int64) % num_classes
        images = random.integers(0, 256, (size, *shape), dtype=np.uint8)
        images.reshape(size, -1)[:, 0] = labels
        arrays |= {f"x_{part}": images, f"y_{part}": labels}
    return arrays


def write_tiny(folder):
    """Writes `tiny.npz`: 3 classes told apart by brightness, 8 x 8 grey images."""
    draws = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", 240), ("test", 60)):
        labels = draws.integers(0, 3, size)
        noise = draws.integers(0, 60, (size, 8, 8))
        arrays[f"x_{part}"] = (noise + 60 * labels[:, None, None]).astype(np.uint8)
        arrays[f"y_{part}"] = labels.astype(np.int64)
    return write_npz(folder, "tiny", **arrays)


def write_npz(folder, name="mine", **arrays):
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    return path


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def write_noise(folder, train):
    """Writes a `cifar10.npz` and a `cifar100.npz` of 16 x 16 noise with 100 test images."""
    draws = np.random.default_rng(0)
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        arrays = {}
        for part, size in (("train", train), ("test", 100)):
            arrays[f"x_{part}"] = draws.integers(0, 256, (size, 16, 16, 3)).astype(np.uint8)
            arrays[f"y_{part}"] = np.arange(size, dtype=np.int64) % classes
        write_npz(folder, name, **arrays)
