"""The least-squares fit to releases on smooth functions."""

import numpy as np
import pytest
import torch

from labeldp.losses import loss_named
from labeldp.mechanisms import AdditiveLaplace, RandomizedResponse, Rappor
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.cli.sweeper import group
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Session
from labeldp_bench.models import Eigenmaps, NearestNeighbours
from labeldp_bench.models.eigenmaps import least_squares
from labeldp_bench.models.embeddings import SmoothFunctions
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.learning import rings
from tests.shell import quick, records_under

TINY = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "model=eigenmaps",
        "mechanism=rappor", "eps=4"]  # fmt: skip
CPU = torch.device("cpu")


def session(seed=0):
    return Session(seed, CPU)


def released(mechanism, labels, loss, num_classes=3):
    outputs = mechanism.release(labels, num_classes, torch.Generator().manual_seed(1))
    release = Release(torch.arange(len(labels)), outputs, mechanism, num_classes)
    return Supervision.of([release], loss_named(loss))


def model(**given):
    return Eigenmaps(torch.nn.Linear, **given)


@pytest.mark.parametrize(
    ("mechanism", "loss"),
    [(RandomizedResponse(0.3), "plain"), (Rappor(0.3), "bce"), (Rappor(0.3), "unbiased"),
     (AdditiveLaplace(0.3), "marginal")],
)  # fmt: skip
def test_groups_are_learnt_at_an_eps_where_neighbours_hear_noise(mechanism, loss):
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    supervision = released(mechanism, labels, loss)
    fitted = model(functions=[1, 2, 4]).fit(points, supervision, session())
    voted = NearestNeighbours(10).fit(points, supervision, session())
    accuracies = [
        float((each.scores(fresh).argmax(1) == truth).double().mean()) for each in (fitted, voted)
    ]
    assert accuracies[0] > 0.95 and accuracies[1] < 0.6
    shares = fitted.probabilities(fresh)
    assert torch.allclose(shares.sum(1), torch.ones(500).double())
    sharper = fitted.probabilities(fresh, 0.5)
    squares = fitted.scores(fresh).clamp_min(0).square()
    assert torch.allclose(sharper, squares / squares.sum(1, keepdim=True))
    assert (fitted.probabilities(fresh, 1e-4).amax(1) > 0.99).double().mean() > 0.95


def test_held_out_releases_choose_what_a_loop_chooses():
    # The short way through products of functions would choose another number.
    points, labels = rings(900, seed=0)
    supervision = released(RandomizedResponse(1.0), labels, "plain")
    sizes = [3, 6, 12]
    own = model(functions=[1, 2, 4], folds=4)
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


def test_noise_asks_for_fewer_functions():
    # At small eps the fit would learn the noise.
    draws = torch.Generator().manual_seed(0)
    points = torch.rand(4000, 2, generator=draws)
    labels = (6 * points[:, 0]).long() % 3  # stripes: finer than the smoothest functions
    chosen = {}
    for eps in (0.2, 8.0):
        notes = session()
        model(functions=[1, 20]).fit(points, released(RandomizedResponse(eps), labels, "plain"),
                                     notes)  # fmt: skip
        chosen[eps] = notes.notes["functions"]
    assert chosen == {0.2: 3, 8.0: 60}


def test_too_many_functions_take_the_smallest_weights():
    # Few examples would end in numbers without a bound, or in none.
    functions = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)).double()
    votes = torch.eye(4).double()
    weights = least_squares(functions.T @ functions, functions.T @ votes, 9)
    assert torch.allclose(weights, torch.linalg.pinv(functions) @ votes, atol=1e-8)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_few_examples_give_numbers(count):
    points, labels = rings(count, seed=0)
    supervision = released(Rappor(2.0), labels, "bce")
    fitted = model(neighbours=1).fit(points, supervision, session())
    assert fitted.scores(points).isfinite().all()
    assert torch.allclose(fitted.probabilities(points).sum(1), torch.ones(count).double())


def test_part_of_the_labels_uses_the_graph_of_all_features():
    # Stages of LP-2ST would each see a graph of half of the points.
    points, labels = rings(3000, seed=0)
    own = model(functions=[1])
    for part in (torch.arange(100), torch.arange(100, 200)):
        outputs = RandomizedResponse(3.0).release(labels[part], 3, torch.Generator().manual_seed(1))
        release = Release(part, outputs, RandomizedResponse(3.0), 3)
        supervision = Supervision.of([release], loss_named("plain"))
        fitted = own.fit(points, supervision, session())
        assert len(fitted.embedding.smooth.points) == 3000
        assert float((fitted.scores(points).argmax(1) == labels).double().mean()) > 0.99


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.neighbours=0"], "model.neighbours must be >= 1, got 0"),
        (["model.neighbours=240"], "model.neighbours must be < the number of training examples"),
        (["model.functions=[]"], "model.functions must be a list of numbers, got an empty one"),
        (["model.functions=abc"], "model.functions must be a list of numbers, got 'abc'"),
        (["model.functions=[0.5]"], "model.functions must be a number >= 1, got 0.5"),
        (["model.folds=1"], "model.folds must be >= 2, got 1"),
        (["learner=local_averages"], "learner=local_averages needs model=cubes, clusters or knn"),
        (["mechanism=ple", "mechanism.k1=2"], "mechanism=ple needs a network"),
        (["trainer.epochs=3"], "trainer.epochs has no effect: this model is not trained"),
    ],
)
def test_bad_value_is_refused_in_one_line(tmp_path, tiny_images, overrides, message):
    outcome = quick([*TINY, *overrides, f"data_dir={tiny_images}"], tmp_path)
    assert outcome.returncode != 0
    (line,) = [line for line in outcome.lines if line.startswith("error")]
    assert message in line
    assert not records_under(tmp_path)


@pytest.mark.parametrize("pretrain", ["none", "simclr"])
def test_cells_of_one_job_share_the_graph(tmp_path, tiny_images, monkeypatch, pretrain):
    # Every cell would join 60,000 neighbours again.
    made = []
    real = SmoothFunctions.over.__func__
    monkeypatch.setattr(
        SmoothFunctions, "over", classmethod(lambda *given: made.append(1) or real(*given))
    )
    quickly = ["pretrain.trainer.epochs=1", "pretrain.trainer.batch_size=64",
               "pretrain.trainer.precision=float32",
               "pretrain.trainer.augment=[]"] if pretrain == "simclr" else []  # fmt: skip
    cells = [
        compose_cell([*TINY, f"pretrain={pretrain}", f"mechanism={name}", *quickly])
        for name in ("rr", "rappor", "lp_2st")
    ]
    assert len(group([(cell, []) for cell in cells])) == 1
    environment = Environment(tmp_path / "runs", tiny_images, CPU)
    assert run_cells(cells, environment) == 0
    assert len(made) == 1
    records = [read_record(environment.out_dir / cell.folder) for cell in cells]
    assert all(record["notes"]["functions"] >= 3 for record in records)
    assert [record["pretrain"] for record in records] == [pretrain] * 3
    assert all(record["eps_spent"] == 4 for record in records)
    if pretrain == "none":  # brightness, which the mean over pixels hides but for its direction
        assert records[0]["accuracy"] > 0.5


def test_unnatural_multiple_is_an_input_error():
    with pytest.raises(InputError, match=r"model\.functions must be a number"):
        model(functions=["many"])


@pytest.mark.parametrize("copies", [1, 20])
def test_a_graph_in_more_pieces_than_functions_forgets_no_point(copies):
    # Points of the pieces that are left out would all get the same class, without a word.
    draws = torch.Generator().manual_seed(0)
    centres = 9 * torch.rand(60, 3, generator=draws)
    piece = torch.arange(3000) % 60
    points = centres[piece] + 0.001 * torch.randn(3000, 3, generator=draws) * (copies == 1)
    labels = (piece * 7) % 2
    supervision = released(RandomizedResponse(3.0), labels, "plain", num_classes=2)
    fitted = model(functions=[1, 2]).fit(points, supervision, session())
    smooth = fitted.embedding.smooth
    assert smooth.components == 60 and len(fitted.weights) == 60
    assert (smooth.values.abs().sum(1) > 0).all()
    assert float((fitted.scores(points).argmax(1) == labels).double().mean()) > 0.99


def test_few_examples_are_not_met_one_by_one():
    # A fit through all of them would have scores in the thousands between them.
    draws = torch.Generator().manual_seed(0)
    points, classes = torch.rand(2000, 2, generator=draws), torch.arange(2000) % 40
    part = torch.arange(60)
    outputs = RandomizedResponse(8.0).release(classes[part], 40, draws)
    release = Release(part, outputs, RandomizedResponse(8.0), 40)
    told = []
    talking = Session(0, CPU, say=told.append)
    fitted = model().fit(points, Supervision.of([release], loss_named("plain")), talking)
    assert len(fitted.weights) <= 20
    assert fitted.scores(points).abs().max() < 3
    assert any("only 20 smooth functions for 40 classes" in line for line in told)


def test_points_in_the_plane_keep_their_distance(tmp_path):
    # Their angle around the mean alone would lose the radius, and the sign alone a whole line.
    points = torch.cat([torch.full((300, 1), 1.0), torch.full((300, 1), 5.0)])
    points += 0.1 * torch.randn(600, 1, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(600) // 300
    two = torch.cat([points, 2 * points], 1)  # one direction, two radii
    for each in (points, two - 9):
        supervision = released(RandomizedResponse(2.0), labels, "plain", num_classes=2)
        fitted = model(functions=[1]).fit(each, supervision, session())
        assert torch.equal(fitted.scores(each).argmax(1), labels)
    outcome = quick(["model=eigenmaps", "mechanism=rappor", "dataset.num_classes=4",
                     "dataset.n_train=600", "dataset.n_test=100", "dataset.trials=2",
                     "dataset.sigma=0.1"], tmp_path)  # fmt: skip
    assert outcome.returncode == 0, outcome.lines
    (path,) = records_under(tmp_path)
    assert read_record(path.parent)["accuracy"] > 0.95


def test_pretrained_network_decides_who_is_near():
    # pretrain=simclr would be a name in the record alone.
    class Corner(torch.nn.Module):
        def __init__(self, num_classes, image_shape):
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(()))
            self.head = torch.nn.Linear(2, num_classes)

        def forward(self, images):
            return self.head(self.gain * images[:, 0, 0, :2])

    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 3
    images = torch.randint(0, 250, (900, 6, 6, 1), generator=draws)
    images[:, 0, :2, 0] = torch.tensor([[0, 90], [90, 0], [200, 200]])[labels] + torch.randint(
        0, 20, (900, 2), generator=draws
    )
    images = images.to(torch.uint8)
    supervision = released(RandomizedResponse(0.7), labels, "plain")
    found = [
        Eigenmaps(Corner, functions=[1], initial=initial).fit(images, supervision, session())
        for initial in (None, {})
    ]
    hits = [float((each.scores(images).argmax(1) == labels).double().mean()) for each in found]
    assert hits[0] < 0.8 and hits[1] > 0.95
