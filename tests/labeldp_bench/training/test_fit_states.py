"""What a checkpoint keeps of a run's fits, and when."""

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.training import checkpoint
from labeldp_bench.training.checkpoint import FitStates


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (RuntimeError("can't allocate memory: 8 bytes"), RuntimeError),
        (KeyError("streams"), InputError),
        (InputError("its own words"), InputError),
    ],
)
def test_a_device_that_fails_is_no_reason_to_delete_a_checkpoint(error, kind):
    with pytest.raises(kind) as found, FitStates("checkpoint.pt", lambda _: None, None).restoring():
        raise error
    assert ("does not fit" in str(found.value)) == isinstance(error, KeyError)


def test_saves_come_by_time_unless_epochs_are_given(monkeypatch):
    # A short epoch would cost as much as its checkpoint.
    def saved_after(every: int | None) -> list[int]:
        epochs = []
        fits = FitStates("", lambda states: epochs.append(states[-1]["epoch"]), every)
        fits.next_fit()
        for epoch in range(1, 7):
            fits.after_epoch(lambda: {"epoch": epoch, "network": {}}, finished=False)  # noqa: B023
        return epochs

    assert saved_after(None) == []
    assert saved_after(2) == [2, 4, 6]
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    assert saved_after(None) == [1, 2, 3, 4, 5, 6]
