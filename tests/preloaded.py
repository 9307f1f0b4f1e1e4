"""What commands import, for the server that the processes of `tests.shell` are forked from."""

import gc
import importlib

MODULES = (
    "labeldp_bench.cli.sweep_summary",
    "labeldp_bench.cli.main",
    "labeldp_bench.learners",
    "labeldp_bench.models",
    "labeldp_bench.pretraining.recipes",
    "labeldp_bench.runs.job",
    "labeldp_bench.runs.release_only",
    "hydra._internal.hydra",
    "torch._dynamo",  # 1.5 s, which the first optimizer of a process takes
)

for name in MODULES:
    importlib.import_module(name)
# A collection in a forked process would write to every object, and so copy all of the memory.
gc.freeze()
