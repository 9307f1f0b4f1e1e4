"""Numbers that papers print, and which of our cells each belongs to. Imports no torch.

One CSV per paper in results/published; its README says what the columns mean, and
tests/labeldp_bench/records/test_published.py checks every row.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pandas as pd
from omegaconf import OmegaConf

from labeldp.support.validate import InputError, check_choice
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import choices_of
from labeldp_bench.experiments.experiment import Experiment
from labeldp_bench.records.record import reading
from labeldp_bench.support.checkout import CHECKOUT

PUBLISHED = CHECKOUT / "results" / "published"
TYPES = {
    "paper": "str", "table": "str", "dataset": "str", "method": "str", "class": "Int64",
    "eps": "float64", "metric": "str", "value": "float64", "std": "float64", "usable": "bool",
    "note": "str",
}  # fmt: skip
"""Columns of every CSV and their types."""


def read_published(*papers: str, folder: Path = PUBLISHED) -> pd.DataFrame:
    """Returns the numbers printed in `papers`, of all papers if none is named.

    Columns and types are those of `TYPES`: `class` is missing outside per-class tables, `std`
    where the paper gives none; `value` and `std` are in percent; `eps` may be infinite.

    Raises:
        InputError: an unknown paper, or a file with other columns or types.
    """
    known = sorted(path.stem for path in folder.glob("*.csv"))
    if not known:
        raise InputError(f"no published tables (*.csv) in {folder}")
    names = [check_choice("paper", paper, known) for paper in papers] or known
    frames = []
    for path in (folder / f"{name}.csv" for name in names):
        with reading(path):
            frame = pd.read_csv(path, dtype=TYPES, na_values=[""], keep_default_na=False)
            if list(frame) != list(TYPES):
                raise ValueError(f"its columns must be {','.join(TYPES)}")
        frames.append(frame.fillna({"note": ""}))
    return pd.concat(frames, ignore_index=True)


def published_of(experiment: Experiment) -> pd.DataFrame:
    """Returns what the paper of an experiment prints; empty where it prints nothing.

    Columns as in `read_published`, and `printed_eps`, the eps of the paper's column. Two keys of
    the experiment's `table:` node change rows: `really`, {method: {printed eps: real eps}}, gives
    `eps` the real one where a column is not what it says; `readings`, {method: row}, repeats a row
    for a second method where the paper does not say which of the two it is.
    """
    node = experiment.table or {}
    rows = read_published()
    rows = rows[rows.paper == experiment.name.partition("/")[0]].assign(printed_eps=rows.eps)
    for method, moved in node.get("really", {}).items():
        for printed, real in moved.items():
            column = (rows.method == method) & (rows.printed_eps == printed)
            rows.loc[column, "eps"] = float(real)
            rows.loc[column, "usable"] = True  # at its real eps the number is right
    for method, row in node.get("readings", {}).items():
        unclear = (rows.method == row) & (rows.note == "")
        rows.loc[unclear, "note"] = "the paper does not say which of these it printed"
        rows = pd.concat([rows, rows[rows.method == row].assign(method=method)])
    return rows


def published_accuracies(experiment: Experiment, cells: Iterable[Cell]) -> dict[str, float]:
    """Returns {config_hash: the accuracy that the paper prints, in percent} of a table's cells.

    Values that are known to be wrong are left out. Only the experiment of a table has any: the
    cells of a figure may differ in settings that no table names.
    """
    if experiment.table is None or not PUBLISHED.is_dir():  # an installed wheel has no results
        return {}
    rows = published_of(experiment)
    rows = rows[(rows.metric == "accuracy") & rows.usable]
    values = rows.set_index(["dataset", "method", "eps"]).value.to_dict()
    variant = experiment.table.get("variant")
    places = {
        cell.config_hash: (
            cell.dataset_name,
            method_of(cell, variant),
            float(cell.identity.get("mechanism.eps", math.inf)),
        )
        for cell in cells
    }
    return {name: values[place] for name, place in places.items() if place in values}


def method_of(cell: Cell, variant: Mapping[str, str] | None = None) -> str:
    """Returns what tables call a cell's method: the mechanism, and after `+` what is not its own.

    Args:
        cell: of a table or figure.
        variant: {letter: setting} of further settings that tell methods apart, as the `table:` node
            of an experiment names them: `{l: mechanism.favoured}` makes of `blockrr` the methods
            `blockrr_l0`, `blockrr_l1`, ...
    """
    mechanism = cell.identity["mechanism"]
    name = mechanism + "".join(f"_{x}{cell.setting(key)}" for x, key in (variant or {}).items())
    loss = cell.identity.get("learner.loss")
    extras = [] if loss == default_loss(mechanism) else [str(loss)]
    retrain = [cell.identity["learner.retrain"]] if "learner.retrain" in cell.identity else []
    return "+".join([name, *extras, *retrain])


@cache
def default_loss(mechanism: str) -> str | None:
    """Returns the loss that a mechanism's YAML chooses; None where its learner knows but one."""
    config = OmegaConf.load(choices_of("mechanism")[mechanism])
    if "learner" in config:
        return str(config.learner.loss)
    # A recipe that builds on another, as lp_2st_star does, keeps the other's loss.
    bases = [str(base) for base in config.defaults if isinstance(base, str)]
    return default_loss(bases[0]) if bases else None
