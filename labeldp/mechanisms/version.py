"""Versions of the samplers: which records today's code would draw again."""

DRAWS = 2
"""Version of the draws of a mechanism that names no other as its `draws`.

Two runs of one cell under one seed have the same releases if they have the same version, and
releases of the same law otherwise. A record has the largest version of what was released.
test_version.py pins what every mechanism releases and fails where its number was
not raised.

1: records up to the change of noise streams, of commits before 6728eca. 2: since.
3: of mechanisms with Laplace noise, since that is drawn in whole steps; of `pate_fm`, since other
teachers have other noise.
"""

HISTOGRAM = 3
"""Version of the draws of noisy histograms."""
