"""Image data: the .npz of a data set, its limits, its damage; the imbalanced parts of BlockRR."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.mechanisms import NoPrivacy
from labeldp.support.validate import InputError
from labeldp_bench.data.images import CoarseImages, ImageData, ImbalancedImages
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.run import Run, TrialData
from tests.images import cut, make_arrays, write_npz


def true_labels(bundle):
    return bundle.store.open(float("inf"), seed=0, again="test").release(NoPrivacy()).outputs


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3)])
def test_bundle_holds_what_the_file_holds_and_labels_are_in_the_store(tmp_path, shape):
    """If it failed, images or labels would change on their way from the file to the run."""
    arrays = make_arrays(shape)
    write_npz(tmp_path, **arrays)
    bundle = ImageData("mine", 4).draw(tmp_path, seed=3)
    as_nhwc = (-1, 4, 5, shape[2] if len(shape) == 3 else 1)
    for part, features in (("train", bundle.train_features), ("test", bundle.test_features)):
        assert (features.numpy() == arrays[f"x_{part}"].reshape(as_nhwc)).all()
        assert features.dtype == torch.uint8
    assert (bundle.test_labels.numpy() == arrays["y_test"]).all()
    assert (true_labels(bundle).numpy() == arrays["y_train"]).all()
    assert (bundle.name, bundle.num_classes, bundle.fresh_labels) == ("mine", 4, False)
    # A learner that gets hold of the bundle cannot read training labels past the budget.
    tensors = [value for value in vars(bundle).values() if isinstance(value, torch.Tensor)]
    assert [len(tensor) for tensor in tensors if tensor.dtype == torch.int64] == [20]
    with pytest.raises(InputError, match="budget"):
        bundle.store.release(NoPrivacy())


def test_hash_follows_the_data_and_not_the_training_labels(tmp_path):
    """If it failed, a record would hide a change of the data, or give away a training label."""
    arrays = make_arrays()
    hashes = {}
    for key in ("same", "x_train", "x_test", "y_test", "y_train"):
        changed = {name: array.copy() for name, array in arrays.items()}
        if key != "same":
            changed[key].flat[0] ^= 1
        write_npz(tmp_path, **changed)
        hashes[key] = ImageData("mine", 4).draw(tmp_path, seed=0).sha256
    assert hashes["same"] == hashes["y_train"]
    assert len(set(hashes.values())) == 4


def test_limit_train_is_a_reproducible_random_part(tmp_path):
    """If it failed, a small run would not be repeatable, or would see the first classes only."""
    arrays = make_arrays(train=400)
    write_npz(tmp_path, **arrays)

    def part(limit, seed):
        return ImageData("mine", 4, limit_train=limit).draw(tmp_path, seed)

    def rows(bundle):
        whole = {image.tobytes(): row for row, image in enumerate(arrays["x_train"])}
        return [whole[image.numpy().tobytes()] for image in bundle.train_features]

    once, again, other = part(50, seed=1), part(50, seed=1), part(50, seed=2)
    assert rows(once) == rows(again) == sorted(rows(once))
    assert rows(once) != rows(other)
    assert max(rows(once)) > 200
    assert set(rows(once)) < set(rows(part(90, seed=1)))
    assert (true_labels(once) == once.train_features[:, 0, 0, 0]).all()
    assert len(once.test_labels) == 20


def test_limit_test_takes_labels_along(tmp_path):
    """If it failed, a shortened test set would be scored against other images' labels."""
    write_npz(tmp_path, **make_arrays())
    bundle = ImageData("mine", 4, limit_test=7).draw(tmp_path, seed=0)
    assert len(bundle.test_labels) == 7
    assert (bundle.test_labels == bundle.test_features[:, 0, 0, 0]).all()
    assert len(bundle.train_features) == 40


WRONG_ARRAYS = {
    "float images": ("x_train", lambda x: x / 255, "float64"),
    "flat images": ("x_test", lambda x: x.reshape(20, -1), r"\(20, 20\)"),
    "channels first": ("x_train", lambda x: x.reshape(40, 1, 4, 5), r"\(40, 1, 4, 5\)"),
    "no images": ("x_train", lambda x: x[:0], "length 0"),
    "other image size": ("x_test", lambda x: x[:, :3], r"\(3, 5, 1\)"),
    "labels of another type": ("y_train", lambda y: y.astype(np.float32), "float32"),
    "labels as a column": ("y_test", lambda y: y[:, None], r"\(20, 1\)"),
    "lengths that disagree": ("y_train", lambda y: y[:-1], "40 images and 39 labels"),
    "label too large": ("y_test", lambda y: y + 1, r"\[0, 3\] .*y_test\[3\]"),
    "label negative": ("y_train", lambda y: y - 1, r"\[0, 3\] .*y_train\[0\]"),
    "labels beyond int64": ("y_train", lambda y: y.astype(np.uint64) + 2**63, "from 0 on"),
    "pickled objects": ("x_train", lambda x: x.astype(object), "allow_pickle"),
}
DAMAGE = {
    "cut": cut,
    "text": lambda _: b"hello",
    "empty": lambda _: b"",
    "pickle": lambda _: pickle.dumps({"x_train": 1}),
    "flipped": lambda data: data[:300] + bytes([data[300] ^ 1]) + data[301:],
}


@pytest.mark.parametrize("case", [*WRONG_ARRAYS, *DAMAGE, "array missing"])
def test_wrong_file_is_refused_in_one_line(tmp_path, case):
    """If it failed, a wrong file would train on nonsense, be unpickled, or end in a traceback."""
    arrays = make_arrays()
    key, change, said = WRONG_ARRAYS.get(case, ("", None, "is not a zip|Bad CRC"))
    if case == "array missing":
        key, said = "y_test", "missing"
        del arrays[key]
    elif change is not None:
        arrays[key] = change(arrays[key])
    path = write_npz(tmp_path, **arrays)
    if case in DAMAGE:
        path.write_bytes(DAMAGE[case](path.read_bytes()))
    with pytest.raises(InputError, match=rf"^mine\.npz[^\n]*{key}[^\n]*({said})[^\n]*$"):
        ImageData("mine", 4).draw(tmp_path, seed=0)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64])
def test_labels_of_any_integer_type_are_the_same_data(tmp_path, kind):
    """If it failed, a file of numpy's default integers on Windows would be refused."""
    arrays = make_arrays()
    cast = {key: array.astype(kind) for key, array in arrays.items() if key[0] == "y"}
    draws = []
    for name, content in (("plain", arrays), ("other", arrays | cast)):
        write_npz(tmp_path, name, **content)
        draws.append(ImageData(name, 4).draw(tmp_path, seed=0))
    assert draws[0].sha256 == draws[1].sha256
    labels = [true_labels(draw) for draw in draws]
    assert torch.equal(*labels) and labels[1].dtype == torch.int64


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        ((0, 1, 2), 4, "class 3, .*num_classes=4 .*only 3"),
        ((0, 0, 0), 2, "class 1, .*num_classes=2$"),
        ((0, 5), 99, "class 1, 2, 3, 4, 6 and 92 more, .*num_classes=99$"),
    ],
)
def test_a_class_without_an_example_is_said_once(tmp_path, capsys, labels, classes, said):
    """If it failed, the last class alone would be refused, or a wrong number go unnoticed."""
    arrays = make_arrays()
    for key in ("y_train", "y_test"):
        arrays[key] = np.resize(np.array(labels), len(arrays[key]))
    name = f"absent{classes}_{labels[-1]}"
    write_npz(tmp_path, name, **arrays)
    keys = ["dataset=npz", f"dataset.name={name}", f"dataset.num_classes={classes}"]
    for noise in ("secret", "seeded", "seeded"):
        cell = compose_cell([*keys, "mechanism=rr", f"noise={noise}"])
        run = Run(cell, tmp_path, cell.build())
        TrialData([run], Environment(tmp_path, tmp_path, torch.device("cpu"))).of(0)
        assert noise == "seeded" or not capsys.readouterr().err
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(rf"^{name}\.npz: no example of .*{said}", line)


@pytest.mark.parametrize(
    "argument",
    [
        {"name": "../mine"},
        {"name": "mine.npz"},
        {"num_classes": 1},
        {"limit_train": 0},
        {"limit_train": 41},
        {"limit_test": 2.5},
    ],
)
def test_bad_arguments_are_refused_in_one_line(tmp_path, argument):
    """If it failed, a typo would write outside the folder, or silently train on less."""
    write_npz(tmp_path, **make_arrays())
    ((key, value),) = argument.items()
    with pytest.raises(InputError, match=rf"^dataset\.{key} [^\n]*{value}[^\n]*$"):
        ImageData(**{"name": "mine", "num_classes": 4} | argument).draw(tmp_path, seed=0)


COUNTS = [60, 30, 10]
REAL = Path(os.environ.get("LABELDP_DATA", "none"))


def whole_arrays():
    """60 training and 20 test images of each of 3 classes; the first pixel is the label."""
    return make_arrays((2, 3, 3), train=180, test=60, num_classes=3)


def draw(folder, arrays, seed=0, **changes):
    np.savez(folder / "whole.npz", **arrays)
    arguments = {"name": "part", "source": "whole", "num_classes": 3, "train_counts": COUNTS}
    return ImbalancedImages(**arguments | changes).draw(folder, seed)


def counts(labels):
    return labels.bincount().tolist()


@pytest.mark.parametrize("selection", ["hash", "file_order"])
def test_counts_and_labels_are_right(tmp_path, selection):
    """If it failed, the part would have other class sizes, or labels of other images."""
    bundle = draw(tmp_path, whole_arrays(), selection=selection)
    assert counts(true_labels(bundle)) == COUNTS
    assert counts(bundle.test_labels) == [6, 3, 1]
    assert (true_labels(bundle) == bundle.train_features[:, 0, 0, 0]).all()
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
    arrays = whole_arrays()
    order = np.random.default_rng(1).permutation(180)
    shuffled = arrays | {key: arrays[key][order] for key in ("x_train", "y_train")}
    here, there = draw(tmp_path, arrays), draw(tmp_path, shuffled)
    assert here.selection_sha256 == there.selection_sha256
    assert here.selection_sha256[:16] == "93cf3e7d27bec4ea"  # by the rule of our records
    assert here.sha256 == there.sha256
    assert (true_labels(here) == true_labels(there)).all()


def test_file_order_takes_the_first_of_each_class(tmp_path):
    """If it failed, `file_order` would not reproduce what the authors' code takes."""
    arrays = whole_arrays()
    bundle = draw(tmp_path, arrays, selection="file_order")
    labels = arrays["y_train"]
    kept = [row for row, y in enumerate(labels) if (labels[:row] == y).sum() < COUNTS[y]]
    assert (bundle.train_features.numpy() == arrays["x_train"][kept]).all()


def test_part_follows_its_own_seed_and_not_that_of_the_run(tmp_path):
    """If it failed, the seeds of a table would be measured on different data sets."""
    ways = ({"seed": 0}, {"seed": 1}, {"selection_seed": 1}, {"selection": "file_order"})
    drawn = [draw(tmp_path, whole_arrays(), **way).selection_sha256 for way in ways]
    assert drawn[0] == drawn[1] and len(set(drawn)) == 3


def test_balanced_test_set_is_kept_beside(tmp_path):
    """If it failed, only the accuracy that favours the large classes could be reported."""
    images, labels = draw(tmp_path, whole_arrays()).extra_tests["balanced"]
    assert counts(labels) == [20, 20, 20]
    assert (labels == images[:, 0, 0, 0]).all()
    limited = draw(tmp_path, whole_arrays(), limit_test=5, limit_train=7)
    assert len(limited.extra_tests["balanced"][1]) == len(limited.test_labels) == 5
    assert len(limited.train_features) == len(limited.store) == 7


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train_counts": [60, 30]}, "train_counts"),
        ({"train_counts": [60, 30, 15]}, "train_counts .*10"),
        ({"train_counts": [60, 30, 70]}, "part .*whole"),
        ({"selection": "random"}, "selection"),
    ],
)
def test_bad_parts_are_refused_in_one_line(tmp_path, changes, named):
    """If it failed, a part could silently be smaller than its name says."""
    with pytest.raises(InputError, match=rf"^[^\n]*{named}[^\n]*$"):
        draw(tmp_path, whole_arrays(), **changes)


def test_coarse_classes_are_groups_of_the_images_own(tmp_path):
    """If it failed, labels would be of other images, or fine ones would pass the wall."""
    np.savez(tmp_path / "whole.npz", **whole_arrays())
    coarse = CoarseImages(
        name="coarse", num_classes=2, source="whole", groups=[1, 0, 1], limit_train=50
    )
    bundle = coarse.draw(tmp_path, seed=0)
    assert bundle.name == "coarse" and len(bundle.train_features) == 50
    groups = torch.tensor([1, 0, 1])
    for images, labels in (
        (bundle.train_features, true_labels(bundle)),
        (bundle.test_features, bundle.test_labels),
    ):
        assert torch.equal(labels, groups[images[:, 0, 0, 0].long()])
    with pytest.raises(InputError, match=r"dataset\.groups .*2"):
        CoarseImages(name="coarse", num_classes=2, source="whole", groups=[1, 0, 2])


@pytest.mark.skipif(not (REAL / "cifar100.npz").is_file(), reason="needs CIFAR-100")
def test_superclasses_have_five_classes_each():
    """If it failed, the table from fine classes to superclasses would be mistyped."""
    dataset = compose_cell(["dataset=cifar100_coarse"]).build().dataset
    bundle = dataset.draw(REAL, seed=0)
    assert counts(bundle.test_labels) == [500] * 20
    with np.load(REAL / "cifar100.npz") as arrays:
        if "y_test_coarse" in arrays.files:
            assert bundle.test_labels.tolist() == arrays["y_test_coarse"].tolist()
