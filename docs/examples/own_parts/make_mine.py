"""Writes mine.npz: 3 classes of 8 x 8 grey images that differ in brightness."""

import numpy as np

generator = np.random.default_rng(0)
arrays = {}
for part, size in (("train", 600), ("test", 150)):
    labels = generator.integers(0, 3, size)
    pixels = generator.integers(0, 60, (size, 8, 8)) + 60 * labels[:, None, None]
    arrays[f"x_{part}"] = pixels.astype(np.uint8)
    arrays[f"y_{part}"] = labels.astype(np.int64)
np.savez("mine.npz", **arrays)
