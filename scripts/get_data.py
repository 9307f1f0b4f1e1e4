"""Brings every official data set that can be had into a folder, and says what is there.

The folder is the argument, else the environment variable LABELDP_DATA, else `data`.
"""

import os
import sys
from pathlib import Path

from labeldp_bench.data.images import read_npz
from labeldp_bench.data.official import OFFICIAL, NotAvailable, fetch
from labeldp_bench.validate import InputError


def main() -> None:
    """Entry point; exits with 0 if at least one data set is there."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LABELDP_DATA") or "data"
    folder = Path(chosen).expanduser()
    there = sum([report(name, folder / f"{name}.npz") for name in OFFICIAL])
    print(f"{there} of {len(OFFICIAL)} data sets are in {folder}")
    if not there:
        sys.exit(
            "error: none could be had: run this where there is a network, or copy <name>.npz "
            f"files into {folder}"
        )


def report(name: str, path: Path) -> bool:
    """Prints one line about a data set; returns whether it is there."""
    try:
        if not path.exists():
            fetch(name, path)
        train, test = read_npz(path)
    except InputError as error:
        reason = error.reason if isinstance(error, NotAvailable) else str(error)
        print(f"{name:14} not there: {reason}", flush=True)
        return False
    height, width, channels = train.images.shape[1:]
    print(
        f"{name:14} {len(train.labels):,} training and {len(test.labels):,} test images, "
        f"{height}x{width}x{channels}, in {path}",
        flush=True,
    )
    return True


if __name__ == "__main__":
    main()
