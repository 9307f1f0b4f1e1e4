"""The neighbour search: exact, ties by index, shared between cells."""

import numpy as np
import pytest
import torch

from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Session
from labeldp_bench.models import neighbours as knn
from labeldp_bench.models.neighbours import NearestNeighbours, NeighbourSearch, tree_search
from tests.conftest import TINY_CIRCLE

SESSION = Session(0, torch.device("cpu"))


def by_full_sort(points, queries, k):
    """The definition, as a loop: by squared distance in float64, then by index."""
    squares = [((points - query) ** 2).sum(1) for query in queries]
    return np.array([np.lexsort((np.arange(len(points)), row))[:k] for row in squares])


def sets(found):
    return np.sort(found, axis=1).tolist()


def clouds():
    generator = np.random.default_rng(0)
    plane = generator.normal(size=(400, 2))
    line = np.stack([generator.normal(size=400), np.full(400, 0.3)], 1)
    steps = generator.integers(0, 6, (400, 2)).astype(float)  # many points share a place
    lattice = np.stack(np.divmod(np.arange(400.0), 20), 1)  # many share a distance
    far = np.concatenate([plane[:399], [[1e6, -1e6]]])  # nearly all in one cell
    diagonal = np.repeat(generator.normal(size=(400, 1)), 2, axis=1)
    tiny = plane * 1e-30
    return {
        "plane": plane, "line": line, "upright": line[:, ::-1].copy(), "duplicates": steps,
        "one place": np.ones((400, 2)), "lattice": lattice, "far": far, "diagonal": diagonal,
        "tiny": tiny,
    }  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 37, 399, 400])
@pytest.mark.parametrize("name", clouds())
def test_the_search_equals_a_full_sort(name, k):
    # A tie broken by the order of the tree would be another record.
    points = clouds()[name]
    inside = np.random.default_rng(1).normal(size=(20, 2))
    outlying = np.array([[1e3, 0.0], [-1e3, 1e-9], [0.0, -50.0], [1e7, 1e7], [2.5, 2.5]])
    queries = np.concatenate([inside, outlying, points[:20], points[:20] * (1 + 1e-16)])
    expected = sets(by_full_sort(points, queries, k))
    assert sets(tree_search(points, queries, k)) == expected


def test_points_that_are_not_finite_are_refused():
    # Each would be the neighbour of nobody, or of all.
    with pytest.raises(ValueError, match="finite"):
        NeighbourSearch()(torch.full((5, 2), float("nan")), torch.zeros(1, 2), 1)


def test_neighbours_come_by_rising_index():
    # The order of the tree, by distance, would round sums otherwise.
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(300, 2, generator=generator)
    found = NeighbourSearch()(points, points[:50], 9)
    assert found.dtype == torch.int32
    assert (found.diff(dim=1) > 0).all()


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
    assert torch.equal(summed, counted.sort(1).values)
    assert (counted.diff(dim=1) < 0).any()  # what was handed out stays as it is
    assert search(points, points[:50], 9) is summed
    assert torch.equal(search(points, points[:50], 9, rising=False), summed)


def test_votes_do_not_depend_on_who_searched_first():
    # One order for labels and one for bits would round a cell's sums by what ran before it.
    def scores_of(names):
        units = {name: compose_cell([*TINY_CIRCLE, f"mechanism={name}"]).build() for name in names}
        parts = units[names[0]]
        bundle = parts.dataset.draw(None, seed=0)
        found = {}
        for name, each in units.items():
            store = bundle.store.open(1.0, seed=0, again="test")
            classifier = each.learner.fit(
                bundle.train_features, store, each.mechanism, parts.model, SESSION
            )
            found[name] = classifier.scores(bundle.test_features)
            if name == "alibi":  # a sum of floats
                neighbours = parts.model.search(
                    bundle.train_features, bundle.test_features, parts.model.k
                )
                assert (neighbours.diff(dim=1) > 0).all()
        return found

    one, other = scores_of(("rr", "alibi")), scores_of(("alibi", "rr"))
    assert torch.equal(one["rr"], other["rr"]) and torch.equal(one["alibi"], other["alibi"])


def test_stages_share_the_search_of_single_stages(monkeypatch):
    # Their releases come in another order; a second search of the same points is for nothing.
    calls = []
    search = knn.tree_search
    monkeypatch.setattr(
        knn, "tree_search", lambda *given: calls.append(len(given[0])) or search(*given)
    )
    parts = compose_cell([*TINY_CIRCLE, "mechanism=lp_2st"]).build()
    single = compose_cell([*TINY_CIRCLE, "mechanism=rr"]).build()
    bundle = parts.dataset.draw(None, seed=0)
    for each in (single, parts, parts):
        store = bundle.store.open(1.0, seed=0, again="test")
        classifier = each.learner.fit(
            bundle.train_features, store, each.mechanism, parts.model, SESSION
        )
        classifier.scores(bundle.test_features)
    assert calls == [300, 150]


def test_votes_follow_the_examples_of_all_stages():
    # Sorting the indices without the votes would give every example another's label.
    features = torch.tensor([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    indices, labels = torch.tensor([2, 0, 3, 1]), torch.tensor([2, 0, 3, 1])
    supervision = Supervision(
        indices, labels, torch.nn.functional.one_hot(labels, 4).bool(), loss_named("plain")
    )
    classifier = NearestNeighbours(1).fit(features, supervision, SESSION)
    assert classifier.scores(features).tolist() == torch.eye(4).tolist()  # one vote each
