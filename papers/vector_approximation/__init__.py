"""Vector approximation (Zhao et al. 2025): its figures, what its text says of them, its bounds."""
