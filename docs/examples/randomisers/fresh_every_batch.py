"""A loader that draws the noise of a label anew whenever a batch asks for it.

A stand-in of our own for what a shipped federated product does: its data set randomises in
`__getitem__`, so that every epoch sees other noise of the same label. One epoch is eps=1; twenty
epochs are up to 20. `labeldp verify <this file>:labels_of_an_epoch --classes 10 --eps 1
--calls 20` refutes the claim, and `:kept` passes, which draws once and remembers.
"""

import numpy as np
from honest import randomise

KEPT = {}


def labels_of_an_epoch(labels):
    """Returns the labels of one epoch, with fresh noise."""
    return randomise(labels)


def kept(labels):
    """Returns the same noise whenever the same labels are asked for."""
    key = labels.tobytes()  # stands for the ids of the examples
    if key not in KEPT:
        KEPT[key] = randomise(labels)
    return np.array(KEPT[key])
