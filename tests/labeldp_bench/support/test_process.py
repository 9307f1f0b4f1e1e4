"""The process: a GPU of its own where there are several, and no TF32."""

import multiprocessing
from pathlib import Path

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.support.device import own_gpu, take_gpu
from labeldp_bench.support.process import prepare_training

FORK = multiprocessing.get_context("fork")


def work(folder, barrier, taken):
    """What a launcher's worker does: it asks for `cuda` on a machine of two cards."""
    torch.cuda.device_count = lambda: 2
    import tempfile

    tempfile.tempdir = str(folder)
    first, second = (own_gpu(torch.device("cuda")) for _ in range(2))
    assert first == second
    taken.put(str(first))
    barrier.wait(60)  # both are at work at the same time


def test_two_workers_take_two_cards(tmp_path):
    # Both would compute on card 0, and the other would idle.
    barrier, taken = FORK.Barrier(2), FORK.Queue()
    workers = [FORK.Process(target=work, args=(tmp_path, barrier, taken)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert sorted(taken.get(timeout=60) for _ in workers) == ["cuda:0", "cuda:1"]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_more_workers_than_cards_share_them_evenly(tmp_path):
    held = [take_gpu(["0", "1"], tmp_path) for _ in range(5)]
    assert [card for card, _ in held] == [0, 1, 0, 1, 0]
    held[1][1].release()  # that worker ended, or was killed
    assert take_gpu(["0", "1"], tmp_path)[0] == 1


def test_cards_are_told_apart_by_the_names_of_the_machine(tmp_path):
    # Two shells with CUDA_VISIBLE_DEVICES=0,1 and 1,2 both call their first card 0.
    place, lock = take_gpu(["1", "2"], tmp_path)
    assert place == 0 and lock.is_locked
    assert take_gpu(["0", "1"], tmp_path)[0] == 0
    assert take_gpu(["1"], tmp_path)[0] == 0  # the only one, shared


@pytest.mark.parametrize("name", ["cpu", "cuda:1"])
def test_a_device_that_is_named_stays(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_gpu(torch.device(name)) == torch.device(name)


def test_the_only_card_needs_no_lock(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert own_gpu(torch.device("cuda")) == torch.device("cuda")


def test_locks_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"device=cuda:0"):
        take_gpu(["0", "1"], Path(tmp_path / "file"))


def test_float32_on_a_gpu_is_not_tf32(monkeypatch):
    # The record would say float32, and convolutions have had 10 bits of mantissa.
    for name, before in (("allow_tf32", True), ("benchmark", False)):
        monkeypatch.setattr(torch.backends.cudnn, name, before)
    prepare_training()
    assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.benchmark
