"""What commands import, for the server that the processes of `tests.shell` are forked from."""

import functools
import gc
import importlib
import pkgutil

from labeldp_bench import data, learners, models
from labeldp_bench.experiments.compose import compose, compose_whole
from labeldp_bench.records import collect
from labeldp_bench.reports import durations

MODULES = (
    "labeldp_bench.cli.sweep_summary",
    "labeldp_bench.cli.main",
    *(
        f"{package.__name__}.{module.name}"
        for package in (data, learners, models)
        for module in pkgutil.iter_modules(package.__path__)
    ),
    "labeldp_bench.pretraining.recipes",
    "labeldp_bench.runs.job",
    "hydra._internal.hydra",
    *("sklearn.metrics", "sklearn.compose", "sklearn.impute"),  # of tables
    *("tabulate", "pandas.io.formats.style", "matplotlib.backends.backend_agg"),  # of sweeps
    "torch._dynamo",  # 1.5 s, which the first optimizer of a process takes
)

TABLE = "dataset=table mechanism=rr model=logistic"

# Reading the records, and a forecast from all of them, would take each command two seconds.
collect.read_committed = functools.cache(collect.read_committed)
FEW = dict(list(collect.read_committed().items())[::90])
durations.read_lengths = lambda models: FEW
for name in MODULES:
    importlib.import_module(name)
# Hydra would compose again in each process what most of them have in common.
compose_whole([])
for choices in ("", "mechanism=rr", "dataset=npz", "dataset=npz model=cnn", TABLE):
    compose(choices.split())
# A collection in a forked process would write to every object, and so copy all of the memory.
gc.freeze()
