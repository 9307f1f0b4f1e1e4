"""The version of the samplers: which records today's code would draw again."""

DRAWS = 2
"""Version of all draws; raise it whenever the draws of any release change for the same seed.

Two runs of one cell under one seed have the same releases if they have the same version, and
releases of the same law otherwise. tests/mechanisms/test_version.py pins what every mechanism
releases and fails where this number was not raised.

1: records up to the change of noise streams, of commits before 6728eca. 2: since.
"""
