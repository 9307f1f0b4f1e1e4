"""Learners: from releases to a classifier. They see features and releases, nothing else."""
