"""Tables of the papers, ours beside the printed numbers: `base` has what all kinds share."""
