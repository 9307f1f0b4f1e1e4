"""Zhao et al. (2024), theoretical_limits: pictures of the rates."""
