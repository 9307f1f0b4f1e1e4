"""Lower bounds on eps from trained models over the eps that was claimed. Imports no torch."""

from pathlib import Path

import numpy as np
import pandas as pd

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from papers.naming import model_name_of

BOUNDS = {"sampled": ("o", "mechanism, draws"), "one_run_release": ("^", "release, one run"),
          "one_run_model": ("s", "model, one run"),
          "observational": ("D", "model, observational")}  # fmt: skip


def draw_audits(rows: pd.DataFrame, path: Path) -> None:
    """Writes a panel per data set and model of results/audits/end_to_end.csv."""
    rows = rows[np.isfinite(rows.claimed)]
    panels = list(rows.groupby(["dataset", "model"], sort=False))
    figure, axes = plotting.new_figure(len(panels), rows=1, height=3.4)
    figure.set_figwidth(3.1 * len(panels) + 1.6)
    names = list(rows.mechanism.unique())
    shown = {}
    for panel, (key, points) in zip(axes[0], panels, strict=True):
        dataset, model = map(str, key)
        panel.set_title(f"{data_name_of(dataset).replace('_', ' ')}, {model_name_of(model)}")
        top = points.claimed.max()
        panel.plot([0, top], [0, top], color="0.6", linewidth=1)
        for name in names:
            colour = plotting.colour_of(name)
            own = points[points.mechanism == name].sort_values("claimed")
            for column, (marker, words) in BOUNDS.items():
                if own[column].notna().any():
                    (line,) = panel.plot(own.claimed, own[column], marker=marker, markersize=5,
                                         linewidth=1, alpha=0.85, color=colour)  # fmt: skip
                    if name == names[0]:
                        shown[words] = line
        panel.set_xlabel("eps claimed")
    axes[0][0].set_ylabel("eps at least")
    colours = [axes[0][0].plot([], [], color=plotting.colour_of(name))[0] for name in names]
    figure.legend([*colours, *shown.values()], [*map(name_of, names), *shown],
                  loc="outside right upper", fontsize=8)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
