"""The published RAPPOR beside what two readings of its eps predict."""

import math

import pytest

from papers.vector_approximation.budget import rows_of


def test_cifar_is_read_off_at_equal_bits_and_not_beyond_the_last_value():
    # At eps=2 RAPPOR and RR tell .587 and .588 bits: nearly the published LP-1ST itself, 82.4.
    rows = rows_of({}).set_index(["dataset", "eps"])
    assert rows.at_eps["cifar10", 2] == pytest.approx(82.4, abs=0.1)
    assert rows.at_twice["cifar10", 1] == rows.at_eps["cifar10", 2]
    assert rows.at_twice["cifar10", 2] == rows.at_eps["cifar10", 4]
    assert math.isnan(rows.at_twice["cifar10", 3])  # 2.67 bits, and LP-1ST at eps=4 tells 2.29
    assert rows.loc["mnist"][["at_eps", "at_twice"]].isna().all().all()  # without a record
