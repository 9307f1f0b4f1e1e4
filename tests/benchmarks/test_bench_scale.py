"""What the benchmark of large label sets says of sizes is what the laws say."""

import csv
import math

import pytest

from benchmarks.scale import MECHANISMS, entropy, main, needed_bits


def test_it_measures_draws_and_writes(tmp_path, capsys):
    assert main(["classes=10,40", "labels=50", "seconds=1", f"out={tmp_path}"]) == 0
    [table] = tmp_path.glob("scale_*.csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["mechanism"] for row in rows} == {*MECHANISMS}
    of_rr = [row["bytes_per_label"] for row in rows if row["mechanism"] == "rr"]
    assert of_rr == ["1", "1"]  # whatever K is
    assert (tmp_path / "scale.png").stat().st_size > 0
    assert "extrapolated to 10^8 labels at K = 40" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["rr", "local_hashing", "hadamard"])
def test_what_is_of_constant_size_grows_with_the_address_only(name):
    growth, small = needed_bits(MECHANISMS[name], 100)
    assert growth == "O(1)"
    assert needed_bits(MECHANISMS[name], 100_000)[1] - small <= 11  # bits, of log2(1000)


def test_no_code_of_independent_bits_is_shorter_than_their_entropy():
    assert entropy(0.5) == 1 and math.isclose(entropy(0.1), 0.468996, rel_tol=1e-5)
    growth, bits = needed_bits(MECHANISMS["rappor"], 1000)
    assert growth == "O(K)" and 900 < bits < 1000
