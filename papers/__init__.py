"""Tables and figures of the papers and of the site: functions of committed records.

Not installed: `make reproduce-tables reproduce-figures report` run it from a checkout.
"""

from labeldp_bench.support.checkout import CHECKOUT

FIGURES = CHECKOUT / "results" / "figures"
