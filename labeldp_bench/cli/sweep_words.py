"""How a sweep is named, and what is said of it while it runs."""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from labeldp.support.progress import duration
from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.grid import Axes, Spelled, as_written
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.record import is_done
from labeldp_bench.reports.naming import counted


def sources(cells: Sequence[Cell], done: Container[str], out_dir: Path) -> str:
    """Returns how many cells are done, and where their records are."""
    # Of those in `done` alone: meanwhile another process may have written more.
    known = [cell for cell in cells if cell.config_hash in done]
    here = sum(is_done(out_dir / cell.folder) for cell in known)
    stored = len(known) - here
    from_table = (
        f"{stored} stored in results/records.csv (rerun=true trains anew), " if stored else ""
    )
    return f"{counted([len(cells)], 'cell')}: {from_table}{here} done in {out_dir}"


def progress(before: int, total: int, seconds: float) -> str:
    """Returns how many cells of a sweep are done and how long the others will take, as text.

    Args:
        before: cells of the jobs before this one.
        total: all cells that the command has to run.
        seconds: since the first of them began.

    >>> progress(0, 215, 0.0), progress(5, 215, 120.0)
    ('0 of 215 cells', '5 of 215 cells, about 84 min left')
    """
    text = f"{before} of {total} cells"
    if not before or seconds <= 0:  # the clock may have been set back
        return text
    return f"{text}, about {duration(seconds / before * (total - before))} left"


def name_of(cells: Iterable[str], budgets: set[str], named: str | None, axes: Axes) -> str:
    """Returns the name of a sweep's files: no sweep overwrites another's table.

    Only a whole experiment has its plain name; parts and versions have eight digits of their own.

    Args:
        cells: their hashes.
        budgets: of the cells.
        named: the experiment, or the choice of `sweep=`; None without either.
        axes: what the command line says.
    """
    name = "_".join([(named or "sweep").replace("/", "_"), *sorted(budgets - {PAPER})])
    if name != "sweep" and not axes.keys() - {"budget"}:
        return name
    return f"{name}-{hashlib.sha256(' '.join(sorted(cells)).encode()).hexdigest()[:8]}"


def does_not_fit(
    name: str, axes: Axes, refused: Mapping[str, str], others: Sequence[Spelled]
) -> InputError:
    """Returns what is said of values that some cells of an experiment or sweep cannot take.

    Args:
        name: of the experiment or sweep.
        axes: what the command line says.
        refused: {what these cells have in place of it: why it does not fit}.
        others: the cells, if it fits some of them: a mechanism is then run on its own beside them.
    """
    which = "every cell of" if "" in refused else "the cells of"
    having = "" if "" in refused else f" that have {' or '.join(refused)}"
    how = ""
    if others and "mechanism" in axes:
        values = {key: _values(others, key) for key in ("dataset", "eps", "seed")}
        asked = as_written({key: found for key, found in values.items() if found} | axes)
        how = f" (to run it on its own: python -m labeldp_bench -m {asked})"
    why = next(iter(refused.values()))
    return InputError(f"{as_written(axes)} does not fit {which} {name}{having}: {why}{how}")


def _values(cells: Sequence[Spelled], key: str) -> list[str]:
    """Returns the values of a key in the cells, each once."""
    texts = (text for cell in cells for text in cell.overrides if text.startswith(f"{key}="))
    return [text.partition("=")[2] for text in dict.fromkeys(texts)]


def title(cells: Sequence[Cell]) -> str:
    """Returns what a person calls the cells of one job."""
    more = f" and {len(cells) - 1} more on the same data" if len(cells) > 1 else ""
    return cells[0].title + more
