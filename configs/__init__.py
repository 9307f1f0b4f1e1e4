"""Hydra configs; a package so that the wheel carries them."""
