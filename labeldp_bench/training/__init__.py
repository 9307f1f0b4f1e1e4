"""Training of any network on targets: one loop, the same on a CPU and on a GPU.

Knows no mechanism and no label.
"""
