"""Starts and stops a Slurm of one node on this machine, to try `hydra/launcher=submitit_slurm`.

    eval "$(python scripts/cluster_slurm.py start [folder=FOLDER])"
    python scripts/cluster_slurm.py stop [folder=FOLDER]

It listens on this machine only. It needs root and four Debian packages: slurmctld slurmd
slurm-client munge. `start` prints the lines that a shell needs (SLURM_CONF, PATH); a small stand-in
for `sacct`, in the folder, tells of jobs that died, as this Slurm keeps no accounts.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, read_arguments

PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sinfo": "slurm-client",
            "munged": "munge"}  # fmt: skip
"""What must be installed, and the Debian package it is in."""
MUNGE_FOLDER = Path("/run/munge")
MUNGE_PID = MUNGE_FOLDER / "munged.pid"
PATIENCE = 30.0
"""Seconds that the node may take to be idle."""
CONFIG = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
ReturnToService=2
MinJobAge=86400
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={megabytes} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
# submitit asks sacct what became of a job, and waits for ever where it gets no answer.
SACCT = """\
#!/bin/bash
echo 'JobID|State|NodeList'
while [ $# -gt 0 ]; do
  if [ "$1" = -j ]; then scontrol -o show job "${2%%_*}" 2>/dev/null | awk '{
    delete f; for (i = 1; i <= NF; i++) { p = index($i, "="); f[substr($i, 1, p-1)] = substr($i, p+1) }
    id = f["JobId"]; if ("ArrayTaskId" in f) id = f["ArrayJobId"] "_" f["ArrayTaskId"]
    print id "|" f["JobState"] "|" f["NodeList"] }'; shift; fi; shift
done
"""  # noqa: E501


def start(folder: Path) -> None:
    """Starts the daemons; prints what a shell needs.

    Raises:
        InputError: a program is missing, the user is not root, or the node does not come up.
    """
    packages = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if packages:
        raise InputError(f"Slurm is not installed (apt-get install {' '.join(packages)})")
    if os.geteuid() != 0:
        raise InputError("start needs root: Slurm's daemons start the jobs of users")
    if (folder / "slurm.conf").is_file():
        raise InputError(f"a Slurm was started in {folder} (stop it first)")
    for part in ("state", "spool", "log", "bin"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sacct = folder / "bin" / "sacct"
    sacct.write_text(SACCT)
    sacct.chmod(0o755)
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (folder / "slurm.conf").write_text(CONFIG.format(
        host=socket.gethostname().partition(".")[0], folder=folder, cpus=os.cpu_count(),
        megabytes=int(0.8 * pages / 2**20),
    ))  # fmt: skip
    if not is_running(MUNGE_PID):
        user = pwd.getpwnam("munge")
        MUNGE_FOLDER.mkdir(exist_ok=True)
        os.chown(MUNGE_FOLDER, user.pw_uid, user.pw_gid)
        run(["runuser", "-u", "munge", "--", str(shutil.which("munged"))])
        (folder / "munged").touch()  # it is ours to stop
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    for daemon in ("slurmctld", "slurmd"):
        run([daemon], environment)
    until = time.monotonic() + PATIENCE
    while "idle" not in run(["sinfo", "--noheader", "--format=%T"], environment, quiet=True):
        if time.monotonic() > until:
            stop(folder)
            raise InputError(f"the node is not idle after {PATIENCE:g} s (see {folder}/log)")
        time.sleep(0.3)
    print(f"export SLURM_CONF={folder}/slurm.conf PATH={folder}/bin:$PATH")


def stop(folder: Path) -> None:
    """Stops what `start` started, and removes the node's configuration."""
    if not (folder / "slurm.conf").is_file():
        raise InputError(f"no Slurm was started in {folder}")
    ours = [MUNGE_PID] if (folder / "munged").exists() else []
    for pid in (folder / "slurmd.pid", folder / "slurmctld.pid", *ours):
        if is_running(pid):
            os.kill(int(pid.read_text()), 15)
    for name in ("slurm.conf", "munged"):
        (folder / name).unlink(missing_ok=True)


def is_running(pid: Path) -> bool:
    """Returns whether the process whose number is in the file lives."""
    return pid.is_file() and Path("/proc", pid.read_text().strip() or "none").is_dir()


def run(line: list[str], environment: dict[str, str] | None = None, quiet: bool = False) -> str:
    """Returns what a program prints.

    Raises:
        InputError: it failed; not where `quiet`.
    """
    done = subprocess.run(
        line, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    if done.returncode and not quiet:
        raise InputError(f"{line[0]} failed: {' '.join(done.stderr.split())}")
    return done.stdout


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Starts or stops; returns the exit status."""
    actions = {"start": start, "stop": stop}
    if not arguments or arguments[0] not in actions:
        got = f", got {arguments[0]!r}" if arguments else ""
        raise InputError(f"the first argument must be start or stop{got}")
    default = Path(tempfile.gettempdir()) / "labeldp-slurm"
    folder = read_arguments(arguments[1:], {"folder": str(default)})["folder"]
    actions[arguments[0]](Path(folder).expanduser().absolute())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
