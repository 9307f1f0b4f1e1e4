"""Figures as experiments describe them."""
