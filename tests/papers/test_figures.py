"""Figures of the papers: grids, points, bytes, what is drawn where records are missing."""

import os
import subprocess
import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.reports import plotting
from labeldp_bench.support.checkout import CHECKOUT
from papers.figures import Axis, counts, page, picture_of, write_figure
from papers.reproduce import ALL, write_figures
from tests.made_up import figure, records_of, write_pinned

BY_NAME = {drawn.name: drawn for drawn in ALL if drawn.budget == PAPER}
GRIDS = {  # figure: (cells, points, cells shared with blockrr/table5)
    "blockrr/figure2": (3 * 8 * 10 + 3 * 10, 3 * 8 + 3, 3 * 10 + 3 * 10),
    "blockrr/figure3": (3 * 8 * 10 + 3 * 10, 3 * 8 + 3, 2 * 10 + 3 * 10),
    "vector_approximation/figure2": (2 * 9 * 6, 2 * 9 * 6, 0),
    "vector_approximation/figure3": (2 * 9 * 6, 2 * 9 * 6, 0),
    "vector_approximation/figure4": (2 * 9 * 6, 2 * 9 * 6, 0),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_figure_asks_for_exactly_its_cells(name):
    # The paper's picture would miss a point, or hours of runs would go into none.
    drawn, shared = BY_NAME[name], read_experiment("blockrr/table5").cells()
    cells = {cell.config_hash for cell in drawn.cells}
    points = drawn.points({})
    found = (len(cells), len(points), len(cells & {cell.config_hash for cell in shared}))
    assert found == GRIDS[name]


@pytest.mark.parametrize("drawn", ALL, ids=lambda drawn: drawn.stem)
def test_every_statement_can_be_judged_without_records(drawn):
    # A check with a misspelt line would be found only after days of runs.
    verdicts = drawn.verdicts(drawn.points({}), {})
    assert {each.word for each in verdicts} <= {"no data"}
    assert verdicts or drawn.name not in GRIDS


def test_the_script_names_every_figure_and_what_fills_it(tmp_path, capsys):
    # A reader would not learn which of the commands to start.
    some = tuple(BY_NAME[name] for name in ("blockrr/figure2", "ple/figure4"))
    write_figures({}, some, tmp_path)
    *lines, total = capsys.readouterr().out.splitlines()
    for line, drawn in zip(lines, some, strict=True):
        assert line.startswith(f"{drawn.stem}: no record of {len(drawn.cells)}, no picture")
        assert line.endswith(f"python -m labeldp_bench experiment={drawn.name}")
        assert [path.suffix for path in tmp_path.glob(f"{drawn.stem}.*")] == [".md"]
    assert total.startswith("2 figures: 0 of ")


# --- points and pictures ---------------------------------------------------------------------


def test_same_records_give_the_same_bytes_and_others_do_not(tmp_path):
    # A date or the order of a set in a file would make every commit of figures a change.
    subprocess.run(
        [sys.executable, "-m", "tests.made_up", str(tmp_path / "a")],
        cwd=CHECKOUT,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1"},
    )
    write_pinned(tmp_path / "b")
    drawn = figure()
    records = records_of(drawn)
    records[drawn.cells[0].config_hash]["accuracy"] -= 0.1
    plotting.save(picture_of(drawn, drawn.points(records)), tmp_path / "other.png")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [f"made_up_figure7.{ending}" for ending in ("md", "pdf", "png")]
    for name in files:
        first, second = ((tmp_path / at / name).read_bytes() for at in "ab")
        assert first == second, name
    assert (tmp_path / "a" / files[-1]).read_bytes() != (tmp_path / "other.png").read_bytes()


def test_the_last_bit_of_a_processors_logarithm_moves_nothing(tmp_path, monkeypatch):
    # The picture of diabetes changed from machine to machine: log10 is another one with AVX-512.
    drawn, log10 = BY_NAME["theoretical_limits/diabetes"], np.log10
    points = drawn.points(read_committed()).query("panel == '180'")  # where it was seen
    for name, move in (("a.png", lambda x: x), ("b.png", lambda x: np.nextafter(x, np.inf))):
        monkeypatch.setattr(np, "log10", lambda values, move=move: move(log10(values)))
        plotting.save(picture_of(drawn, points), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_is_missing_is_said_and_the_rest_is_drawn():
    drawn = figure()
    records = records_of(drawn)
    for cell in drawn.cells[:5]:
        del records[cell.config_hash]
    points = drawn.points(records)
    written = page(drawn, points, [])
    assert "5 of 12 cells are missing" in written
    assert "7 of 12 cells done; the others: `python -m labeldp_bench experiment=made_up/" in written
    assert "5 of 12 cells are missing" in picture_of(drawn, points).get_supxlabel()
    plt.close("all")


def test_without_any_record_there_is_no_picture_and_an_older_one_goes(tmp_path):
    write_pinned(tmp_path)
    write_figure(figure(), {}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["made_up_figure7.md"]
    assert "No cell has a record yet" in (tmp_path / "made_up_figure7.md").read_text()


def test_what_has_no_x_is_a_level_in_every_panel():
    blocks = [
        {"set": {"mechanism": "none", "dataset.num_classes": 40}},
        {"set": {"mechanism": "rr", "dataset.num_classes": 40}, "grid": {"eps": [1, 2]}},
    ]
    points = figure(blocks, x=Axis("eps", "eps"), panels="mechanism.eps").points({})
    panels = list(zip(points.panel, points.line, strict=True))
    assert panels == [("1", "none"), ("2", "none"), ("1", "rr"), ("2", "rr")]
    assert points.x.isna().tolist() == [True, True, False, False]
    assert counts(points) == (3, 0)  # the level is one cell, not one for each panel


def test_a_long_caption_stays_in_the_picture_and_moves_no_label_over_another():
    # The count of missing cells stands last, and was cut off at the right edge.
    drawn = figure(note="A word that is long enough to matter. " * 12)
    picture = picture_of(drawn, drawn.points(records_of(drawn)))
    picture.draw_without_rendering()
    text = next(text for text in picture.texts if text.get_text() == picture.get_supxlabel())
    box, whole = text.get_window_extent(), picture.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and box.y0 >= whole.y0
    assert box.height > 4 * text.get_fontsize()
    axes = picture.axes[0]
    assert axes.get_tightbbox().y0 >= box.y1
    boxes = sorted((Text.get_window_extent(t) for t in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 5 and all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    plt.close(picture)


# --- colours and words ------------------------------------------------------------------------


def test_lines_of_one_mechanism_have_colours_of_their_own():
    # Two losses of PLE were both black.
    colours = plotting.line_colours(["ple", "rr", "ple", "ple"])
    assert colours[:2] == [plotting.colour_of("ple"), plotting.colour_of("rr")]
    assert len(set(colours)) == 4
    # A spare colour that a later line owns would change the colour of that one too.
    pushed = plotting.line_colours(["ple", "optimal", "oue", "unary"])
    assert pushed[2:] == [plotting.colour_of("oue"), plotting.colour_of("unary")]
    assert len(set(pushed)) == 4
