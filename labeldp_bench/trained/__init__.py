"""Models that come trained: `labeldp_bench.load(name)` returns one."""
