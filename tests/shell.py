"""The command line in a fresh process that need not import torch again: 0.5 s in place of 3 s."""

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.preloaded"])
NUMBERS = itertools.count()

NPZ = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "data_dir=data"]
"""A network run on the folder of the fixture `tiny_images`."""
TIMED = ("wall_seconds", "images_per_second", "device", "checksum")
"""Fields of a record that differ from one run of a cell to the next."""
HANGS = 600
"""Seconds after which a command hangs for sure, on a machine as busy as may be."""

# A process for each command would import torch each time.
DRIVER = """
import os, runpy, shlex, sys, traceback
import labeldp_bench.cli.sweep_summary, labeldp_bench.cli.main, labeldp_bench.runs.job
import labeldp_bench.learners.stages, labeldp_bench.models.networks, labeldp_bench.models.neighbours
import hydra._internal.hydra, matplotlib.pyplot, torch._dynamo
for number, line in enumerate(sys.stdin.read().splitlines()):
    if os.fork():
        os.wait()
        continue
    out = os.open(f"{number}.out", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1), os.dup2(out, 2)
    _, program, *arguments = shlex.split(line)
    module = arguments.pop(0) if program == "-m" else None
    sys.argv = [module or program, *arguments]
    code = 0
    try:
        run = runpy.run_module if module else runpy.run_path
        run(module or program, run_name="__main__", **({"alter_sys": True} if module else {}))
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    print(f"exit {code}", flush=True)
    os._exit(0)
"""


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


class Command:
    """`labeldp-bench` with `arguments` in `folder`, a process group that hears Ctrl-C.

    Args:
        arguments: of the command line.
        folder: where it is started.
        environment: variables that it has on top.
    """

    def __init__(
        self, arguments: list[str], folder: Path, environment: dict[str, str] | None = None
    ) -> None:
        self._arguments, number = arguments, next(NUMBERS)
        self._files = [folder / f".stdout{number}", folder / f".stderr{number}"]
        own = (arguments, folder, self._files, environment or {})
        self._process = SERVER.Process(target=_main, args=own)
        self._process.start()

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        """Sends a signal to its process group."""
        os.killpg(self._process.pid, number)

    def outcome(self) -> Outcome:
        """Waits for its end."""
        self._process.join(HANGS)
        if self._process.is_alive():
            self._process.kill()
            raise TimeoutError(f"{self._arguments} ran longer than {HANGS} seconds")
        texts = [file.read_text() for file in self._files]
        for file in self._files:
            file.unlink()
        return Outcome(self._process.exitcode, *texts)


def quick(arguments: list[str], folder: Path, environment: dict[str, str] | None = None) -> Outcome:
    """Runs `labeldp-bench` with `arguments` in `folder`, as a user would."""
    return Command(arguments, folder, environment).outcome()


def printed(lines: list[str], folder: Path) -> list[str]:
    """Returns what each line `python ...` prints in `folder`, a copy of the checkout.

    They run one after another; each text ends with `exit` and the status.
    """
    subprocess.run(
        [sys.executable, "-c", DRIVER],
        input="\n".join(lines),
        text=True,
        cwd=folder,
        check=True,
        env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        timeout=HANGS,
    )
    return [(folder / f"{number}.out").read_text() for number in range(len(lines))]


def start(arguments: list[str], folder: Path, threads: int = 1) -> subprocess.Popen:
    """Starts `python -m labeldp_bench` in `folder`, a process group that hears Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "labeldp_bench", *arguments],
        cwd=folder,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A shell's background jobs, such as this test suite may be, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def records_under(folder: Path) -> list[Path]:
    """Returns the records of all runs under `folder`."""
    return sorted(folder.rglob("record.json"))


def untimed(path: Path) -> dict:
    """Returns a record without what differs from one run of a cell to the next."""
    record = json.loads(path.read_text())
    return {key: value for key, value in record.items() if key not in TIMED}


def _main(arguments: list[str], folder: Path, files: list[Path], environment: dict) -> None:
    os.setsid()
    # A shell's background jobs, such as this test suite may be, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.pop("LABELDP_DATA", None)
    os.environ.update(environment)
    for stream, path in zip((sys.stdout, sys.stderr), files, strict=True):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["labeldp-bench", *arguments]
    from labeldp_bench.__main__ import main

    main()
