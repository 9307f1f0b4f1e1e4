"""BlockRR's imbalanced CIFAR-10: which images, how many, and the balanced test set beside them."""

import os
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms import NoPrivacy
from labeldp.support.validate import InputError
from labeldp_bench.data.images import ImbalancedImages
from labeldp_bench.experiments.compose import compose_cell

COUNTS = [60, 30, 10]
REAL = Path(os.environ.get("LABELDP_DATA", "none"))


def make_arrays(seed=0):
    """60 training and 20 test images of each of 3 classes; the first pixel is the label."""
    random = np.random.default_rng(seed)
    arrays = {}
    for part, size in (("train", 180), ("test", 60)):
        labels = random.permutation(np.arange(size) % 3)
        images = random.integers(0, 256, (size, 2, 3, 3), dtype=np.uint8)
        images[:, 0, 0, 0] = labels
        arrays |= {f"x_{part}": images, f"y_{part}": labels}
    return arrays


def draw(folder, arrays, seed=0, **changes):
    np.savez(folder / "whole.npz", **arrays)
    arguments = {"name": "part", "source": "whole", "num_classes": 3, "train_counts": COUNTS}
    return ImbalancedImages(**arguments | changes).draw(folder, seed)


def counts(labels):
    return labels.bincount().tolist()


def train_labels(bundle):
    return bundle.store.open(float("inf"), seed=0, again="test").release(NoPrivacy()).outputs


@pytest.mark.parametrize("selection", ["hash", "file_order"])
def test_counts_and_labels_are_right(tmp_path, selection):
    """If it failed, the part would have other class sizes, or labels of other images."""
    bundle = draw(tmp_path, make_arrays(), selection=selection)
    assert counts(train_labels(bundle)) == COUNTS
    assert counts(bundle.test_labels) == [6, 3, 1]
    assert (train_labels(bundle) == bundle.train_features[:, 0, 0, 0]).all()
    assert (bundle.test_labels == bundle.test_features[:, 0, 0, 0]).all()


@pytest.mark.parametrize(("name", "size"), [("cifar10_1", 33500), ("cifar10_2", 30700)])
def test_sizes_of_the_paper(name, size):
    """If it failed, our imbalanced CIFAR-10 would not have the paper's size."""
    cell = compose_cell([f"dataset={name}"])
    dataset = cell.build().dataset
    assert sum(dataset.train_counts) == size and not any(n % 10 for n in dataset.train_counts)
    assert (dataset.name, dataset.source, dataset.selection) == (name, "cifar10", "hash")
    assert cell.identity["model"] == "resnet18"


def test_every_copy_of_the_source_gives_the_same_arrays(tmp_path):
    """If it failed, two machines with differently ordered files would train on other images."""
    arrays = make_arrays()
    order = np.random.default_rng(1).permutation(180)
    shuffled = arrays | {key: arrays[key][order] for key in ("x_train", "y_train")}
    here, there = draw(tmp_path, arrays), draw(tmp_path, shuffled)
    assert here.selection_sha256 == there.selection_sha256
    assert here.sha256 == there.sha256
    assert (train_labels(here) == train_labels(there)).all()


def test_file_order_takes_the_first_of_each_class(tmp_path):
    """If it failed, `file_order` would not reproduce what the authors' code takes."""
    arrays = make_arrays()
    bundle = draw(tmp_path, arrays, selection="file_order")
    labels = arrays["y_train"]
    kept = [row for row, y in enumerate(labels) if (labels[:row] == y).sum() < COUNTS[y]]
    assert (bundle.train_features.numpy() == arrays["x_train"][kept]).all()


def test_part_follows_its_own_seed_and_not_that_of_the_run(tmp_path):
    """If it failed, the seeds of a table would be measured on different data sets."""
    ways = ({"seed": 0}, {"seed": 1}, {"selection_seed": 1}, {"selection": "file_order"})
    drawn = [draw(tmp_path, make_arrays(), **way).selection_sha256 for way in ways]
    assert drawn[0] == drawn[1] and len(set(drawn)) == 3


def test_balanced_test_set_is_kept_beside(tmp_path):
    """If it failed, only the accuracy that favours the large classes could be reported."""
    images, labels = draw(tmp_path, make_arrays()).extra_tests["balanced"]
    assert counts(labels) == [20, 20, 20]
    assert (labels == images[:, 0, 0, 0]).all()
    limited = draw(tmp_path, make_arrays(), limit_test=5, limit_train=7)
    assert len(limited.extra_tests["balanced"][1]) == len(limited.test_labels) == 5
    assert len(limited.train_features) == len(limited.store) == 7


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train_counts": [60, 30]}, "train_counts"),
        ({"train_counts": [60, 30, 15]}, "train_counts must be multiples of 10"),
        ({"train_counts": [60, 30, 0]}, "train_counts"),
        ({"train_counts": [60, 30, 70]}, "part needs 70 .* class 2, whole has 60"),
        ({"selection": "random"}, "selection"),
        ({"selection_seed": -1}, "selection_seed"),
        ({"source": "nothing"}, r"nothing\.npz"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(tmp_path, changes, named):
    """If it failed, a part could silently be smaller than its name says."""
    with pytest.raises(InputError, match=rf"^[^\n]*{named}[^\n]*$"):
        draw(tmp_path, make_arrays(), **changes)


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("cifar10_1", "9325a3369061622c7e582a5f50ca839520e057a9545c39cc304bc2a6ce14fe32"),
        ("cifar10_2", "7e2ecc4b4a3b677556a556ce1669932e019bce7f5386082c9ba3329b4aac3e7d"),
    ],
)
def test_real_parts_are_those_of_our_records(name, fingerprint):
    """If it failed, records of before and after would be of different images."""
    if not (REAL / "cifar10.npz").is_file():
        pytest.skip("LABELDP_DATA names no folder that holds cifar10.npz")
    bundle = compose_cell([f"dataset={name}"]).build().dataset.draw(REAL, seed=0)
    assert bundle.selection_sha256 == fingerprint
