"""Data sets: features and test labels in the open, training labels in the store."""
