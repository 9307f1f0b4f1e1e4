"""Speed of steps, releases and commands: `python -m benchmarks.training`, each with --help."""

from labeldp_bench.support.process import prepare_threads

prepare_threads()  # before any benchmark imports torch, which reads the setting
