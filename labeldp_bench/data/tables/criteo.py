"""Criteo's Attribution data, for those who have the file: its licence forbids passing it on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.io.files import READERS
from labeldp.support.validate import InputError
from labeldp_bench.data.tables.base import Rows, Table

CATEGORIES = ("campaign", *(f"cat{number}" for number in range(1, 10)))
NUMBERS = ("time_since_last_click",)
MODEL_COLUMNS = ("uid", "conversion", "click", *NUMBERS, *CATEGORIES)


@dataclass(frozen=True, kw_only=True)
class Criteo(Table):
    """Whether a click led to a purchase: 5.95 million clicks, 6.7 % of them.

    The file is `criteo_attribution_dataset.tsv.gz` of Criteo's "Attribution Modeling for Bidding"
    data (16.5 million impressions of 30 days, CC BY-NC-SA 4.0); the rows that were clicked count.

    Source: Diemert, Meynet, Galland, Lefortier (2017), "Attribution modeling increases efficiency
    of bidding in display advertising", arXiv:1707.06409.

    Args:
        file: where it lies; the path is no part of a run's identity.
        per_user: whether a user's clicks share the budget (`rows_per_unit` of them are kept).
    """

    file: str
    per_user: bool = False

    def read(self, data_dir: Path) -> Rows:
        """Returns the clicks."""
        path = Path(self.file).expanduser()
        if not path.is_file() or not path.name.endswith(READERS):
            raise InputError(
                f"dataset.file must name criteo_attribution_dataset.tsv.gz, got {path}: download "
                "it from ailab.criteo.com (Attribution Modeling for Bidding; the licence forbids "
                "passing it on), put it anywhere, and say dataset.file=<where it lies>"
            )
        try:
            header = pd.read_csv(path, sep="\t", nrows=0).columns
            missing = [name for name in MODEL_COLUMNS if name not in header]
            if missing:
                raise InputError(
                    f"{path.name} lacks the columns {', '.join(missing)} of Criteo's Attribution "
                    "data (tab-separated, with a header)"
                )
            texts = dict.fromkeys(CATEGORIES, "category")
            table = pd.read_csv(path, sep="\t", usecols=list(MODEL_COLUMNS), dtype=texts)
        except (ValueError, OSError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            said = " ".join(str(error).split())
            raise InputError(f"{path.name} cannot be read as a table: {said}") from None
        clicks = table[table.click == 1]
        labels = clicks.conversion.to_numpy()
        wrong = np.flatnonzero(~np.isin(labels, (0, 1)))
        if len(wrong):
            row = int(clicks.index[wrong[0]]) + 1
            raise InputError(f"{path.name}, row {row}, column conversion: it must be 0 or 1")
        # -1 says that there was no earlier click.
        since = clicks.time_since_last_click.where(clicks.time_since_last_click >= 0)
        columns = clicks[list(CATEGORIES)].assign(time_since_last_click=np.log1p(since))
        units = clicks.uid.to_numpy() if self.per_user else None
        return Rows("criteo", columns, labels.astype(np.int64), 2, units)
