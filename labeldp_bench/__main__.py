"""`python -m labeldp_bench`."""

from labeldp_bench.cli import main

main()
