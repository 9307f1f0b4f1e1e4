"""What a sweep shows when it ends: a small table and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp.mechanisms.noise import DISTRIBUTION
from labeldp.support.files import write_text
from labeldp.support.progress import say
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.rendering import Part, latex_of, markdown_of
from labeldp_bench.reports.sweep_picture import draw_sweep
from labeldp_bench.reports.sweeps import (
    RISKS,
    difference_parts,
    risk_frame,
    risk_parts,
    settings,
    sweep_differences,
    sweep_frame,
    sweep_parts,
)


def close_sweep(
    cells: Sequence[Cell], done: Records, out_dir: Path, name: str, published: Mapping[str, float]
) -> None:
    """Prints a table of each score of a sweep and writes them under `out_dir`/sweeps.

    Accuracies have a picture, and those of a paper's table the published values below them, also
    where there is no record yet.
    """
    if not (done or published):
        say("no cell has a record yet: no table, no picture")
        return
    if len(done) < len(cells):
        say(f"{len(cells) - len(done)} of {len(cells)} cells have no record yet")
    path = out_dir / "sweeps" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    scored: dict[str, list[dict[str, Any]]] = {}
    for record in [*done.values(), *_only_published(cells, done, published)]:
        score = next((risk for risk in RISKS if record.get(risk) is not None), "accuracy")
        scored.setdefault(score, []).append(record)
    parts: list[Part] = []
    frames = []
    written = [f"LaTeX    {path.with_suffix('.tex')}", f"table    {path}"]
    for score, records in scored.items():
        if score == "accuracy":
            frame = sweep_frame(records, published)
            parts += sweep_parts(frame)
            parts += difference_parts(sweep_differences(records), frame)
            if (known := frame.accuracy.notna()).any():
                draw_sweep(frame[known], path.with_suffix(".png"))
                written.append(f"picture  {path.with_suffix('.png')}")
        else:
            frame = risk_frame(records, score)
            parts += risk_parts(frame, score)
        frames.append(frame)
    if published:
        text = "published: the paper's value, in percent."
        if any(cell.budget != PAPER for cell in cells):
            text += " These runs have a smaller budget than the paper's, so the two do not compare."
        parts.append(text)
    parts.append(settings(list(done.values())))
    table = markdown_of(parts)
    write_text(path, table)
    write_text(path.with_suffix(".tex"), latex_of(parts))
    write_text(path.with_suffix(".csv"), pd.concat(frames).to_csv(index=False))
    say("\n".join(["", table, *written]))


def _only_published(
    cells: Sequence[Cell], done: Records, published: Mapping[str, float]
) -> list[Record]:
    """Returns what stands for cells of which only the published accuracy is known."""
    known = {all_but_seed(record["identity"]) for record in done.values()}
    return [
        {
            "identity": cell.identity,
            "dataset": cell.dataset_name,
            "mechanism": cell.choices["mechanism"],
            "eps": cell.eps,
            "seed": cell.seed,
            "private": cell.has("mechanism.eps"),
            "trust": "local" if cell.has("mechanism.eps") else "none",
            "distribution": DISTRIBUTION,
            "config_hash": cell.config_hash,
        }
        for cell in cells
        if cell.config_hash in published and all_but_seed(cell.identity) not in known
    ]
