"""What spells the cells of an experiment's blocks."""

from labeldp_bench.experiments.grid import cell_specs


def expand(blocks, axes):
    """Returns the overrides of every cell."""
    return [spec.overrides for spec in cell_specs(blocks, axes)]
