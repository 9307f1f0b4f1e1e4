"""What every picture shares: the same bytes on every machine."""

import numpy as np
import pandas as pd

from labeldp_bench.records.collect import read_committed
from labeldp_bench.reports.figures import plotting
from papers.figures.paper import load_figure
from papers.figures.write import write_figure
from papers.site.audits import draw_audits


def test_the_last_bit_of_a_processors_logarithm_moves_nothing(tmp_path, monkeypatch):
    # The picture of diabetes changed from machine to machine: log10 is another one with AVX-512.
    drawn, records = load_figure("theoretical_limits/diabetes"), read_committed()
    points = drawn.points(records)
    log10 = np.log10
    for folder, move in (("a", lambda x: x), ("b", lambda x: np.nextafter(x, np.inf))):
        monkeypatch.setattr(np, "log10", lambda values, move=move: move(log10(values)))
        write_figure(drawn, points, [], tmp_path / folder)
    for name in (f"theoretical_limits_diabetes.{ending}" for ending in ("pdf", "png")):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_audits_have_the_colours_that_mechanisms_have_elsewhere(tmp_path, monkeypatch):
    # ALIBI was red beside a green subset selection, and RAPPOR had the colour of ALIBI.
    figure, panels = plotting.new_figure(1)
    monkeypatch.setattr(plotting, "new_figure", lambda *_, **__: (figure, panels))
    names = ["rr", "rappor", "subset_selection", "alibi"]
    bounds = {"sampled": 0.9, "one_run_release": 0.5, "one_run_model": 0.4, "observational": 0.1}
    rows = [{"dataset": "breast_cancer", "model": "knn", "mechanism": name, "claimed": 1.0} | bounds
            for name in names]  # fmt: skip
    draw_audits(pd.DataFrame(rows), tmp_path / "a.png")
    [legend] = figure.legends
    lines = dict(zip([text.get_text() for text in legend.texts], legend.get_lines(), strict=True))
    assert [line.get_color() for line in list(lines.values())[:4]] == [
        plotting.colour_of(name) for name in names
    ]
    assert panels[0, 0].get_title(loc="left") == "breast cancer, kNN"
