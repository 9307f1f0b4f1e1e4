"""Official files: written here in the official formats, read by torchvision's own code, once."""

import functools
import gzip
import hashlib
import http.server
import pickle
import re
import runpy
import socket
import struct
import sys
import threading
import time

import numpy as np
import pytest

from labeldp_bench.data import official
from labeldp_bench.data.images import ImageData, load_images, read_npz
from labeldp_bench.support.checkout import CHECKOUT
from tests.images import cut, make_arrays, write_npz

SCRIPT = CHECKOUT / "scripts" / "get_data.py"


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
    write_idx(tmp_path / official.OFFICIAL[name].torchvision / "raw", arrays)
    bundle = ImageData(name, 4).draw(tmp_path, seed=0)
    assert bundle.train_features.shape == (40, 28, 28, 1)
    assert_same(tmp_path / f"{name}.npz", arrays)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "key"), [("cifar10", "labels"), ("cifar100", "fine_labels")])
def test_official_cifar_pickles_are_read(tmp_path, datasets, no_network, monkeypatch, name, key):
    """If it failed, CIFAR would come out transposed, or CIFAR-100 with its coarse labels."""
    arrays = make_arrays((32, 32, 3))
    write_cifar(
        tmp_path, arrays, getattr(datasets, official.OFFICIAL[name].torchvision), monkeypatch, key
    )
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


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
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
    with pytest.raises(official.NotAvailable):  # a mistyped data_dir would stay behind
        official.fetch(name, tmp_path / "typo" / f"{name}.npz")
    assert not (tmp_path / "typo").exists()


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
    with pytest.raises(official.NotAvailable, match="delete them") as caught:
        load_images(tmp_path, "mnist", 4)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*mnist.npz*partial*")) + list(tmp_path.glob("mnist.npz"))


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


def test_without_torchvision_the_ways_out_are_said(tmp_path, monkeypatch):
    """If it failed, a machine without torchvision could not even say what to do."""

    def missing():
        raise ModuleNotFoundError("No module named 'torchvision'")

    monkeypatch.setattr(official, "import_torchvision", missing)
    with pytest.raises(official.NotAvailable, match=r"torchvision.*three ways"):
        load_images(tmp_path, "mnist", 10)


def test_torchvision_is_not_imported_for_a_file_that_is_there(tmp_path, monkeypatch):
    """If it failed, every run would pay for, or fail at, an import that it does not need."""
    monkeypatch.setattr(official, "import_torchvision", lambda: pytest.fail("imported"))
    write_npz(tmp_path, "mnist", **make_arrays())
    load_images(tmp_path, "mnist", 4)


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
