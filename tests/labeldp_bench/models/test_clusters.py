"""Clusters of public features: counted by a curator, or by what every example released."""

import math

import pytest
import torch
from scipy.stats import dlaplace

from labeldp.audit.group_channels import group_epsilon
from labeldp.losses import loss_named
from labeldp.mechanisms import NoisyClusters, RandomizedResponse
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models import Clusters
from labeldp_bench.models.clusters import k_means, nearest_centre
from labeldp_bench.models.embeddings import SmoothFunctions
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.laws import has_law
from tests.learning import CPU, rings, session
from tests.shell import quick, records_under

DATA = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "eps=4"]
TINY = [*DATA, "model.functions=6", "model.clusters=6"]


def model(**given):
    return Clusters(torch.nn.Linear, **given)


def test_counts_have_noise_of_scale_two_over_eps():
    # Scale 1/eps would cost twice the budget that the ledger books.
    labels = torch.arange(30_000) % 3
    groups = torch.arange(30_000) // 3
    noisy = NoisyClusters(0.5).release_groups(
        labels, 3, groups, 10_000, seeding.generator(0, "test")
    )
    assert noisy.dtype == torch.float64 and noisy.shape == (10_000, 3)
    noise = (noisy - 1).flatten()
    assert has_law(noise, dlaplace(1 / 4)) and not has_law(noise, dlaplace(1 / 3.7))
    exact = NoisyClusters(math.inf).release_groups(
        labels, 3, groups, 10_000, seeding.generator(0, "test")
    )
    assert torch.equal(exact, torch.ones(10_000, 3).double())


def test_audit_finds_eps_and_catches_half_the_noise():
    class HalfTheNoise(NoisyClusters):
        scale = property(lambda self: 1 / self.eps)

    assert group_epsilon(NoisyClusters(0.7)) == pytest.approx(0.7, abs=1e-12)
    assert group_epsilon(HalfTheNoise(0.7)) == pytest.approx(1.4, abs=1e-12)


@pytest.mark.parametrize("central", [True, False])
def test_groups_are_learnt_by_a_count_of_each(central):
    # Curators at an eps where a label alone tells nothing; single releases, when many vote.
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    own = model(functions=6, clusters=6)
    if central:
        groups = own.grouping(points, session())
        assert groups.count == 6 and groups.members.shape == (6000,)
        noisy = NoisyClusters(0.02).release_groups(
            labels, 3, groups.members, groups.count, seeding.generator(0, "test")
        )
        fitted = groups.estimator(noisy)
    else:
        mechanism = RandomizedResponse(0.3)
        outputs = mechanism.release(labels, 3, torch.Generator().manual_seed(1))
        release = Release(torch.arange(6000), outputs, mechanism, 3)
        fitted = own.fit(points, Supervision.of([release], loss_named("plain")), session())
        assert torch.equal(fitted.outputs.sum(0), outputs.bincount().double())
    assert float((fitted.scores(fresh).argmax(1) == truth).double().mean()) > 0.98
    shares = fitted.probabilities(fresh)
    assert torch.allclose(shares.sum(1), torch.ones(500).double()) and shares.min() >= 0


def test_every_example_is_in_the_cluster_of_the_nearest_centre():
    draws = torch.Generator().manual_seed(0)
    functions = torch.randn(500, 4, generator=draws, dtype=torch.float64)
    centres = k_means(functions, 7, seed=0)
    rows = functions / functions.square().sum(1, keepdim=True).sqrt()
    by_loop = [int((row - centres).square().sum(1).argmin()) for row in rows]
    assert nearest_centre(functions, centres).tolist() == by_loop
    # Length is how far a point is from a border, not on which side of it.
    assert nearest_centre(3 * functions, centres).tolist() == by_loop
    assert torch.equal(k_means(functions, 7, seed=0), centres)
    assert not torch.equal(k_means(functions, 7, seed=1), centres)


def test_fewer_places_than_clusters_are_clusters_of_their_own():
    # k-means would draw a centre with probability 0/0.
    functions = torch.eye(3).double().repeat(50, 1)
    centres = k_means(functions, 10, seed=0)
    assert len(centres) == 3
    assert sorted(nearest_centre(functions[:3], centres).tolist()) == [0, 1, 2]


def test_too_few_places_are_not_blamed_on_the_number_of_clusters():
    # The refusal would name a number of clusters that nobody asked for.
    points = torch.eye(2).repeat(50, 1)
    own = model(functions=2, clusters=6)
    groups = own.grouping(points, session())
    with pytest.raises(InputError, match=r"found only 2 distinct places for 3 classes \(take more"):
        groups.estimator(torch.zeros(groups.count, 3))


def test_part_of_the_examples_votes_in_its_own_clusters():
    # A stage, or an earlier fit's choice, would vote in the clusters of the first examples.
    points, labels = rings(300, seed=0)
    own = model(functions=6, clusters=6)
    groups = own.grouping(points, session())
    part = torch.arange(300).flip(0)[::2]
    release = Release(part, labels[part], RandomizedResponse(math.inf), 3)
    fitted = own.fit(points, Supervision.of([release], loss_named("plain")), session())
    sums = torch.zeros(groups.count, 3, dtype=torch.float64)
    for index in part.tolist():
        sums[groups.members[index], labels[index]] += 1
    assert torch.equal(fitted.outputs, sums)


def test_other_points_have_a_graph_of_their_own():
    # Later trials would be told apart by the neighbours of the first one's points.
    kept = model(neighbours=5)
    clouds = [rings(200, seed=seed)[0] for seed in (0, 1)]

    def functions(own, points, queries):
        embedding = own.embedding(points, 4, session())
        return [embedding.smooth.values, embedding.functions(queries[:50]),
                embedding.functions(queries[50:100])]  # fmt: skip

    first = functions(kept, clouds[0], clouds[1])
    second = functions(kept, clouds[1], clouds[0])
    for ours, fresh in zip(
        second, functions(model(neighbours=5), clouds[1], clouds[0]), strict=True
    ):
        assert torch.equal(ours, fresh)
    assert not torch.equal(first[0], second[0]) and not torch.equal(*second[1:])


@pytest.mark.parametrize(
    ("dataset", "mechanism"),
    [("holder_regression", "full_cube_means"), ("holder_regression", "full_clipped_cube_means"),
     ("holder_classification", "full_exponential_cubes"), ("circle", "local_full")],
)  # fmt: skip
def test_features_are_not_protected_by_groups_that_depend_on_them(tmp_path, dataset, mechanism):
    # One moved point changes the graph, so that most groups change; noise is for two of them.
    outcome = quick(
        [f"dataset={dataset}", f"mechanism={mechanism}", "model=clusters", "dataset.n_train=300",
         "dataset.trials=1"], tmp_path,
    )  # fmt: skip
    assert outcome.returncode != 0
    (line,) = [line for line in outcome.lines if line.startswith("error")]
    assert "these groups depend on everybody's features" in line and "model=cubes" in line
    assert not records_under(tmp_path)


def test_cells_of_one_job_share_graph_and_clusters(tmp_path, tiny_images, monkeypatch):
    # A record would depend on which cell came first, and each would join all neighbours again.
    made = []
    real = SmoothFunctions.over.__func__
    monkeypatch.setattr(
        SmoothFunctions, "over", classmethod(lambda *given: made.append(1) or real(*given))
    )
    names = ("lp_2st", "noisy_clusters", "rappor", "exponential_cubes")
    cells = [compose_cell([*TINY, f"mechanism={name}", "model=clusters"]) for name in names]
    together = Environment(tmp_path / "together", tiny_images, CPU)
    assert run_cells(cells, together) == 0
    assert len(made) == 1
    for cell in cells:
        alone = Environment(tmp_path / "alone", tiny_images, CPU)
        assert run_cells([cell], alone) == 0
        records = [read_record(place.out_dir / cell.folder) for place in (together, alone)]
        assert records[0]["per_class_accuracy"] == records[1]["per_class_accuracy"]
        assert records[0]["eps_spent"] == 4
    trusts = [read_record(together.out_dir / cell.folder)["trust"] for cell in cells]
    assert trusts == ["local", "central", "local", "central"]


def test_mechanism_alone_is_the_whole_recipe(tmp_path, tiny_images):
    # The contract names noisy_clusters; without its model the command would be refused.
    outcome = quick([*TINY, "mechanism=noisy_clusters", f"data_dir={tiny_images}"], tmp_path)
    assert outcome.returncode == 0, outcome.lines
    (path,) = records_under(tmp_path)
    record = read_record(path.parent)
    assert (record["model"], record["trust"], record["learner"]) == (
        "clusters", "central", "local_averages",
    )  # fmt: skip
    assert record["notes"]["clusters"] == 6 and record["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.clusters=0"], "model.clusters must be >= 1, got 0"),
        (["model.clusters=2"], "model.clusters must be >= the number of classes, got 2 for 3"),
        (["model.clusters=241"], "model.clusters must be <= the number of training examples"),
        (["model.functions=1.5"], "model.functions must be an integer"),
        (["model=knn"], "they overlap (use model=cubes or clusters)"),
        (["model=cnn"], "learner=local_averages needs model=cubes, clusters or knn"),
    ],
)
def test_bad_value_is_refused_in_one_line(tmp_path, tiny_images, overrides, message):
    outcome = quick(
        [*DATA, "mechanism=noisy_clusters", *overrides, f"data_dir={tiny_images}"], tmp_path
    )
    assert outcome.returncode != 0
    (line,) = [line for line in outcome.lines if line.startswith("error")]
    assert message in line
    assert not records_under(tmp_path)
