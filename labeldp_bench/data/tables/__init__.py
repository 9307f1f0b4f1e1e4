"""Tables as data sets: one short file each, on the common base in `base.py`."""

from labeldp_bench.data.tables.affairs import Affairs
from labeldp_bench.data.tables.breast_cancer import BreastCancer
from labeldp_bench.data.tables.criteo import Criteo
from labeldp_bench.data.tables.flights import Flights
from labeldp_bench.data.tables.own import OwnTable
from labeldp_bench.data.tables.rand_health import RandHealth

__all__ = ["Affairs", "BreastCancer", "Criteo", "Flights", "OwnTable", "RandHealth"]
