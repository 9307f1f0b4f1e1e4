"""Protective label enhancement: its figures and the conditions of its theorems."""
