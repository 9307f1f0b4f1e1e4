"""Models on the graph of neighbours: eigenmaps, a Gaussian process, Laplace learning."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import laplacian
from scipy.sparse.linalg import ArpackNoConvergence
from scipy.spatial import cKDTree
from scipy.stats import multivariate_normal
from torch.nn import Linear

from labeldp.losses import loss_named
from labeldp.mechanisms import AdditiveLaplace, RandomizedResponse, Rappor, SubsetSelection
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embeddings import SmoothFunctions, joined_neighbours
from labeldp_bench.models.graphs import LaplaceLearning
from labeldp_bench.models.neighbours import NearestNeighbours, NeighbourSearch
from labeldp_bench.models.smooth_models import (
    SIGNALS,
    Eigenmaps,
    GraphGaussianProcess,
    noise_variance,
    posterior,
)
from tests.learning import CPU, accuracy, released, rings, session

GROUPS = [
    (Eigenmaps(Linear, functions=[1, 2, 4]), RandomizedResponse(0.3), "plain"),
    (Eigenmaps(Linear, functions=[1, 2, 4]), Rappor(0.3), "bce"),
    (Eigenmaps(Linear, functions=[1, 2, 4]), AdditiveLaplace(0.3), "marginal"),
    (GraphGaussianProcess(Linear), SubsetSelection(0.3), "bce"),
    (LaplaceLearning(Linear), RandomizedResponse(0.3), "unbiased"),
]


@pytest.mark.parametrize(("model", "mechanism", "loss"), GROUPS)
def test_groups_are_learnt_at_an_eps_where_neighbours_hear_noise(model, mechanism, loss):
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    supervision = released(mechanism, labels, loss)
    fitted, voted = (
        each.fit(points, supervision, session()) for each in (model, NearestNeighbours(10))
    )
    assert accuracy(voted, fresh, truth) < 0.6 < 0.9 < accuracy(fitted, fresh, truth)
    shares = fitted.probabilities(fresh)
    assert torch.allclose(shares.sum(1), torch.ones(500).double())
    if isinstance(model, Eigenmaps):
        squares = fitted.scores(fresh).clamp_min(0).square()
        sharper = squares / squares.sum(1, keepdim=True)
        assert torch.allclose(fitted.probabilities(fresh, 0.5), sharper)
        assert (fitted.probabilities(fresh, 1e-4).amax(1) > 0.99).double().mean() > 0.95


def test_noise_asks_for_a_larger_penalty():
    # At small eps the fit would learn the noise.
    points = torch.rand(4000, 2, generator=torch.Generator().manual_seed(0))
    labels = (6 * points[:, 0]).long() % 3
    chosen = []
    for eps in (0.2, 8.0):
        here = session()
        supervision = released(RandomizedResponse(eps), labels, "unbiased")
        LaplaceLearning(Linear).fit(points, supervision, here)
        chosen.append(here.notes["penalty"])
    assert chosen[0] > chosen[1]


def walk_of(points, neighbours):
    """Returns the random walk on the graph, float64 (n, n), by a loop."""
    _, near = cKDTree(points.numpy()).query(points.numpy(), neighbours + 1)
    joined = np.zeros((len(points), len(points)))
    for row, columns in enumerate(near):
        for column in columns:
            if row != column:
                joined[row, column] = joined[column, row] = 1
    return joined / joined.sum(1, keepdims=True)


@pytest.mark.parametrize("dense_up_to", [1000, 200], ids=["dense", "iterated"])
def test_functions_are_what_the_walk_keeps_up_to_a_factor(dense_up_to, monkeypatch):
    # Others would not be smooth: the mean over the neighbours would be another function.
    monkeypatch.setattr("labeldp_bench.models.embeddings.DENSE_UP_TO", dense_up_to)
    points, _ = rings(900, seed=0)  # three components of 300
    smooth = SmoothFunctions.over(points, 8, 12, NeighbourSearch())
    walk = torch.from_numpy(walk_of(points, 8))
    assert torch.allclose(walk @ smooth.values, smooth.values * smooth.eigenvalues, atol=1e-5)
    eigenvalues = np.sort(np.linalg.eigvals(walk.numpy()).real)[::-1]
    assert np.allclose(smooth.eigenvalues, eigenvalues[:12], atol=1e-6)
    assert torch.allclose(smooth.values.square().mean(0), torch.ones(12).double())


def test_new_points_get_what_points_near_them_have():
    points, ring = rings(1500, seed=0)
    smooth = SmoothFunctions.over(points, 8, 300, NeighbourSearch())
    fresh, fresh_ring = rings(300, seed=1)
    found = smooth.at(fresh)
    near = cKDTree(points.numpy()).query(fresh.numpy(), 8)[1]
    assert smooth.eigenvalues.min() < 0.8  # where dividing by it shows
    assert torch.allclose(found, smooth.values[near].mean(1) / smooth.eigenvalues)
    closest = smooth.values[near[:, 0], :6]
    assert float((found[:, :6] - closest).square().mean()) < 0.05
    # Three rings without an edge between them: three eigenvalues of 1, three constants.
    assert torch.allclose(smooth.eigenvalues[:3], torch.ones(3).double(), atol=1e-9)
    means = torch.stack([smooth.values[ring == each, :3].mean(0) for each in range(3)])
    assert torch.allclose(found[:, :3], means[fresh_ring], atol=1e-3)


def test_a_few_points_apart_are_no_group_of_their_own():
    # The first functions would tell outliers apart, and no class.
    points, ring = rings(1500, seed=0)
    far = torch.tensor([0.0, 0.0, 9.0]) + 0.01 * torch.randn(
        12, 3, generator=torch.Generator().manual_seed(2)
    )
    smooth = SmoothFunctions.over(torch.cat([points, far]), 8, 6, NeighbourSearch())
    assert (smooth.eigenvalues > 1 - 1e-9).sum() == 3
    groups = smooth.values[:1500, :3]
    means = torch.stack([groups[ring == each].mean(0) for each in range(3)])
    assert torch.allclose(groups, means[ring], atol=1e-6)
    # They hang on the upper ring, and have a little of its constant.
    assert smooth.values[1500:].abs().sum(1).min() > 0


def test_no_convergence_is_said_in_one_line(monkeypatch):
    # A run would end in the iteration's own words, which name nothing that one can set.
    def in_vain(*_, **__):
        raise ArpackNoConvergence("in vain", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr("labeldp_bench.models.embeddings.eigsh", in_vain)
    with pytest.raises(InputError, match=r"model\.neighbours"):
        SmoothFunctions.over(rings(3600, seed=0)[0], 8, 12, NeighbourSearch())


def test_held_out_releases_choose_what_a_loop_chooses():
    # The short way through products of functions would choose another number.
    points, labels = rings(900, seed=0)
    supervision = released(RandomizedResponse(1.0), labels)
    sizes = [3, 6, 12]
    own = Eigenmaps(Linear, functions=[1, 2, 4], folds=4)
    notes = session(3)
    fitted = own.fit(points, supervision, notes)
    functions, votes = fitted.embedding.smooth.values, supervision.votes().double()
    order = torch.randperm(900, generator=seeding.generator(3, "train", "held_out"))
    errors = []
    for size in sizes:
        error = 0.0
        for part in order.tensor_split(4):
            rest = torch.ones(900, dtype=torch.bool)
            rest[part] = False
            weights = torch.linalg.lstsq(functions[rest, :size], votes[rest]).solution
            error += float((votes[part] - functions[part, :size] @ weights).square().sum())
        errors.append(error)
    assert len(set(errors)) == 3
    assert notes.notes["functions"] == sizes[int(np.argmin(errors))]
    weights = torch.linalg.lstsq(functions[:, : notes.notes["functions"]], votes).solution
    assert torch.allclose(fitted.weights, weights, atol=1e-8)


@pytest.mark.parametrize("count", [2, 12])
def test_few_examples_give_numbers(count):
    points, labels = rings(count, seed=0)
    supervision = released(Rappor(2.0), labels, "bce")
    fitted = Eigenmaps(Linear, neighbours=1).fit(points, supervision, session())
    assert fitted.scores(points).isfinite().all()
    assert torch.allclose(fitted.probabilities(points).sum(1), torch.ones(count).double())


def test_part_of_the_labels_uses_the_graph_of_all_features():
    # Stages of LP-2ST would each see a graph of half of the points.
    points, labels = rings(3000, seed=0)
    own = Eigenmaps(Linear, functions=[1])
    for part in (torch.arange(100), torch.arange(100, 200)):
        supervision = released(RandomizedResponse(3.0), labels, rows=part)
        fitted = own.fit(points, supervision, session())
        assert len(fitted.embedding.smooth.points) == 3000
        assert accuracy(fitted, points, labels) > 0.99


@pytest.mark.parametrize("copies", [1, 20])
def test_a_graph_in_more_pieces_than_functions_forgets_no_point(copies):
    # Points of the pieces that are left out would all get the same class, without a word.
    draws = torch.Generator().manual_seed(0)
    centres = 9 * torch.rand(60, 3, generator=draws)
    piece = torch.arange(3000) % 60
    points = centres[piece] + 0.001 * torch.randn(3000, 3, generator=draws) * (copies == 1)
    labels = (piece * 7) % 2
    supervision = released(RandomizedResponse(3.0), labels, classes=2)
    fitted = Eigenmaps(Linear, functions=[1, 2]).fit(points, supervision, session())
    smooth = fitted.embedding.smooth
    assert smooth.components == 60 and len(fitted.weights) == 60
    assert (smooth.values.abs().sum(1) > 0).all()
    assert accuracy(fitted, points, labels) > 0.99


def test_few_examples_are_not_met_one_by_one():
    # A fit through all of them would have scores in the thousands between them.
    draws = torch.Generator().manual_seed(0)
    points, classes = torch.rand(2000, 2, generator=draws), torch.arange(2000) % 40
    part = torch.arange(60)
    supervision = released(RandomizedResponse(8.0), classes, classes=40, rows=part)
    told = []
    talking = Session(0, CPU, say=told.append)
    fitted = Eigenmaps(Linear).fit(points, supervision, talking)
    assert len(fitted.weights) <= 20
    assert fitted.scores(points).abs().max() < 3
    assert any("only 20 smooth functions for 40 classes" in line for line in told)


def test_points_in_the_plane_keep_their_distance():
    # Their angle around the mean alone would lose the radius, and the sign alone a whole line.
    points = torch.cat([torch.full((300, 1), 1.0), torch.full((300, 1), 5.0)])
    points += 0.1 * torch.randn(600, 1, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(600) // 300
    two = torch.cat([points, 2 * points], 1)  # one direction, two radii
    for each in (points, two - 9):
        supervision = released(RandomizedResponse(2.0), labels, classes=2)
        fitted = Eigenmaps(Linear, functions=[1]).fit(each, supervision, session())
        assert torch.equal(fitted.scores(each).argmax(1), labels)


VARIANCE = 0.7


@pytest.fixture(scope="module")
def problem():
    """Functions, votes that sum to 0, a prior; small enough for the whole covariance."""
    draws = torch.Generator().manual_seed(3)
    functions = torch.randn(40, 5, generator=draws).double()
    votes = functions @ torch.randn(5, 3, generator=draws).double()
    votes += torch.randn(40, 3, generator=draws)
    functions, votes = functions - functions.mean(0), votes - votes.mean(0)
    prior = torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1]).double()
    return functions, votes - votes.mean(1, keepdim=True), prior


@pytest.fixture(scope="module")
def found(problem):
    functions, votes, prior = problem
    return posterior(functions.T @ functions, functions.T @ votes, VARIANCE, len(functions), prior)


def covariance_of_votes(problem, signal):
    """Of the votes in one direction, without the code under test."""
    functions, _, prior = (each.numpy() for each in problem)
    return VARIANCE * (
        np.eye(len(functions)) + signal * functions * prior / prior.sum() @ functions.T
    )


def test_posterior_is_that_of_the_whole_covariance_of_votes(problem, found):
    functions, votes, _ = (each.numpy() for each in problem)
    whole = covariance_of_votes(problem, found.signal)
    of_function = whole - VARIANCE * np.eye(len(functions))
    mean = of_function @ np.linalg.solve(whole, votes)
    left = of_function - of_function @ np.linalg.solve(whole, of_function)
    assert np.allclose(functions @ found.weights.numpy(), mean)
    # A class is two thirds of a direction: three classes, two directions.
    assert found.doubt == pytest.approx(left.diagonal().mean() * 2 / 3)


def test_the_signal_is_the_most_likely_one(problem, found):
    directions = np.array([[1, -1, 0], [1, 1, -2]]).T / np.sqrt([2, 6])
    seen = (problem[1].numpy() @ directions).T

    def log_density(whole):
        return multivariate_normal(np.zeros(len(whole)), whole).logpdf(seen).sum()

    densities = [log_density(covariance_of_votes(problem, float(signal))) for signal in SIGNALS]
    assert found.signal == float(SIGNALS[int(np.argmax(densities))])
    nothing = log_density(VARIANCE * np.eye(seen.shape[1]))
    assert found.log_evidence == pytest.approx(max(densities) - nothing)


def test_noise_is_the_residual_of_least_squares(problem):
    functions, votes, _ = problem
    left = votes - functions @ torch.linalg.lstsq(functions, votes).solution
    expected = float(left.square().sum()) / (40 - 5 - 1) / 2
    found = noise_variance(votes, functions.T @ functions, functions.T @ votes)
    assert found == pytest.approx(expected)


def test_classes_keep_their_sizes_when_votes_are_clear():
    """Scaling to one size for all, whatever the votes say, would fail here."""
    points, labels = rings(3000, seed=0)
    rows = torch.cat([torch.nonzero(labels != 2)[:, 0], torch.nonzero(labels == 2)[:40, 0]])
    supervision = released(SubsetSelection(6.0), labels, "bce", rows=rows)
    fitted = GraphGaussianProcess(Linear).fit(points, supervision, session())
    shares = fitted.scores(points).argmax(1)[rows].bincount(minlength=3) / len(rows)
    truth = labels[rows].bincount(minlength=3) / len(rows)
    assert torch.allclose(shares, truth, atol=0.02)


def test_an_answer_by_chance_is_no_single_class():
    """Without a signal the class means decided, and every image was one class."""
    points, _ = rings(3000, seed=0)
    labels = torch.arange(3000) % 3  # features tell nothing of them
    now = session()
    supervision = released(SubsetSelection(0.05), labels, "bce", seed=7)
    fitted = GraphGaussianProcess(Linear).fit(points, supervision, now)
    assert now.notes["signal"] == float(SIGNALS[0])
    assert fitted.scores(points).argmax(1).bincount(minlength=3).min() > 300


def test_one_class_alone_is_learnt_without_a_warning():
    points, labels = rings(300, seed=0)
    supervision = released(RandomizedResponse(1.0), torch.zeros_like(labels), "bce")
    fitted = GraphGaussianProcess(Linear).fit(points, supervision, session())
    assert fitted.scores(points).isfinite().all()
    no_bit = torch.zeros(300, 3, dtype=torch.uint8)
    release = StoredRelease(torch.arange(300), no_bit, SubsetSelection(1.0), 3)
    silent = Supervision.of([release], loss_named("bce"))
    fitted = GraphGaussianProcess(Linear).fit(points, silent, session())
    assert fitted.scores(points).isfinite().all()


def scaled_laplacian(points, scale):
    """The same matrix as the model's, without its code: graph, then D - W."""
    joined = joined_neighbours(points, 10, NeighbourSearch()).toarray()
    return scale * laplacian(joined) / joined.sum(1).mean()


def test_laplace_learning_solves_its_system():
    points, labels = rings(400, seed=0)
    rows = torch.arange(0, 400, 2)  # half of the examples released something
    supervision = released(RandomizedResponse(1.0), labels, "unbiased", rows=rows)
    fitted = LaplaceLearning(Linear, penalties=[7]).fit(points, supervision, session())
    votes = supervision.votes().double().numpy()
    mass, right = np.zeros(400), np.zeros((400, 3))
    mass[rows], right[rows] = 1, votes - votes.mean(0)
    expected = np.linalg.solve(np.diag(mass) + scaled_laplacian(points, 7), right) + votes.mean(0)
    assert np.allclose(fitted.values.numpy(), expected, atol=1e-3)


def test_rough_functions_are_left_out():
    # A small eigenvalue would blow up what a new point gets.
    points, _ = rings(60, seed=0)
    smooth = SmoothFunctions.over(points, 10, 60, NeighbourSearch())
    assert 1 < smooth.values.shape[1] < 60
    assert smooth.eigenvalues.min() > 0.5
