"""What is said of a data file that is not the one of finished results."""

import re

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.data.images import hash_of_images, read_npz
from labeldp_bench.data.official import OFFICIAL, OfficialData
from labeldp_bench.runs.changed_data import _compare_public


def test_no_message_holds_a_hash_of_training_labels(tiny_images, monkeypatch):
    # Who knows all labels of a file but one tried the classes until the hash fitted: 20 of 20.
    path = tiny_images / "tiny.npz"
    images = hash_of_images(*read_npz(path))
    monkeypatch.setitem(OFFICIAL, "tiny", OfficialData("", 3, 0, images, "0" * 64))
    with pytest.raises(InputError, match="other training labels than the tiny of the") as caught:
        _compare_public("tiny", path)
    assert not re.search("[0-9a-f]{12}", str(caught.value).replace(str(path), ""))
