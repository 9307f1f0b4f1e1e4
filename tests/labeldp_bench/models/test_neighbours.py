"""The neighbour search: exact, ties by index, shared between cells; or approximate."""

import sys

import numpy as np
import pytest
import torch

from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models import neighbours as knn
from labeldp_bench.models.embeddings import DescentSearch
from labeldp_bench.models.neighbours import NearestNeighbours, NeighbourSearch, tree_search
from tests.conftest import TINY_CIRCLE
from tests.learning import session


def by_full_sort(points, queries, k):
    """The definition, as a loop: by squared distance in float64, then by index."""
    squares = [((points - query) ** 2).sum(1) for query in queries]
    return np.array([np.lexsort((np.arange(len(points)), row))[:k] for row in squares])


def clouds():
    generator = np.random.default_rng(0)
    plane = generator.normal(size=(400, 2))
    line = np.stack([generator.normal(size=400), np.full(400, 0.3)], 1)
    steps = generator.integers(0, 6, (400, 2)).astype(float)  # many points share a place
    lattice = np.stack(np.divmod(np.arange(400.0), 20), 1)  # many share a distance
    far = np.concatenate([plane[:399], [[1e6, -1e6]]])  # nearly all in one cell
    diagonal = np.repeat(generator.normal(size=(400, 1)), 2, axis=1)
    places = dict(plane=plane, line=line, upright=line[:, ::-1].copy(), duplicates=steps)
    places |= dict(one_place=np.ones((400, 2)), lattice=lattice, far=far)
    return places | dict(diagonal=diagonal, tiny=plane * 1e-30)


@pytest.mark.parametrize("k", [1, 37, 400])
@pytest.mark.parametrize("name", clouds())
def test_the_search_equals_a_full_sort(name, k):
    # A tie broken by the order of the tree would be another record.
    points = clouds()[name]
    inside = np.random.default_rng(1).normal(size=(20, 2))
    outlying = np.array([[1e3, 0.0], [-1e3, 1e-9], [0.0, -50.0], [1e7, 1e7], [2.5, 2.5]])
    queries = np.concatenate([inside, outlying, points[:20], points[:20] * (1 + 1e-16)])
    found, expected = tree_search(points, queries, k), by_full_sort(points, queries, k)
    assert np.array_equal(np.sort(found, axis=1), np.sort(expected, axis=1))


def test_points_that_are_not_finite_are_refused():
    # Each would be the neighbour of nobody, or of all.
    with pytest.raises(ValueError, match="finite"):
        NeighbourSearch()(torch.full((5, 2), float("nan")), torch.zeros(1, 2), 1)


@pytest.mark.parametrize("dimensions", [2, 20])
def test_order_is_for_whoever_asked_for_it(dimensions):
    # Whoever counts labels pays for no order, and must not take it from whoever sums floats.
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(300, dimensions, generator=generator)
    search = NeighbourSearch()
    counted = search(points, points[:50], 9, rising=False)
    assert counted.dtype == torch.int32
    assert (counted.diff(dim=1) < 0).any()  # otherwise this test shows nothing
    summed = search(points, points[:50], 9)
    expected = torch.cdist(points[:50].double(), points.double()).argsort(1)[:, :9]
    assert torch.equal(summed, expected.sort(1).values.int())
    assert torch.equal(summed, counted.sort(1).values)
    assert (counted.diff(dim=1) < 0).any()  # what was handed out stays as it is
    assert search(points, points[:50], 9) is summed
    assert torch.equal(search(points, points[:50], 9, rising=False), summed)


def scores_of(parts, bundle, model):
    store = bundle.store.open(1.0, seed=0, again="test")
    classifier = parts.learner.fit(bundle.train_features, store, parts.mechanism, model, session())
    return classifier.scores(bundle.test_features)


def test_votes_do_not_depend_on_who_searched_first():
    # One order for labels and one for bits would round a cell's sums by what ran before it.
    found = []
    for names in (("rr", "alibi"), ("alibi", "rr")):
        units = {name: compose_cell([*TINY_CIRCLE, f"mechanism={name}"]).build() for name in names}
        parts = units[names[0]]
        bundle = parts.dataset.draw(None, seed=0)
        found.append({})
        for name, each in units.items():
            found[-1][name] = scores_of(each, bundle, parts.model)
            if name == "alibi":  # a sum of floats
                model, points = parts.model, bundle.train_features
                near = model.search(points, bundle.test_features, model.k)
                assert (near.diff(dim=1) > 0).all()
    assert all(torch.equal(found[0][name], found[1][name]) for name in ("rr", "alibi"))


def test_stages_share_the_search_of_single_stages(monkeypatch):
    # Their releases come in another order; a second search of the same points is for nothing.
    calls = []
    search = knn.tree_search
    monkeypatch.setattr(
        knn, "tree_search", lambda *given: calls.append(len(given[0])) or search(*given)
    )
    parts, single = (
        compose_cell([*TINY_CIRCLE, f"mechanism={name}"]).build() for name in ("lp_2st", "rr")
    )
    bundle = parts.dataset.draw(None, seed=0)
    for each in (single, parts, parts):
        scores_of(each, bundle, parts.model)
    assert calls == [300, 150]


def test_votes_follow_the_examples_of_all_stages():
    # Sorting the indices without the votes would give every example another's label.
    features = torch.tensor([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    indices, labels = torch.tensor([2, 0, 3, 1]), torch.tensor([2, 0, 3, 1])
    supervision = Supervision(
        indices, labels, torch.nn.functional.one_hot(labels, 4).bool(), loss_named("plain")
    )
    classifier = NearestNeighbours(1).fit(features, supervision, session())
    assert classifier.scores(features).tolist() == torch.eye(4).tolist()  # one vote each


def test_without_pynndescent_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(InputError, match="pip install"):
        DescentSearch()(torch.zeros(3, 2), torch.zeros(3, 2), 1)


def test_descent_finds_nearly_all_of_the_true_neighbours():
    pytest.importorskip("pynndescent")
    points = torch.randn(3000, 8, generator=torch.Generator().manual_seed(0))
    search, exact = DescentSearch(), NeighbourSearch()
    for queries in (points, points[:50] + 0.01):
        found, true = search(points, queries, 11), exact(points, queries, 11)
        assert found.shape == true.shape and found.dtype == torch.int32
        hits = (found[:, :, None] == true[:, None, :]).any(1).double().mean()
        assert hits > 0.9
    assert (search(points, points, 11)[:, 0] == torch.arange(3000)).all()  # itself first
    assert torch.equal(DescentSearch()(points, points, 11), search(points, points, 11))


def test_search_is_shared_only_for_the_same_points():
    # A cell would be scored with another cell's neighbours.
    search = NeighbourSearch()
    points = torch.randn(99, 2, generator=torch.Generator().manual_seed(0))
    first = search(points, points[:9], 5)
    assert search(points, points[:9], 5) is first
    assert search(points, points[:9], 6).shape == (9, 6)
    moved = search(points + 1, points[:9], 5)
    expected = torch.cdist(points[:9].double(), (points + 1).double()).argsort(1)[:, :5]
    assert torch.equal(moved, expected.sort(1).values.int())
