"""Executes cells; the only place that scores test labels. `run.py` is the straight line."""
