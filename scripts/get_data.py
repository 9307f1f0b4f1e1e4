"""Brings every official data set that can be had into a folder, and says what is there.

    python scripts/get_data.py [data_dir=FOLDER]

The folder is `data_dir`, else the environment variable LABELDP_DATA, else `data`. The exit status
is 0 if at least one data set is there.
"""

import sys
from pathlib import Path

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, default_data_dir, read_arguments
from labeldp_bench.data.images import read_npz
from labeldp_bench.data.official import OFFICIAL, NotAvailable, fetch


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints a line for each data set."""
    own = read_arguments(arguments, {"data_dir": default_data_dir()})
    folder = Path(own["data_dir"]).expanduser()
    if not own["data_dir"]:  # a variable that is not set: five data sets would land anywhere
        raise InputError("data_dir must be a folder, got ''")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"data_dir must be a folder, got '{folder}' ('{nearest}' is a file)")
    there = sum([report(name, folder / f"{name}.npz") for name in OFFICIAL])
    print(f"{there} of {len(OFFICIAL)} data sets are in {folder}")
    if not there:
        raise InputError(
            "none could be had: run this where there is a network, or copy <name>.npz files into "
            f"{folder}"
        )
    return 0


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
    sys.exit(main(sys.argv[1:]))
