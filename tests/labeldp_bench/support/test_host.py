"""Settings of the process."""

import torch

from labeldp_bench.support.process import prepare_training


def test_float32_on_a_gpu_is_not_tf32(monkeypatch):
    # The record would say float32, and convolutions have had 10 bits of mantissa.
    for name, before in (("allow_tf32", True), ("benchmark", False)):
        monkeypatch.setattr(torch.backends.cudnn, name, before)
    prepare_training()
    assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.benchmark
