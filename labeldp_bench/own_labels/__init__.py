"""For your own labels: release them once, learn from what was released.

A thin layer over mechanisms, the vault, losses and models; `import labeldp_bench` shows its names.
"""
