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


def write_npz(folder, name="mine", **arrays):
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    return path


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]
