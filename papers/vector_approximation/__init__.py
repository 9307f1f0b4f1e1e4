"""Zhao et al. (2025), vector_approximation: bounds in numbers."""
