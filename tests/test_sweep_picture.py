"""Pictures of sweeps and of attacks: what a reader of the picture alone can know."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from labeldp_bench import plotting
from labeldp_bench.attack_picture import draw_attacks
from labeldp_bench.config import CHECKOUT


@pytest.fixture
def drawn(monkeypatch):
    """Figures in place of files."""
    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, path: figures.append(figure))
    yield figures
    plt.close("all")


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
