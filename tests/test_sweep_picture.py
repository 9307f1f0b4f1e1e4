"""Pictures of sweeps and of attacks: what a reader of the picture alone can know."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from labeldp_bench.collect import read_committed
from labeldp_bench.config import CHECKOUT
from labeldp_bench.experiments import read_experiment
from labeldp_bench.figures import plotting
from labeldp_bench.figures.attack import draw_attacks
from labeldp_bench.figures.sweep import draw_sweep
from labeldp_bench.tables.sweep import sweep_frame


@pytest.fixture
def drawn(monkeypatch):
    """Figures in place of files."""
    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, path: figures.append(figure))
    yield figures
    plt.close("all")


def frame_of(name):
    records = read_committed()
    cells = read_experiment(name).cells()
    return sweep_frame([records[cell.config_hash] for cell in cells if cell.config_hash in records])


def test_limits_are_named_and_the_runs_stand_below(drawn, tmp_path):
    # Two dashed lines without a word, and no telling one run from a thousand.
    draw_sweep(frame_of("mechanisms/circle"), tmp_path / "circle.png")
    (figure,) = drawn
    said = [text.get_text() for text in figure.axes[0].texts]
    assert said == ["Bayes limit, K=100", "Bayes limit, K=40"]
    assert figure.get_supxlabel().startswith("10,000 training examples, 200 trials, 1 seed. ")
    draw_sweep(frame_of("mechanisms/mnist"), tmp_path / "mnist.png")
    assert drawn[1].get_supxlabel().startswith("60,000 training examples, 5 epochs, 2 seeds. ")
    assert drawn[1].axes[0].get_title(loc="left") == "MNIST"


def test_a_mechanism_of_an_attack_has_its_own_colour_and_the_seed_is_named(drawn, tmp_path):
    # `optimal` was teal there and black elsewhere.
    rows = pd.read_csv(CHECKOUT / "results" / "attacks.csv", dtype={"config_hash": str})
    assert draw_attacks(rows[rows.dataset == "mnist"], tmp_path / "attacks.png")
    (figure,) = drawn
    assert figure.get_suptitle().startswith("MNIST, seed 0: ")
    (legend,) = (panel.get_legend() for panel in figure.axes if panel.get_legend())
    shown = {
        text.get_text(): line for text, line in zip(legend.texts, legend.get_lines(), strict=True)
    }
    assert shown["PLE, no guarantee"].get_color() == plotting.colour_of("ple")
    for name in ("optimal", "lp_2st", "oue"):
        assert shown[plotting.name_of(name)].get_color() == plotting.colour_of(name)
