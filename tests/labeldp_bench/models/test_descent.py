"""Approximate neighbours of many points; without pynndescent the search says what to install."""

import importlib.util
import sys

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.models.embeddings import DescentSearch
from labeldp_bench.models.neighbours import NeighbourSearch


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(InputError, match=r"pip install 'labeldp-bench\[graphs\]'"):
        DescentSearch()(torch.zeros(3, 2), torch.zeros(3, 2), 1)


INSTALLED = importlib.util.find_spec("pynndescent") is not None


@pytest.mark.skipif(not INSTALLED, reason="no pynndescent (pip install 'labeldp-bench[graphs]')")
def test_it_finds_nearly_all_of_the_true_neighbours():
    points = torch.randn(3000, 8, generator=torch.Generator().manual_seed(0))
    search, exact = DescentSearch(), NeighbourSearch()
    for queries in (points, points[:50] + 0.01):
        found, true = search(points, queries, 11), exact(points, queries, 11)
        assert found.shape == true.shape and found.dtype == torch.int32
        hits = (found[:, :, None] == true[:, None, :]).any(1).double().mean()
        assert hits > 0.9
    assert (search(points, points, 11)[:, 0] == torch.arange(3000)).all()  # itself first
    assert torch.equal(DescentSearch()(points, points, 11), search(points, points, 11))
