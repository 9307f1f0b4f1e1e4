"""Kinds of picture: one short file each, named by `figure.kind` in an experiment's YAML.

A file has its kind as `KIND`. Imports no torch, reads no file.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from labeldp.support.validate import check_choice
from papers.figures.spec import Spec


class Kind(ABC):
    """What draws the points of a figure.

    Attributes:
        options: the keys of the YAML's `figure:` that it reads itself (`spec.options`).
        caption: what its bands, bars and dashes mean; stands below the picture.
    """

    options: ClassVar[tuple[str, ...]]
    caption: ClassVar[str]

    @abstractmethod
    def draw(self, points: pd.DataFrame, spec: Spec) -> Figure:
        """Returns a figure from `plotting.new_figure`; the caller adds title and caption.

        Args:
            points: one row per point that the experiment asks for, done or not, with the columns
                of `paper.PaperFigure.points`; among them the records behind each point.
            spec: what the YAML says.
        """

    def notes(self, points: pd.DataFrame, spec: Spec) -> list[str]:
        """Returns what this kind adds to the page, parts in Markdown; nothing for most."""
        return []


def load_kind(name: object) -> Kind:
    """Returns the kind that the file of this folder called `name` holds.

    Raises:
        InputError: there is no such file.
    """
    known = sorted(module.name for module in pkgutil.iter_modules(__path__))
    kind = importlib.import_module(f"{__name__}.{check_choice('figure.kind', name, known)}").KIND
    assert isinstance(kind, Kind)
    return kind
