"""Tables: the papers', ours beside the printed numbers (`base.py`), and those of sweeps."""

from labeldp_bench.reports.tables.accuracy import AccuracyTable, method_of
from labeldp_bench.reports.tables.base import (
    TABLES,
    Table,
    load_table,
    paper_tables,
    show_table,
    write_tables,
)

__all__ = [
    "TABLES",
    "AccuracyTable",
    "Table",
    "load_table",
    "method_of",
    "paper_tables",
    "show_table",
    "write_tables",
]
