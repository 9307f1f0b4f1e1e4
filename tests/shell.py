"""The command line in a fresh process that need not import torch again: 0.5 s in place of 3 s."""

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.preloaded"])

NPZ = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "data_dir=data"]
"""A network run on the folder of the fixture `tiny_images`."""
HANGS = 600
"""Seconds after which a command hangs for sure, on a machine as busy as may be."""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Everything that was printed."""
        return (self.stdout + self.stderr).splitlines()


def quick(arguments: list[str], folder: Path, environment: dict[str, str] | None = None) -> Outcome:
    """Runs `labeldp-bench` with `arguments` in `folder`, as a user would."""
    files = [folder / ".stdout", folder / ".stderr"]
    process = SERVER.Process(target=_main, args=(arguments, folder, files, environment or {}))
    process.start()
    process.join(HANGS)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{arguments} ran longer than {HANGS} seconds")
    texts = [file.read_text() for file in files]
    for file in files:
        file.unlink()
    return Outcome(process.exitcode, *texts)


def start(arguments: list[str], folder: Path, threads: int = 1) -> subprocess.Popen:
    """Starts `python -m labeldp_bench` in `folder`, a process group that hears Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "labeldp_bench", *arguments], cwd=folder, text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # A shell's background jobs, such as this test suite may be, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def records_under(folder: Path) -> list[Path]:
    """Returns the records of all runs under `folder`."""
    return sorted(folder.rglob("record.json"))


def _main(arguments: list[str], folder: Path, files: list[Path], environment: dict) -> None:
    os.chdir(folder)
    os.environ.pop("LABELDP_DATA", None)
    os.environ.update(environment)
    for stream, path in zip((sys.stdout, sys.stderr), files, strict=True):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["labeldp-bench", *arguments]
    from labeldp_bench.__main__ import main

    main()
