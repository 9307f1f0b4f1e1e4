"""CSV tables of records: a damaged one is named in one line, new rows replace older ones.

Imports no torch.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from labeldp.support.files import write_text
from labeldp.support.validate import InputError

MENDED = "bring back an older version, by `git checkout` if it is committed, or delete it"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever damaged content raises inside into one line that names the file.

    Raises:
        InputError: the content is not what was written.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} is damaged: {reason} ({MENDED})") from None


def read_rows(
    path: Path, filled: Sequence[str], numbers: Sequence[str] = (),
    text: Sequence[str] = ("config_hash",),
) -> pd.DataFrame:  # fmt: skip
    """Returns the table in a CSV.

    Args:
        path: of the file, which is there.
        filled: columns that must be there, with a value in each row.
        numbers: columns that must be there, and hold numbers, where they hold anything.
        text: columns that stay as they are written.

    Raises:
        InputError: a column or a value is missing, or the file ends in the middle of a line.
    """
    with reading(path):
        table = pd.read_csv(path, dtype=dict.fromkeys(text, str))
        missing = [name for name in (*filled, *numbers) if name not in table.columns]
        if missing:
            raise ValueError(f"it has no column {missing[0]}")
        for name in filled:
            empty = table.index[table[name].isna()]
            if len(empty):
                raise ValueError(f"row {empty[0] + 1} has no {name}, as if it were cut off")
        for name in numbers:
            pd.to_numeric(table[name])
    return table


def merge_rows(path: Path, new: pd.DataFrame, kept: Collection[str], order: Sequence[str]) -> None:
    """Writes rows to a CSV, each in place of an older one of its cell.

    Older ones stay where their config_hash is in `kept`; those of retired records go. Where there
    are none at all, no file is made.

    Args:
        path: of the file.
        new: with a column `config_hash`.
        kept: the config_hash of each record that there is.
        order: columns that rows are sorted by; the last two name a row.
    """
    if path.is_file():
        old = read_rows(path, ["config_hash"])
        old = old[old.config_hash.isin(list(kept))]
        new = pd.concat([new, old]) if len(new) else old
    elif new.empty:
        return
    rows = new.drop_duplicates(list(order[-2:]), keep="first").sort_values(list(order))
    write_text(path, rows.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
