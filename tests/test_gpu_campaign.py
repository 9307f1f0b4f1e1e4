"""A campaign on a lent machine: in order of worth, within its time, over several calls."""

import runpy
import signal
import tarfile

import pytest

from labeldp_bench.config import compose_cell
from labeldp_bench.fit import NetworkFit
from labeldp_bench.pack import PackFit
from labeldp_bench.validate import InputError
from tests.conftest import CHECKOUT
from tests.shell import records_under

CAMPAIGN = runpy.run_path(str(CHECKOUT / "scripts" / "gpu_campaign.py"))
TINY = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "model=linear",
        "trainer.batch_size=64", "seed=0"]  # fmt: skip


def test_one_seed_of_each_cell_comes_first():
    # A campaign that ends early would leave rows of a table empty and others with five seeds.
    grid = [["mechanism=rr", f"eps={eps}", f"seed={seed}"] for eps in (4, 2) for seed in (3, 0)]
    cells = [compose_cell(own) for own in [*grid, ["mechanism=none", "seed=0"]]]
    spelled = [(cell.identity.get("mechanism.eps"), cell.seed) for cell in CAMPAIGN["order"](cells)]
    assert spelled == [(2, 0), (None, 0), (4, 0), (2, 3), (4, 3)]


def call(tiny_images, folder, *more, epochs=2):
    return CAMPAIGN["main"]([
        "experiment=vector_approximation/table1a", *TINY, f"trainer.epochs={epochs}",
        f"data_dir={tiny_images}", f"out_dir={folder / 'runs'}", "device=cpu",
        f"merge={folder / 'r.tar.gz'}", *more,
    ])  # fmt: skip


def test_campaign_fills_cells_and_a_later_call_goes_on(tiny_images, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(CAMPAIGN["main"].__globals__, "SPARE_SECONDS", 0.0)
    monkeypatch.setattr("labeldp_bench.benchmarks.ceilings.SECONDS", 0.01)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    assert call(tiny_images, first, "minutes=0") == 0
    text = capsys.readouterr().out
    assert "TFLOP/s" in text and "0 records made" in text
    assert call(tiny_images, first, "minutes=5") == 0
    made = len(records_under(first))
    assert made > 10
    with tarfile.open(first / "r.tar.gz") as tar:
        assert sum(name.endswith("record.json") for name in tar.getnames()) == made
    capsys.readouterr()
    assert call(tiny_images, second, "minutes=5", f"records={first / 'r.tar.gz'}") == 0
    assert f"{made} cells, 0 missing" in capsys.readouterr().out


def test_archive_is_written_after_each_job(tiny_images, tmp_path, monkeypatch):
    # A machine that is taken away early would take all records with it.
    monkeypatch.setattr("labeldp_bench.benchmarks.ceilings.SECONDS", 0.01)
    monkeypatch.setattr("labeldp_bench.sweeper.LARGEST_PACK", 8)
    names = CAMPAIGN["train"].__globals__
    plain, calls = names["run_cells"], []

    def killed(job, place):
        calls.append(job)
        if len(calls) == 3:
            raise SystemExit
        return plain(job, place)

    monkeypatch.setitem(names, "run_cells", killed)
    with pytest.raises(SystemExit):
        call(tiny_images, tmp_path, "minutes=5", epochs=1)
    with tarfile.open(tmp_path / "r.tar.gz") as tar:
        records = [name for name in tar.getnames() if name.endswith("record.json")]
    assert len(records) == len(calls[0]) + len(calls[1])


def test_cell_under_way_is_stopped_in_time(tiny_images, tmp_path, capsys, monkeypatch):
    # The machine would be taken away before the records are in the archive.
    monkeypatch.setitem(CAMPAIGN["main"].__globals__, "SPARE_SECONDS", 0.0)
    monkeypatch.setattr("labeldp_bench.benchmarks.ceilings.SECONDS", 0.01)
    alarms = []
    monkeypatch.setattr(signal, "setitimer", lambda _, *seconds: alarms.append(seconds))

    def begin(plain, fit):
        if fit.number == 2:  # as the timer does, wherever the cell is
            signal.raise_signal(signal.SIGALRM)
        plain(fit)

    for kind in (NetworkFit, PackFit):
        monkeypatch.setattr(kind, "begin_epoch", lambda fit, p=kind.begin_epoch: begin(p, fit))
    assert call(tiny_images, tmp_path, "minutes=5", "checkpoint_epochs=1", epochs=1_000_000) == 0
    text = capsys.readouterr().out
    assert "time is up" in text
    assert "0 records made" in text
    assert 0 < alarms[0][0] <= 300 and alarms[0][1] > 0, "again, where the first one was lost"
    assert alarms[1:] == [(0,), (0,)]
    with tarfile.open(tmp_path / "checkpoints.tar.gz") as tar:
        assert any(name.endswith("checkpoint.pt") for name in tar.getnames())


def test_damaged_archive_is_refused(tiny_images, tmp_path, capsys, monkeypatch):
    # Records with other numbers would be taken for those of the earlier call.
    monkeypatch.setattr("labeldp_bench.benchmarks.ceilings.SECONDS", 0.01)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "record.json").write_bytes(bytes(range(256)) * 40)
    whole = tmp_path / "whole.tar.gz"
    assert CAMPAIGN["pack"](tmp_path / "runs", whole, ["record.json"]) == 1
    content, damaged = whole.read_bytes(), tmp_path / "damaged.tar.gz"
    flipped = [content[:i] + bytes([content[i] ^ 4]) + content[i + 1 :] for i in (60, 150, 300)]
    for number, text in enumerate([*flipped, content[:-200], content[:-4], b"", b"text"]):
        damaged.write_bytes(text)
        assert call(tiny_images, tmp_path / "new", "minutes=0", f"records={damaged}") == 2, number
        (line,) = capsys.readouterr().err.splitlines()
        assert "records must be archives of an earlier call" in line
        assert list((tmp_path / "new" / "runs").iterdir()) == []
    CAMPAIGN["unpack"](whole, tmp_path / "again")
    assert (tmp_path / "again" / "record.json").read_bytes() == bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["experiment=vector_approximation/table9"], "experiment must be one of"),
        ([], "experiment must be given"),
        (["experiment=quickstart", "records=none.tar.gz"], "got 'none.tar.gz' (no file)"),
        (["experiment=quickstart", "merge=/proc/x/r.tar.gz"], "merge must be a file in a folder"),
        (["experiment=quickstart", "minutes=soon"], "minutes must be a number >= 0"),
        (["experiment=quickstart", "minutes=inf"], "minutes must be a number >= 0"),
        (["experiment=quickstart", "minutes=-1"], "minutes must be a number >= 0"),
        (["experiment=quickstart", f"records={__file__}"], "(no whole .tar.gz)"),
        (["experiment=quickstart", "trainer.epochs=0"], "trainer.epochs has no effect"),
        (["experiment=quickstart", "checkpoint_epochs=0"], "checkpoint_epochs must be >= 1"),
        (["--minutes", "9"], "cannot read '--minutes' (write key=value"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, capsys):
    assert CAMPAIGN["main"](["minutes=1", f"out_dir={tmp_path}", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt", "link"])
def test_an_archive_writes_nothing_outside_its_folder(name, tmp_path):
    # It comes from another machine; nothing of it may land elsewhere, not even its good files.
    good, archive = tmp_path / "record.json", tmp_path / "r.tar.gz"
    good.write_text("{}")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(good, "run/record.json")
        member = tarfile.TarInfo(name)
        member.type, member.linkname = (tarfile.SYMTYPE, "..") if name == "link" else (b"0", "")
        tar.addfile(member)
    runs = tmp_path / "runs"
    runs.mkdir()
    with pytest.raises(InputError, match="is no file of a run"):
        CAMPAIGN["unpack"](archive, runs)
    assert not list(runs.iterdir()) and not (tmp_path / "outside.txt").exists()
