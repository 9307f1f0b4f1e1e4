"""Whether whole numbers were drawn from a law."""

import numpy as np
from scipy.stats import chisquare


def has_law(drawn, law, level=1e-3):
    """Whether draws, (N,), pass a chi-square test against a discrete law with mean 0."""
    whole = np.asarray(drawn)
    assert (whole == whole.round()).all()
    edge = int(law.ppf(1 - 20 / len(whole)))  # beyond it fewer than 20 are expected
    places = np.arange(-edge, edge + 1)
    seen = [(whole < -edge).sum(), *((whole == k).sum() for k in places), (whole > edge).sum()]
    expected = np.array([law.cdf(-edge - 1), *law.pmf(places), law.sf(edge)]) * len(whole)
    return chisquare(seen, expected / expected.sum() * len(whole)).pvalue > level
