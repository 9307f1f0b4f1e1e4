"""What every picture shares: the same bytes on every machine."""

import numpy as np

from labeldp_bench.records.collect import read_committed
from labeldp_bench.reports.figures.paper import load_figure
from labeldp_bench.reports.figures.write import write_figure


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
