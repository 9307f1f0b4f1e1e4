"""Mechanisms for real labels on a real regression set; no figure of the paper."""

from functools import partial

from papers.figures import BANDS, Axis, PaperFigure, draw_panels

ALL = (
    PaperFigure(
        name="theoretical_limits/diabetes",
        title=(
            "Diabetes: 353 patients, k nearest neighbours of released labels, mean of 100 draws "
            "of the noise"
        ),
        x=Axis("eps", "eps", "eps", log=True),
        y=Axis("test_mse", "MSE", "test MSE in squared units of the label", log=True),
        draw=partial(draw_panels, share_y=True),
        bands=BANDS,
        panels="model.k",
        note=(
            "Cube means are the private mean of all labels, without a look at features; clipped "
            "Laplace clips to the middle half of the range."
        ),
    ),
)
