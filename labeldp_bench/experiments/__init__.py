"""From a config to cells: compose, identity, grids, budgets."""
