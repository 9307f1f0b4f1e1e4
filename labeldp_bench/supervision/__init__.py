"""What a release teaches: losses, targets, and what learner and model ask of each other.

Knows no network.
"""
