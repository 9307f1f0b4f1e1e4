"""Randomisers that others wrote: which claims fall, and the page that says so."""

import json
import sys

import numpy as np
import pytest

from labeldp.audit.verify import verify
from labeldp.cli.__main__ import main as labeldp
from labeldp.mechanisms import RandomizedResponse
from labeldp.support.validate import InputError
from labeldp_bench.support.checkout import CHECKOUT

EXAMPLES = CHECKOUT / "docs" / "examples" / "randomisers"
LABELS = ["--classes=10", "--eps=1"]
EPOCHS = ["--classes=2", "--eps=1", "--calls=20"]
VOTES = ["--classes=3", "--eps=1.36", "--delta=0.001"]
PATE_COUNTS = "../../claimed/stand_ins.py:noisy_votes"


@pytest.mark.parametrize(
    ("source", "arguments", "status", "says"),
    [
        ("honest.py:randomise", LABELS, 0, "verdict    no fault found"),
        ("honest.py:TABLE", LABELS, 0, "found      eps = 1 for one call, exactly"),
        ("honest.py:TABLE", LABELS, 0, "verdict    the claim holds"),
        ("honest.py:TABLE", ["--classes=10", "--eps=0.9"], 1, "DOES NOT HOLD"),
        ("honest.py:randomise", [*LABELS, "--calls=20"], 1, "drawn anew"),
        ("../../claimed/stand_ins.py:kept", EPOCHS, 1, "THE SAME on every call"),
        ("../../claimed/stand_ins.py:kept", [*EPOCHS, "--memoised"], 0, "as documented"),
        (PATE_COUNTS, [*VOTES, "--draws=1000000"], 1, "DOES NOT HOLD"),
    ],
)
def test_the_first_cases(capsys, source, arguments, status, says):
    # A published randomiser with a fault would pass, or an honest one be accused.
    draws = [] if "--draws=1000000" in arguments else ["--draws=100000"]
    assert labeldp(["verify", f"{EXAMPLES}/{source}", *arguments, *draws]) == status
    page = capsys.readouterr().out
    assert says in page and page.count("\n") < 30


def test_a_page_on_several_calls_says_how_many_and_what_they_cost():
    # It asked for calls although they were given, and let 5 calls at 0.95 each pass for 4.
    stream = np.random.default_rng(0)

    def fresh(labels):
        keep = stream.random(len(labels)) < np.e / (np.e + 1)
        return np.where(keep, labels, 1 - labels)

    once = verify(fresh, 2, 1.0, draws=100_000).lines()
    assert any("cost up to T times as much (calls says how many)" in line for line in once)
    page = "\n".join(verify(fresh, 2, 4.0, draws=100_000, calls=5).lines())
    assert "(here 5 times)" in page and "3 calls (of 5; more are not measured): eps >= 2." in page
    assert "can hold only if calls share noise: independent ones need eps = 0.8 for each" in page
    enough = verify(fresh, 2, 5.0, draws=100_000, calls=5).lines()[-1]
    assert enough.startswith("verdict    no fault found; the claim needs eps = 1 for each of 5")


def test_delta_counts_for_a_table_too():
    # It was left out: a table that keeps (eps, delta) was accused of an infinite eps.
    rare = verify([[1.0, 0.0], [1 - 1e-6, 1e-6]], 2, 1.0, delta=1e-5)
    assert rare.holds and rare.exact == 0 and "eps = 0, delta = 1e-05 for" in rare.lines()[1]
    assert not verify([[1.0, 0.0], [1 - 1e-6, 1e-6]], 2, 1.0, delta=1e-7).holds
    stream = np.random.default_rng(0)
    for table in stream.dirichlet(np.ones(5), (20, 3)):
        least = verify(table, 3, 1.0, delta=0.05).exact
        pairs = table[:, None] - np.exp(least) * table[None]
        worst = pairs.clip(0).sum(2).max()  # the definition, over all sets of outputs
        assert worst == pytest.approx(0.05, abs=1e-12) or (least == 0 and worst < 0.05)
    with pytest.raises(InputError, match="delta is for one call"):
        verify([[0.5, 0.5]] * 2, 2, 1.0, delta=1e-5, calls=2)
    mechanism = RandomizedResponse(2.0)  # at this delta its eps is 1.88
    assert verify(mechanism, 2, 1.9, draws=10_000, delta=0.1).holds
    assert not verify(mechanism, 2, 1.9, draws=10_000).holds


def test_one_bit_of_a_hundred_is_seen():
    # The first half of the widest entries was looked at, not the widest: entry 77 told class 2.
    rng = np.random.default_rng(0)

    def randomise(labels):
        bits = rng.random((len(labels), 100)) < 0.5
        bits[:, 77] = (rng.random(len(labels)) < 0.9) == (labels == 2)
        return bits

    found = verify(randomise, 4, 1.0, draws=40_000)
    assert not found.holds and 1.8 < found.bound < np.log(9)


def test_true_labels_given_back_are_seen():
    found = verify(lambda labels: labels, 4, 3.0, draws=20_000)
    assert found.noise == "none" and not found.holds and found.bound > 5


def test_a_mechanism_is_drawn_from_though_its_formula_is_right():
    # One whose sampler gave labels back as they are passed, by the formula that it inherited.
    class Bare(RandomizedResponse):
        def release(self, labels, num_classes, generator, prior=None):
            return labels.clone()

    own = verify(RandomizedResponse(1.0), 5, 1.0, draws=20_000)
    assert own.exact == pytest.approx(1.0) and own.holds
    assert "exactly, from the formula" in "\n".join(own.lines())
    assert "the formula holds; no fault in draws" in own.lines()[-1]
    assert not verify(RandomizedResponse(1.0), 5, 0.99, draws=20_000).holds
    assert not verify(Bare(1.0), 5, 1.0, draws=20_000).holds


@pytest.mark.parametrize("seed", range(20))
def test_outputs_without_the_label_lose_nothing(seed):
    # One label was chosen twice, which ended in a traceback, whose status says "does not hold".
    stream = np.random.default_rng(seed)
    found = verify(lambda labels: stream.integers(0, 4, len(labels)), 4, 1.0, draws=4000)
    assert found.holds and found.bound < 0.5


def test_constants_lose_nothing():
    found = verify(lambda labels: np.zeros(len(labels)), 4, 1.0, draws=4000)
    assert found.holds and found.bound < 0.5
    constant = verify(lambda labels: np.zeros((len(labels), 2)), 4, 1.0, draws=4000, calls=2)
    assert constant.bound == 0 and any("no loss seen" in line for line in constant.lines())


def test_a_file_that_ends_the_program_has_no_verdict(tmp_path, capsys):
    # `sys.exit(0)` gave status 0, as if nothing contradicted the claim.
    ends = tmp_path / "ends.py"
    ends.write_text("import sys\nsys.exit(0)\n")
    later = tmp_path / "later.py"
    later.write_text("import sys\ndef draw(labels):\n    sys.exit(0)\n")
    for source in (f"{ends}:draw", f"{later}:draw"):
        assert labeldp(["verify", source, *LABELS]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "SystemExit: 0" in line


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (lambda labels: labels[:-1], "must return 500 outputs"),
        (lambda labels: ["a"] * len(labels), "must return numbers"),
        (lambda labels: labels / 0, "NaN or infinity"),
        (lambda labels: sys.exit(0), "failed on int64 labels of shape (500,): SystemExit: 0"),
        (lambda labels: 1 // 0, "failed on int64 labels of shape (500,): ZeroDivisionError"),
        ([[0.5, 0.6]] * 4, "sum to 1"),
        ([[0.5, 0.49999]] * 4, "sum to 1"),  # what is left out may name a label
        ([[0.5, 0.5]], "4 rows"),
        ({}, "must be a function"),
    ],
)
def test_bad_randomisers_are_one_line(source, says):
    with pytest.raises(InputError) as error, np.errstate(all="ignore"):
        verify(source, 4, 1.0, draws=10_000)
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py:x", *LABELS], "no file nowhere.py"),
        ([f"{EXAMPLES}/honest.py", *LABELS], "FILE.py:OBJECT"),
        ([f"{EXAMPLES}/honest.py:randomize", *LABELS], "did you mean randomise"),
        ([f"{EXAMPLES}/honest.py:randomise", "--classes=10", "--eps=inf"], "--eps must be finite"),
    ],
)
def test_bad_arguments_are_one_line(capsys, arguments, says):
    assert labeldp(["verify", *arguments]) == 2
    captured = capsys.readouterr().err
    assert says in captured and captured.count("\n") == 1


def test_a_program_reads_the_verdict(capsys):
    arguments = [f"{EXAMPLES}/honest.py:randomise", *LABELS, "--draws=20000", "--json"]
    assert labeldp(["verify", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "no fault found" and found["holds"] is True and found["unseen"]
    assert 0.3 < found["bound"] <= 1 and found["noise"] == "fresh"
    assert all(look["bound"] <= 1 for look in found["looks"])
