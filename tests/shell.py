"""The command line in a fresh process that need not import torch again: 0.5 s in place of 3 s."""

import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["labeldp_bench.cli", "labeldp_bench.run", "labeldp_bench.report"])


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def quick(arguments: list[str], folder: Path, timeout: float = 120) -> Outcome:
    """Runs `labeldp-bench` with `arguments` in `folder`, as `python -m labeldp_bench` would."""
    files = [folder / ".stdout", folder / ".stderr"]
    process = SERVER.Process(target=_main, args=(arguments, folder, *files))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{arguments} ran longer than {timeout} s")
    texts = [file.read_text() for file in files]
    for file in files:
        file.unlink()
    return Outcome(process.exitcode, *texts)


def _main(arguments: list[str], folder: Path, stdout: Path, stderr: Path) -> None:
    os.chdir(folder)
    os.environ.pop("LABELDP_DATA", None)
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["labeldp-bench", *arguments]
    from labeldp_bench.cli import main

    main()
