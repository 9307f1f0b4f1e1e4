"""Starts and stops a Ray cluster of one node on this machine, to try `hydra/launcher=ray`.

    eval "$(python scripts/cluster_ray.py start [folder=FOLDER] [cpus=2] [port=6399])"
    python scripts/cluster_ray.py stop [folder=FOLDER]

It needs `pip install 'labeldp-bench[ray]'`. Ray listens on every address of this machine, and lets
in who has the token that it keeps in ~/.ray; it tells its makers nothing of its use. `start` prints
the line that a shell needs. `stop` ends what `start` started, and no other Ray.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, integer, read_arguments

PATIENCE = 120.0
"""Seconds that the head may take to listen."""
GRACE = 10.0
"""Seconds that its processes have to end by themselves."""
DEFAULT = {"folder": str(Path(tempfile.gettempdir()) / "labeldp-ray"), "cpus": "2", "port": "6399"}


def start(folder: Path, cpus: int, port: int) -> None:
    """Starts the head; prints what a shell needs.

    Raises:
        InputError: Ray is not installed, one was started here, or it does not come up.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError("Ray is not installed (pip install 'labeldp-bench[ray]')")
    if (folder / "pid").is_file():
        raise InputError(f"a Ray was started in {folder} (stop it first)")
    folder.mkdir(parents=True, exist_ok=True)
    line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
            f"--port={port}", f"--num-cpus={cpus}",
            "--include-dashboard=false", "--disable-usage-stats",
            f"--temp-dir={folder / 'sessions'}"]  # fmt: skip
    with (folder / "log").open("w") as log:
        # A process group of its own: `stop` ends it, whatever the head has started by then.
        head = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
    (folder / "pid").write_text(str(head.pid))
    until = time.monotonic() + PATIENCE
    while not (listens(port) and "Ray runtime started" in (folder / "log").read_text()):
        if time.monotonic() > until or head.poll() is not None:
            stop(folder)
            raise InputError(f"Ray did not come up (see {folder}/log)")
        time.sleep(0.3)
    print(f"export RAY_ADDRESS=127.0.0.1:{port} RAY_AUTH_MODE=token")


def stop(folder: Path) -> None:
    """Ends what `start` started.

    Raises:
        InputError: nothing was started there, or the file that says so is damaged.
    """
    if not (folder / "pid").is_file():
        raise InputError(f"no Ray was started in {folder}")
    text = (folder / "pid").read_text().strip()
    if not text.isdecimal() or int(text) <= 1:  # 0 is the group of who asks
        raise InputError(f"{folder / 'pid'} must hold the number of a process, got {text!r}")
    group = int(text)
    (folder / "pid").unlink()
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        try:
            os.killpg(group, number)
            while time.monotonic() < until:
                os.killpg(group, 0)
                time.sleep(0.2)
        except ProcessLookupError:
            return


def listens(port: int) -> bool:
    """Returns whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Starts or stops; returns the exit status."""
    if not arguments or arguments[0] not in ("start", "stop"):
        got = f", got {arguments[0]!r}" if arguments else ""
        raise InputError(f"the first argument must be start or stop{got}")
    own = read_arguments(arguments[1:], DEFAULT)
    folder = Path(own["folder"]).expanduser().absolute()
    if arguments[0] == "stop":
        stop(folder)
    else:
        port = integer("port", own["port"], low=1024, high=65535)
        start(folder, integer("cpus", own["cpus"], low=1), port)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
