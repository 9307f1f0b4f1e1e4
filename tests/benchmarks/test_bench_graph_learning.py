"""The benchmark of graph baselines compares with a package, and says where it is missing."""

import csv
import sys
from types import SimpleNamespace

import numpy as np
from scipy.sparse.csgraph import laplacian

from benchmarks import graph_learning


class Exact:
    """Poisson learning by least squares on the whole matrix."""

    def __init__(self, graph):
        self.matrix = laplacian(graph.toarray())

    def fit(self, rows, labels):
        votes = np.eye(3)[labels]
        sources = np.zeros((len(self.matrix), 3))
        sources[rows] = votes - votes.mean(0)
        return np.linalg.lstsq(self.matrix, sources, rcond=None)[0]


def test_it_compares_the_classes_of_both(tmp_path, capsys, monkeypatch):
    package = SimpleNamespace(ssl=SimpleNamespace(poisson=Exact, laplace=Exact))
    monkeypatch.setitem(sys.modules, "graphlearning", package)
    monkeypatch.setattr(graph_learning, "SETTINGS", ((1.0, 10, 1.0),))
    assert graph_learning.main(["points=300", f"out={tmp_path}"]) == 0
    with (tmp_path / "graph_learning_cpu.csv").open() as file:
        poisson, laplace = csv.DictReader(file)
    assert (poisson["method"], poisson["labels"], poisson["graph"]) == (
        "Poisson", "30", "in one piece",
    )  # fmt: skip
    assert float(poisson["same class, %"]) == 100 > float(laplace["same class, %"])
    assert "| Poisson | 1 | 30 |" in capsys.readouterr().out


def test_a_missing_package_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphlearning", None)
    assert graph_learning.main([f"out={tmp_path}"]) == 2
    assert "graphlearning is not installed (pip install" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
