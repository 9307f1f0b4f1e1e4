"""Counts of true against predicted classes."""

import torch

from labeldp_bench.runs.evaluate import confusion_matrix, per_class_accuracy


def test_rows_are_true_classes():
    # Accuracies of classes would be precisions, and confusion.csv be read the wrong way round.
    confusion = confusion_matrix(torch.tensor([0, 0, 0, 1]), torch.tensor([1, 1, 0, 1]), 3)
    assert confusion.tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 0]]
    assert per_class_accuracy(confusion) == [1 / 3, 1.0, None]
