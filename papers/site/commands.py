"""The command that repeats a committed record, found among the cells of all experiments."""

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from labeldp_bench.experiments.compose import compose_cell, experiment_names, key_of
from labeldp_bench.experiments.experiment import PROGRAM, read_experiment, scaled
from labeldp_bench.experiments.grid import expand
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.record import Record
from labeldp_bench.reports.naming import SMALLER

COMPARED = (
    "dataset", "mechanism", "learner", "learner.loss", "pretrain", "dataset.num_classes",
)  # fmt: skip
"""Keys that mean the same in an override and in an identity: a cheap test before Hydra's."""


def overrides_of(records: Sequence[Record]) -> dict[str, list[str]]:
    """Returns {config_hash: the overrides that spell that record's cell}.

    Each is composed again, and has the record's hash. A record that belongs to no experiment of
    this checkout is left out.
    """
    wanted: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        identity = record["identity"]
        budget = str(record.get("budget") or PAPER)
        wanted[budget, identity["dataset"], identity["mechanism"]].append(record)
    found: dict[str, list[str]] = {}
    for budget, overrides in _all_cells({budget for budget, *_ in wanted} & {PAPER, *SMALLER}):
        said = {key_of(text): text.partition("=")[2].strip("'\"") for text in overrides}
        place = (budget, said.get("dataset", ""), said.get("mechanism", ""))
        alike = [
            record
            for record in wanted.get(place, ())
            if record["config_hash"] not in found and _may_be(record, said, budget)
        ]
        if alike:
            spelled = scaled(overrides)
            found.setdefault(compose_cell(spelled).config_hash, spelled)
    return {r["config_hash"]: found[r["config_hash"]] for r in records if r["config_hash"] in found}


def command_of(overrides: Sequence[str], seeds: Iterable[int]) -> str:
    """Returns what to type in a shell to run a cell with each of some seeds.

    >>> command_of(["mechanism=rr", "eps=1", "seed=0"], [0, 2])
    'python -m labeldp_bench -m mechanism=rr eps=1 seed=0,2'
    """
    numbers = [str(seed) for seed in sorted(seeds)]
    own = [shlex.quote(text) for text in overrides if key_of(text) != "seed"]
    several = ["-m"] if len(numbers) > 1 else []
    return " ".join([PROGRAM, *several, *own, f"seed={','.join(numbers)}"])


def _all_cells(budgets: Iterable[str]) -> Iterable[tuple[str, list[str]]]:
    """Yields (budget, overrides) of every cell of every experiment; nothing is composed."""
    for name in experiment_names():
        blocks = read_experiment(name).blocks
        for budget in sorted(budgets) if blocks else ():
            for overrides in expand(blocks, {"budget": [budget]}):
                yield budget, overrides


def _may_be(record: Record, said: Mapping[str, str], budget: str) -> bool:
    """Returns whether overrides may spell a record's cell: nothing that they say contradicts it."""
    identity = {"pretrain": "none"} | record["identity"]
    if any(str(identity[key]) != said[key] for key in COMPARED if key in said and key in identity):
        return False
    if budget == PAPER and int(said.get("seed", 0)) != int(record["seed"]):
        return False  # other budgets have seeds of their own
    if "mechanism.eps" not in identity or "eps" not in said:
        return True
    return math.isclose(float(identity["mechanism.eps"]), float(said["eps"]))
