"""Never lose work: a run that is killed goes on, and ends in the record it would have had."""

import csv
import os
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from labeldp.mechanisms import RandomizedResponse
from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.training import checkpoint
from labeldp_bench.training.checkpoint import Checkpoint
from tests.shell import SERVER, quick, records_under, untimed

TWO_STAGES = ["mechanism=lp_2st", "learner.warm_start=true", "learner.filter_earlier=true"]
TWO_STAGES += ["trainer.selection=mean_last_10", "trainer.epochs=4", "trainer.average=0.9"]
TWO_STAGES += ["+trainer.optimizer.weight_decay=0.01", "checkpoint_epochs=1"]
CHOSEN = "trainer.epochs=2"
"""Of the recipe of the tests: tuning takes its place."""
TUNED = ["mechanism=rr", "tuning=held_out_releases", "tuning.learning_rates=[1e30,1e-9,1e-2]"]
TUNED += ["tuning.averages=[0.9]", "tuning.epochs=3", "checkpoint_epochs=1"]


def outcome(folder: Path) -> tuple[dict, list, bytes]:
    """Returns record and history without times, and the confusion matrix."""
    (path,) = records_under(folder)
    with (path.parent / "history.csv").open() as file:
        history = [row[:-1] for row in csv.reader(file)]
    confusion = (path.parent / "confusion.csv").read_bytes()
    return untimed(path), history, confusion


def _main_until(where: str, arguments: list[str], folder: Path, calls: int | None) -> None:
    """Runs the command in this process, and kills it at the place that `where` names."""
    from labeldp_bench.models.networks import NetworkModel
    from labeldp_bench.training.network_fit import NetworkFit
    from tests.shell import _main

    owner, name, call = {
        "inside an epoch": (NetworkFit, "step", 8),  # of two batches, in the first stage
        "between epochs": (NetworkFit, "begin_epoch", 7),  # in the second stage, if there is one
        "between stages": (NetworkModel, "fit", 2),
        "while it writes": (os, "replace", 3),
    }[where]
    plain, called = getattr(owner, name), []

    def counted(*given, **named):
        called.append(1)
        if len(called) == (calls or call):
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*given, **named)

    setattr(owner, name, counted)
    _main(arguments, folder, [folder / ".out", folder / ".err"], {})


def kill(where: str, arguments: list[str], folder: Path, calls: int | None = None) -> str:
    process = SERVER.Process(target=_main_until, args=(where, arguments, folder, calls))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    return (folder / ".out").read_text()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """The outcome of a run that nobody disturbs, by its overrides."""
    known = {}

    def of(arguments: list[str]) -> tuple:
        # The path of the data belongs to no record.
        key = tuple(text for text in arguments if not text.startswith("data_dir"))
        if key not in known:
            folder = tmp_path_factory.mktemp("untouched")
            assert quick([*arguments, "out_dir=runs"], folder).returncode == 0
            known[key] = outcome(folder)
        return known[key]

    return of


@pytest.mark.parametrize(
    ("where", "epoch"),
    [("inside an epoch", 3), ("between epochs", 2), ("between stages", 4), ("while it writes", 2)],
)
def test_killed_run_ends_in_the_same_record(where, epoch, tiny_network, tmp_path, untouched):
    # Hours of training would be lost, or go on with other noise, another order or other dropout.
    arguments = [*tiny_network, *TWO_STAGES]
    expected = untouched(arguments)
    assert "epoch   1/4" in kill(where, [*arguments, "out_dir=runs"], tmp_path)
    again = quick([*arguments, "out_dir=runs"], tmp_path)
    assert again.returncode == 0, again
    assert f"goes on after epoch {epoch} " in again.stdout
    assert outcome(tmp_path) == expected
    # Half a file holds releases too, which nobody would find and delete later.
    assert not [*tmp_path.rglob("checkpoint.pt"), *tmp_path.rglob("*.partial")]


@pytest.mark.parametrize(("where", "epoch"), [("inside an epoch", 2), ("between epochs", 3)])
def test_a_search_that_is_killed_goes_on(where, epoch, tiny_network, tmp_path, untouched):
    # The search takes most of the time of a tuned run. Its first rate diverges; the third recipe,
    # or the network that is trained after it, is where the run is killed.
    arguments = [*(text for text in tiny_network if text != CHOSEN), *TUNED]
    expected = untouched(arguments)
    calls = {"inside an epoch": 25, "between epochs": 8}[where]
    kill(where, [*arguments, "out_dir=runs"], tmp_path, calls)
    (file,) = tmp_path.rglob("checkpoint.pt")
    fits = torch.load(file, weights_only=True)["fits"]
    assert not any(fit.get("network") for fit in fits[:-1])  # of thrown away networks
    again = quick([*arguments, "out_dir=runs"], tmp_path)
    assert again.returncode == 0, again
    assert f"goes on after epoch {epoch} " in again.stdout
    assert "at most 3 epochs, " in again.stdout  # how many were chosen stands further above
    assert outcome(tmp_path) == expected


def test_checkpoint_of_something_else_is_refused_in_one_line(tiny_network, tmp_path, untouched):
    # A run would go on from the weights of another recipe, or of another torch.
    arguments = [*tiny_network, *TWO_STAGES]
    kill("between epochs", [*arguments, "out_dir=runs"], tmp_path)
    (file,) = tmp_path.rglob("checkpoint.pt")
    whole = torch.load(file, weights_only=True)
    for key, value in (("identity", "0"), ("torch", "1.0"), ("device", "cuda")):
        torch.save(whole | {"belongs_to": whole["belongs_to"] | {key: value}}, file)
        checkpoint = Checkpoint(file, whole["belongs_to"], parts={"store": Mock()})
        checkpoint.resume()
        assert checkpoint.next_fit() is None
        assert file.exists() == (key != "identity")
    torch.save(whole, file)
    changed = bytearray(file.read_bytes())
    place = changed.index(whole["fits"][0]["network"]["head.0.weight"].numpy().tobytes())
    changed[place] ^= 1  # a bit of a weight, which torch.load does not notice
    file.write_bytes(changed)
    Checkpoint(file, whole["belongs_to"]).resume()
    assert not file.exists()
    file.write_bytes(b"torn")
    again = quick([*arguments, "out_dir=runs"], tmp_path)
    assert again.returncode == 0
    assert sum("checkpoint.pt cannot be used: " in line for line in again.lines) == 1
    assert outcome(tmp_path) == untouched(arguments)


def test_checkpoint_of_another_version_is_said_in_one_line(tiny_network, tmp_path):
    # A file of another commit is taken; where it held other things every try would be a traceback.
    arguments = [*tiny_network, "mechanism=rr", "checkpoint_epochs=1", "trainer.epochs=8"]
    arguments += ["model=linear", "out_dir=runs"]
    kill("between epochs", arguments, tmp_path)
    (file,) = tmp_path.rglob("checkpoint.pt")
    for part in ("parts", "fits", "network", "optimizer"):
        state = torch.load(file, weights_only=True)
        if part in state:
            state[part] = type(state[part])()
        else:
            state["fits"][0][part] = {}
        whole = file.read_bytes()
        torch.save(state, file)
        again = quick(arguments, tmp_path)
        assert again.returncode == 2 and records_under(tmp_path) == []
        (line,) = again.stderr.splitlines()
        assert "does not fit, as if another version wrote it (delete it, and training" in line
        file.write_bytes(whole)


def test_checkpoint_executes_nothing(tmp_path):
    # Whoever can write into the folder would run code as the user.
    ran = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return (Path.touch, (ran,))

    torch.save({"belongs_to": Trap()}, tmp_path / "checkpoint.pt")
    Checkpoint(tmp_path / "checkpoint.pt", {}).resume()
    assert not ran.exists()


def _released_until(file: Path, belongs_to: dict[str, str]) -> tuple[LabelStore, torch.Tensor]:
    """Returns a store, after a release with secret noise that a checkpoint holds; and labels."""
    labels = torch.arange(3).repeat(50)
    store = LabelStore(labels, 3).open(1.0, seed=None)
    store.release(RandomizedResponse(1.0))
    fits = Checkpoint(file, belongs_to, every=1, parts={"store": store})
    fits.next_fit()
    fits.after_epoch(lambda: {"epoch": 1, "network": {}, "notes": {}}, finished=False)
    return store, labels


def test_a_run_that_starts_afresh_elsewhere_draws_nothing_anew(tmp_path, capsys):
    # Two draws with secret noise cost eps twice, and the record said once.
    file, belongs_to = tmp_path / "checkpoint.pt", {"identity": "a", "device": "cpu"}
    first, labels = _released_until(file, belongs_to | {"torch": "of before"})
    for _ in range(2):  # it may be killed once more before its first checkpoint
        second = LabelStore(labels, 3).open(1.0, seed=None)
        parts = {"store": second}
        now = belongs_to | {"torch": "of now"}
        checkpoint = Checkpoint(file, now, parts=parts, is_secret=True)
        checkpoint.resume()
        assert checkpoint.next_fit() is None
        drawn = second.release(RandomizedResponse(1.0)).outputs
        assert torch.equal(drawn, first.releases[0].outputs)
        assert "starts afresh, from the releases that it holds" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["torn", "identity"])
def test_a_lost_release_with_secret_noise_is_not_drawn_again_in_silence(damage, tmp_path):
    file, belongs_to = tmp_path / "checkpoint.pt", {"identity": "a"}
    _released_until(file, belongs_to)
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:100])
    else:
        belongs_to = {"identity": "b"}
    with pytest.raises(InputError, match="cost eps once more, which no record would say"):
        Checkpoint(file, belongs_to, is_secret=True).resume()
    assert file.exists()


def test_full_disk_costs_the_checkpoint_and_not_the_run(tmp_path, monkeypatch, capsys):
    fits = Checkpoint(tmp_path / "checkpoint.pt", {}, every=1)
    fits.next_fit()
    file = tmp_path / "checkpoint.pt"
    for error, why in (
        (OSError(28, "No space left on device"), "no space left on device"),
        (RuntimeError("[enforce fail at inline_container.cc:672]"), "is the disk full?"),
        (RuntimeError("CUDA error: an\n illegal address"), "cuda error: an illegal address"),
    ):
        monkeypatch.setattr(torch, "save", Mock(side_effect=error))
        fits.after_epoch(lambda: {"epoch": 1, "network": {}}, finished=False)
        (line,) = capsys.readouterr().out.splitlines()
        assert line == f"no checkpoint: cannot write {file} ({why}); training goes on"
        assert list(tmp_path.iterdir()) == []


def test_no_checkpoint_is_written_where_none_is_wanted(tiny_network, tmp_path):
    # That of a ResNet-18 has 85 MB: some machines let nothing of that size out.
    own = ["mechanism=rr", "trainer.epochs=8", "checkpoint_epochs=0", "out_dir=runs"]
    kill("between epochs", [*tiny_network, *own], tmp_path)
    assert not list(tmp_path.rglob("checkpoint.pt"))


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
    with pytest.raises(kind) as found, Checkpoint(Path("checkpoint.pt"), {}).restoring():
        raise error
    assert ("does not fit" in str(found.value)) == isinstance(error, KeyError)


def test_saves_come_by_time_unless_epochs_are_given(tmp_path, monkeypatch):
    # A short epoch would cost as much as its checkpoint.
    def saved_after(every: int | None) -> list[int]:
        epochs, file = [], tmp_path / "checkpoint.pt"
        fits = Checkpoint(file, {}, every)
        fits.next_fit()
        for epoch in range(1, 7):
            fits.after_epoch(lambda: {"epoch": epoch, "network": {}}, finished=False)  # noqa: B023
            if file.exists():
                epochs.append(torch.load(file, weights_only=True)["fits"][-1]["epoch"])
                file.unlink()
        return epochs

    assert saved_after(None) == []
    assert saved_after(2) == [2, 4, 6]
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    assert saved_after(None) == [1, 2, 3, 4, 5, 6]
