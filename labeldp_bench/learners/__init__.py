"""Learners: from releases to a classifier. They see features and releases, nothing else."""

from labeldp_bench.learners.single_stage import SingleStage

__all__ = ["SingleStage"]
