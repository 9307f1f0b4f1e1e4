"""Clusters of public features: counted by a curator, or by what every example released."""

import math

import pytest
import torch
from torch.nn import Linear

from labeldp.mechanisms import NoisyClusters, RandomizedResponse
from labeldp.support import seeding
from labeldp_bench.cli.sweep import grouped
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.clusters import Clusters, k_means, nearest_centre
from labeldp_bench.models.embeddings import SmoothFunctions
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.learning import CPU, accuracy, record_of, released, rings, session


def clusters(**given):
    return Clusters(Linear, **given)


@pytest.mark.parametrize("central", [True, False])
def test_groups_are_learnt_by_a_count_of_each(central):
    # Curators at an eps where a label alone tells nothing; single releases, when many vote.
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    own = clusters(functions=6, clusters=6)
    if central:
        groups = own.grouping(points, session())
        assert groups.count == 6 and groups.members.shape == (6000,)
        noisy = NoisyClusters(0.02).over(groups.members, groups.count)(
            labels, 3, seeding.generator(0, "test")
        )
        fitted = groups.estimator(noisy)
    else:
        supervision = released(RandomizedResponse(0.3), labels)
        fitted = own.fit(points, supervision, session())
        assert torch.equal(fitted.outputs.sum(0), supervision.targets.bincount().double())
    assert accuracy(fitted, fresh, truth) > 0.98
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


def test_part_of_the_examples_votes_in_its_own_clusters():
    # A stage, or an earlier fit's choice, would vote in the clusters of the first examples.
    points, labels = rings(300, seed=0)
    own = clusters(functions=6, clusters=6)
    groups = own.grouping(points, session())
    part = torch.arange(300).flip(0)[::2]
    supervision = released(RandomizedResponse(math.inf), labels, rows=part)
    fitted = own.fit(points, supervision, session())
    sums = torch.zeros(groups.count, 3, dtype=torch.float64)
    for index in part.tolist():
        sums[groups.members[index], labels[index]] += 1
    assert torch.equal(fitted.outputs, sums)


def test_other_points_have_a_graph_of_their_own():
    # Later trials would be told apart by the neighbours of the first one's points.
    kept = clusters(neighbours=5)
    clouds = [rings(200, seed=seed)[0] for seed in (0, 1)]

    def functions(own, points, queries):
        embedding = own.embedding(points, 4, session())
        parts = [embedding.functions(part) for part in queries[:100].split(50)]
        return [embedding.smooth.values, *parts]

    first = functions(kept, clouds[0], clouds[1])
    second = functions(kept, clouds[1], clouds[0])
    for ours, fresh in zip(
        second, functions(clusters(neighbours=5), clouds[1], clouds[0]), strict=True
    ):
        assert torch.equal(ours, fresh)
    assert not torch.equal(first[0], second[0]) and not torch.equal(*second[1:])


TINY = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "eps=4"]
SIX = ["model=clusters", "model.functions=6", "model.clusters=6"]
BRIEF = ["epochs=1", "batch_size=64", "precision=float32", "augment=[]"]
BRIEF = ["pretrain=simclr", *(f"pretrain.trainer.{text}" for text in BRIEF)]


@pytest.mark.parametrize(
    ("model", "mechanisms"),
    [
        (["model=eigenmaps", *BRIEF], ["rr", "rappor"]),
        (SIX, ["lp_2st", "noisy_clusters", "exponential_cubes"]),
    ],
)
def test_cells_of_one_job_share_the_graph(tmp_path, tiny_images, monkeypatch, model, mechanisms):
    # A record would depend on which cell came first, and each would join all neighbours again.
    made = []
    real = SmoothFunctions.over.__func__
    monkeypatch.setattr(
        SmoothFunctions, "over", classmethod(lambda *given: made.append(1) or real(*given))
    )
    cells = [compose_cell([*TINY, f"mechanism={name}", *model]) for name in mechanisms]
    assert len(grouped(cells)) == 1
    together = Environment(tmp_path / "together", tiny_images, CPU)
    assert run_cells(cells, together) == 0
    assert len(made) == 1
    for cell in cells:
        alone = Environment(tmp_path / "alone", tiny_images, CPU)
        record, shared = record_of(cell, alone), read_record(together.out_dir / cell.folder)
        assert record["per_class_accuracy"] == shared["per_class_accuracy"]
        assert record["eps_spent"] == 4 and record["accuracy"] > 0.3
        is_central = record["mechanism"] in ("noisy_clusters", "exponential_cubes")
        assert record["trust"] == ("central" if is_central else "local")


def test_mechanism_alone_is_the_whole_recipe(tmp_path, tiny_images):
    # The contract names noisy_clusters; without its model the command would be refused.
    cell = compose_cell([*TINY, "mechanism=noisy_clusters", *SIX[1:]])
    record = record_of(cell, Environment(tmp_path, tiny_images, CPU))
    names = [record[key] for key in ("model", "trust", "learner")]
    assert names == ["clusters", "central", "local_averages"]
    assert record["notes"]["clusters"] == 6 and record["accuracy"] > 0.5
