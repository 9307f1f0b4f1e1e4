"""Runs jobs through a launcher, and reports a worker process that died."""

import sys
from collections.abc import Sequence

from hydra.plugins.launcher import Launcher

from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.support.process import comes_from_ctrl_c

LONGEST = 200
"""Characters of a launcher's own words, which may be a page."""


def launch(launcher: Launcher, jobs: Sequence[Sequence[str]]) -> tuple[int, bool]:
    """Runs jobs; returns how many of their cells failed, and whether all jobs came to an end.

    A launcher gives up where a worker was killed (memory, a time limit, a node that went away).
    Its exception is said in one line: what is done stays done, and the same command goes on.

    Args:
        launcher: Hydra's own, or that of a plugin.
        jobs: at least one; the overrides of each.

    Raises:
        KeyboardInterrupt: Ctrl-C, whatever the launcher made of it.
        InputError: what the launcher needs is not there.
    """
    try:
        results = launcher.launch(jobs, initial_job_idx=0)
    except InputError:
        raise
    except Exception as error:
        if comes_from_ctrl_c(error):
            raise KeyboardInterrupt from None
        # Hydra's own launcher keeps the exceptions of jobs; so this is the launcher's.
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        more = " ..." if len(words) > LONGEST else ""
        say(f"error: a worker process ended unexpectedly: {words[:LONGEST]}{more}", sys.stderr)
        return 0, False
    return sum(result.return_value for result in results), True
