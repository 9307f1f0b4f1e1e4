"""Theoretical limits (Zhao et al. 2025): pictures of its rates and mechanisms on real labels."""
