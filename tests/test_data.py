"""Image data: the .npz of a data set, its damage, and the official files it is made from."""

import functools
import gzip
import hashlib
import http.server
import os
import pickle
import re
import runpy
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp_bench.config import compose_cell
from labeldp_bench.data import ImageData, official
from labeldp_bench.data.images import load_images, read_npz
from labeldp_bench.mechanisms import NoPrivacy
from labeldp_bench.validate import InputError

SCRIPT = Path(__file__).parents[1] / "scripts" / "get_data.py"
REAL = Path(os.environ.get("LABELDP_DATA", "none"))


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


def true_labels(bundle):
    return bundle.vault.open(float("inf"), seed=0).release(NoPrivacy()).outputs


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3)])
def test_bundle_holds_what_the_file_holds(tmp_path, shape):
    """If it failed, images or labels would change on their way from the file to the run."""
    arrays = make_arrays(shape)
    write_npz(tmp_path, **arrays)
    bundle = ImageData("mine", 4).draw(tmp_path, seed=3)
    as_nhwc = (-1, 4, 5, shape[2] if len(shape) == 3 else 1)
    assert (bundle.train_features.numpy() == arrays["x_train"].reshape(as_nhwc)).all()
    assert (bundle.test_features.numpy() == arrays["x_test"].reshape(as_nhwc)).all()
    assert bundle.train_features.dtype == bundle.test_features.dtype == torch.uint8
    assert (bundle.test_labels.numpy() == arrays["y_test"]).all()
    assert (true_labels(bundle).numpy() == arrays["y_train"]).all()
    assert (bundle.name, bundle.num_classes, ImageData.trials) == ("mine", 4, 1)


def test_training_labels_are_only_in_the_vault(tmp_path):
    """If it failed, a learner that gets hold of the bundle could read labels past the budget."""
    write_npz(tmp_path, **make_arrays())
    bundle = ImageData("mine", 4).draw(tmp_path, seed=0)
    tensors = [value for value in vars(bundle).values() if isinstance(value, torch.Tensor)]
    assert [len(tensor) for tensor in tensors if tensor.dtype == torch.int64] == [20]
    with pytest.raises(InputError, match="budget"):
        bundle.vault.release(NoPrivacy())


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


def without(key):
    return lambda arrays: {name: array for name, array in arrays.items() if name != key}


def with_array(key, change):
    return lambda arrays: arrays | {key: change(arrays[key])}


DAMAGE = {
    "array missing": (without("y_test"), r"array y_test is missing.*got x_train, y_train"),
    "float images": (
        with_array("x_train", lambda x: x / 255),
        r"x_train must be uint8 .*got float64 of shape \(40, 4, 5, 1\)",
    ),
    "flat images": (
        with_array("x_test", lambda x: x.reshape(20, -1)),
        r"x_test must be uint8 \(N, H, W\).*got uint8 of shape \(20, 20\)",
    ),
    "channels first": (
        with_array("x_train", lambda x: x.reshape(40, 1, 4, 5)),
        r"x_train must be .*C at most 4.*got uint8 of shape \(40, 1, 4, 5\)",
    ),
    "no images": (
        with_array("x_train", lambda x: x[:0]),
        r"x_train must be .*no axis of length 0",
    ),
    "other image size": (
        with_array("x_test", lambda x: x[:, :3]),
        r"x_test must have the shape of x_train's, \(4, 5, 1\), got \(3, 5, 1\)",
    ),
    "labels of another type": (
        with_array("y_train", lambda y: y.astype(np.uint8)),
        r"y_train must be int64 \(N,\), got uint8 of shape \(40,\)",
    ),
    "labels as a column": (
        with_array("y_test", lambda y: y[:, None]),
        r"y_test must be int64 \(N,\), got int64 of shape \(20, 1\)",
    ),
    "lengths that disagree": (
        with_array("y_train", lambda y: y[:-1]),
        r"x_train and y_train must have the same length, got 40 images and 39 labels",
    ),
    "label too large": (
        with_array("y_test", lambda y: y + 1),
        r"y_test must be in \[0, 3\] for num_classes=4, got 4",
    ),
    "label negative": (
        with_array("y_train", lambda y: y - 1),
        r"y_train must be in \[0, 3\] for num_classes=4, got -1",
    ),
    "too few classes": (
        lambda arrays: {k: a % 3 if k[0] == "y" else a for k, a in arrays.items()},
        r"num_classes=4 does not fit the labels, the largest of which is 2",
    ),
    "pickled objects": (
        with_array("x_train", lambda x: x.astype(object)),
        r"array x_train cannot be read as plain numbers: .*allow_pickle=False",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_wrong_file_is_refused_in_one_line(tmp_path, case):
    """If it failed, a wrong file would train on nonsense, or end in a traceback."""
    damage, expected = DAMAGE[case]
    write_npz(tmp_path, **damage(make_arrays()))
    with pytest.raises(InputError, match=rf"^mine\.npz: .*{expected}") as caught:
        ImageData("mine", 4).draw(tmp_path, seed=0)
    assert "\n" not in str(caught.value)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    return data[:300] + bytes([data[300] ^ 1]) + data[301:]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (cut, r"is not a zip archive, or is cut short"),
        (lambda _: b"hello", r"is not a zip archive"),
        (lambda _: b"", r"is not a zip archive"),
        (lambda _: pickle.dumps({"x_train": 1}), r"is not a zip archive"),
        (flip, r"array x_train cannot be read .*Bad CRC-32"),
    ],
)
def test_damaged_archive_is_refused_in_one_line(tmp_path, damage, expected):
    """If it failed, a broken copy would be trained on, unpickled, or end in a traceback."""
    path = write_npz(tmp_path, **make_arrays())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=rf"^mine\.npz.*{expected}") as caught:
        ImageData("mine", 4).draw(tmp_path, seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "../mine"}, "dataset.name must be a file name without folder"),
        ({"name": "mine.npz"}, "without .npz"),
        ({"name": ""}, "dataset.name"),
        ({"name": 3}, "dataset.name"),
        ({"num_classes": 1}, "dataset.num_classes must be >= 2, got 1"),
        ({"limit_train": 0}, "dataset.limit_train must be >= 1, got 0"),
        ({"limit_test": 2.5}, "dataset.limit_test must be an integer >= 1, got 2.5"),
        ({"limit_train": 41}, "dataset.limit_train must be at most 40, .*got 41"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(tmp_path, arguments, expected):
    """If it failed, a typo would write outside the folder, or silently train on less."""
    write_npz(tmp_path, **make_arrays())
    with pytest.raises(InputError, match=expected):
        ImageData(**{"name": "mine", "num_classes": 4} | arguments).draw(tmp_path, seed=0)


def test_every_official_data_set_has_its_config():
    """If it failed, `make data` would bring a data set that no run can name, or the reverse."""
    for name in official.OFFICIAL:
        cell = compose_cell([f"dataset={name}"])
        dataset = cell.build()["dataset"]
        assert dataset == ImageData(name, num_classes=100 if name == "cifar100" else 10)
        assert cell.identity["model"] == ("resnet18" if name.startswith("cifar") else "cnn")
    cell = compose_cell(["dataset=npz", "dataset.name=mine", "dataset.num_classes=4"])
    assert cell.build()["dataset"] == ImageData("mine", num_classes=4)


# Official files: written here in the official formats, read by torchvision's own code.


@pytest.fixture
def datasets():
    try:
        return official.import_torchvision().datasets
    except Exception as error:
        pytest.skip(f"torchvision cannot be imported here: {official.brief(error)}")


def write_idx(folder, arrays, packed=False):
    """Writes the four files of MNIST; returns torchvision's list of names and checksums."""
    folder.mkdir(parents=True)
    resources = []
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        for kind, magic, array in (("images-idx3", 2051, images), ("labels-idx1", 2049, labels)):
            header = struct.pack(f">{1 + array.ndim}i", magic, *array.shape)
            data = header + array.astype(np.uint8).tobytes()
            name = f"{prefix}-{kind}-ubyte"
            zipped = gzip.compress(data)
            resources.append((f"{name}.gz", hashlib.md5(zipped).hexdigest()))
            path = folder / name
            if packed:
                path.with_name(f"{name}.gz").write_bytes(zipped)
            else:
                path.write_bytes(data)
    return resources


def write_cifar(folder, arrays, dataset, monkeypatch, label_key):
    """Writes CIFAR's pickles under the official names, and their checksums into torchvision."""
    folder = folder / dataset.base_folder
    folder.mkdir()

    def dump(name, content):
        data = pickle.dumps(content)
        (folder / name).write_bytes(data)
        return [name, hashlib.md5(data).hexdigest()]

    for part, names in (("train", dataset.train_list), ("test", dataset.test_list)):
        rows = arrays[f"x_{part}"].transpose(0, 3, 1, 2).reshape(len(arrays[f"x_{part}"]), -1)
        images = np.array_split(rows, len(names))
        labels = np.array_split(arrays[f"y_{part}"], len(names))
        listed = [
            dump(name, {"data": images[i], label_key: labels[i].tolist()})
            for i, (name, _) in enumerate(names)
        ]
        monkeypatch.setattr(dataset, f"{part}_list", listed)
    name, checksum = dump(dataset.meta["filename"], {dataset.meta["key"]: ["a", "b"]})
    monkeypatch.setattr(dataset, "meta", dataset.meta | {"filename": name, "md5": checksum})


@pytest.fixture
def no_network(datasets, monkeypatch):
    """Nobody listens at the mirrors; so the test is the same with and without a network."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        monkeypatch.setattr(getattr(datasets, name), "mirrors", [closed])
    for name in ("CIFAR10", "CIFAR100"):
        monkeypatch.setattr(getattr(datasets, name), "url", closed + "cifar.tar.gz")


def assert_same(path, arrays):
    for split, part in zip(read_npz(path), ("train", "test"), strict=True):
        assert (split.images.reshape(arrays[f"x_{part}"].shape) == arrays[f"x_{part}"]).all()
        assert (split.labels == arrays[f"y_{part}"]).all()


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
def test_official_idx_files_are_read_without_a_network(tmp_path, no_network, name, capsys):
    """If it failed, files that somebody downloaded by hand would be ignored or misread."""
    arrays = make_arrays((28, 28))
    write_idx(tmp_path / official.OFFICIAL[name] / "raw", arrays)
    bundle = ImageData(name, 4).draw(tmp_path, seed=0)
    assert bundle.train_features.shape == (40, 28, 28, 1)
    assert_same(tmp_path / f"{name}.npz", arrays)
    assert capsys.readouterr() == ("", "")


def test_packed_official_files_are_checked_and_read(tmp_path, datasets, no_network, monkeypatch):
    """If it failed, .gz files in place would be fetched again, or used although damaged."""
    arrays = make_arrays((28, 28))
    raw = tmp_path / "MNIST" / "raw"
    resources = write_idx(raw, arrays, packed=True)
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    packed = raw / resources[0][0]
    good = packed.read_bytes()
    packed.write_bytes(good + b"x")
    with pytest.raises(official.NotAvailable):
        load_images(tmp_path, "mnist", 4)
    packed.write_bytes(good)
    load_images(tmp_path, "mnist", 4)
    assert_same(tmp_path / "mnist.npz", arrays)


@pytest.mark.parametrize(("name", "key"), [("cifar10", "labels"), ("cifar100", "fine_labels")])
def test_official_cifar_pickles_are_read(tmp_path, datasets, no_network, monkeypatch, name, key):
    """If it failed, CIFAR would come out transposed, or CIFAR-100 with its coarse labels."""
    arrays = make_arrays((32, 32, 3))
    write_cifar(tmp_path, arrays, getattr(datasets, official.OFFICIAL[name]), monkeypatch, key)
    load_images(tmp_path, name, 4)
    assert_same(tmp_path / f"{name}.npz", arrays)


def test_download_is_announced_checked_and_kept(tmp_path, datasets, monkeypatch, capsys):
    """If it failed, the real way of a first user, a download, would be the untested one."""
    arrays = make_arrays((28, 28))
    resources = write_idx(tmp_path / "server", arrays, packed=True)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(tmp_path / "server"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(datasets.MNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    try:
        load_images(tmp_path / "data", "mnist", 4)
    finally:
        server.shutdown()
        server.server_close()
    assert_same(tmp_path / "data" / "mnist.npz", arrays)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fetching mnist with torchvision into ")
    assert "100%" in err


@pytest.mark.parametrize("name", official.OFFICIAL)
def test_offline_says_the_three_ways_out(tmp_path, no_network, name):
    """If it failed, a user without a network would get a traceback, or wait."""
    official.import_torchvision()  # some seconds on a busy machine, and no wait for the network
    started = time.perf_counter()
    with pytest.raises(official.NotAvailable) as caught:
        load_images(tmp_path, name, 10)
    message = str(caught.value)
    assert "refused" in message
    for way in ("`make data`", "data_dir= or LABELDP_DATA", f"write {name}.npz yourself"):
        assert way in message
    assert "\n" not in message
    assert time.perf_counter() - started < 5
    assert not (tmp_path / f"{name}.npz").exists()


def test_silent_server_is_given_up(tmp_path, datasets, monkeypatch):
    """If it failed, a network that swallows packets would hold a run up for minutes."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(official, "NETWORK_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        mirror = f"http://127.0.0.1:{server.getsockname()[1]}/"
        monkeypatch.setattr(datasets.MNIST, "mirrors", [mirror])
        with pytest.raises(official.NotAvailable, match="timed out"):
            load_images(tmp_path, "mnist", 10)
    assert socket.getdefaulttimeout() is None


def test_truncated_official_file_is_named_damaged(tmp_path, no_network):
    """If it failed, half a file would become a .npz that looks right, or a traceback."""
    raw = tmp_path / "MNIST" / "raw"
    write_idx(raw, make_arrays((28, 28)))
    path = raw / "train-images-idx3-ubyte"
    path.write_bytes(cut(path.read_bytes()))
    with pytest.raises(official.NotAvailable, match=r"are damaged \(delete them\)") as caught:
        load_images(tmp_path, "mnist", 4)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*mnist.npz*partial*")) + list(tmp_path.glob("mnist.npz"))


def test_without_torchvision_the_ways_out_are_said(tmp_path, monkeypatch):
    """If it failed, a machine without torchvision could not even say what to do."""

    def missing():
        raise ModuleNotFoundError("No module named 'torchvision'")

    monkeypatch.setattr(official, "import_torchvision", missing)
    with pytest.raises(official.NotAvailable, match=r"No module named 'torchvision' \(three ways"):
        load_images(tmp_path, "mnist", 10)


def test_torchvision_is_not_imported_for_a_file_that_is_there(tmp_path, monkeypatch):
    """If it failed, every run would pay for, or fail at, an import that it does not need."""
    monkeypatch.setattr(official, "import_torchvision", lambda: pytest.fail("imported"))
    write_npz(tmp_path, "mnist", **make_arrays())
    load_images(tmp_path, "mnist", 4)


def test_unknown_name_has_two_ways_out(tmp_path):
    """If it failed, a missing own file would send the user to a download that cannot help."""
    with pytest.raises(official.NotAvailable, match="mine is none of those") as caught:
        ImageData("mine", 4).draw(tmp_path / "nowhere", seed=0)
    assert "two ways out" in str(caught.value)
    assert "make data" not in str(caught.value)
    assert not (tmp_path / "nowhere").exists()


def test_two_loaders_write_the_file_once(tmp_path, monkeypatch, capfd):
    """If it failed, runs that start together would each download, and read half a file."""
    arrays, calls, results = make_arrays(), [], []
    waiting = threading.Semaphore(0)

    def say(*texts, **options):
        print(*texts, **options)
        waiting.release()

    def slow(name, path):
        calls.append(name)
        for _ in range(2):  # until both others have come
            assert waiting.acquire(timeout=60)
        return arrays

    monkeypatch.setattr(official, "print", say, raising=False)
    monkeypatch.setattr(official, "_read_official", slow)
    threads = [
        threading.Thread(target=lambda: results.append(load_images(tmp_path, "mnist", 4)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["mnist"]
    assert len(results) == 3
    assert capfd.readouterr().err.count("waiting for the process that fetches mnist") == 2


def test_interrupted_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    """If it failed, a full disk would leave half a file that the next run takes for the data."""

    def full_disk(file, **_):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(official, "_read_official", lambda *_: make_arrays())
    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(official.NotAvailable, match="No space left"):
        load_images(tmp_path, "mnist", 4)
    assert [path.name for path in tmp_path.iterdir() if "lock" not in path.name] == []


def get_data(folder, monkeypatch, capsys):
    """Runs scripts/get_data.py; returns its exit status and what it printed."""
    monkeypatch.setattr(sys, "argv", ["get_data.py", f"data_dir={folder}"])
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as stop:
        printed = capsys.readouterr()
        return stop.code, printed.out, printed.err
    raise AssertionError("a script ends with an exit status")


def test_make_data_says_where_and_how_many(tmp_path, no_network, monkeypatch, capsys):
    """If it failed, `make data` would stop at the first data set that cannot be had."""
    status, out, error = get_data(tmp_path, monkeypatch, capsys)
    assert status == 2 and "\nerror: none could be had" in error
    assert out.count("not there: fetching failed") == 5
    write_npz(tmp_path, "cifar10", **make_arrays((32, 32, 3)))
    (tmp_path / "kmnist.npz").write_bytes(b"")
    status, out, _ = get_data(tmp_path, monkeypatch, capsys)
    assert status == 0
    assert re.search(r"cifar10 +40 training and 20 test images, 32x32x3, in .*cifar10\.npz", out)
    assert re.search(r"kmnist +not there: kmnist\.npz is not a zip archive", out)
    assert "1 of 5 data sets are in" in out


def test_real_mnist_is_the_official_one():
    """If it failed, our MNIST would not be MNIST: other images, another order, other labels."""
    if not (REAL / "mnist.npz").is_file():
        pytest.skip("LABELDP_DATA names no folder that holds mnist.npz")
    train, test = load_images(REAL, "mnist", 10)
    md5 = []
    for images, labels in (train, test):
        images = images[..., 0]
        header = struct.pack(">4i", 2051, *images.shape)
        md5.append(hashlib.md5(header + images.tobytes()).hexdigest())
        header = struct.pack(">2i", 2049, len(labels))
        md5.append(hashlib.md5(header + labels.astype(np.uint8).tobytes()).hexdigest())
    # Checksums of the four unpacked files from yann.lecun.com.
    assert md5 == [
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ]
