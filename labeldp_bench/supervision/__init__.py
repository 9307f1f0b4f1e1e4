"""What a release teaches: losses, targets, and the protocols of learner and model.

Knows no network.
"""
