"""The board of public codes: each verdict is found again, and the page says what was found."""

import pandas as pd
import pytest

from labeldp.cli.__main__ import main as labeldp
from labeldp_bench.support.checkout import CHECKOUT
from scripts import board

CLAIMS = board.claims()
BROKEN = [claim for claim in CLAIMS if board.is_broken(claim)]
SOUND = [claim for claim in CLAIMS if claim["true_eps"] == claim["claimed_eps"]]
HONEST = list({claim["stand_in"]: claim for claim in SOUND}.values())
MENDED = [claim for claim in BROKEN if "corrected" in claim]
FINITE = [claim for claim in BROKEN if claim["true_eps"] < float("inf")]


def names(claims):
    return [f"{claim['repository']}, {claim['implementation']}" for claim in claims]


def audit(monkeypatch, claim, **changes):
    monkeypatch.chdir(CHECKOUT)
    return labeldp([*board.words(claim | changes), "--draws", str(claim.get("draws", 300_000))])


@pytest.mark.parametrize("claim", CLAIMS, ids=names(CLAIMS))
def test_the_verdict_on_a_stand_in(monkeypatch, claim):
    # A code would be accused wrongly, or a fault be stated that nobody can see.
    assert audit(monkeypatch, claim) == board.is_broken(claim)


@pytest.mark.parametrize("claim", FINITE, ids=names(FINITE))
def test_no_more_than_the_true_eps_is_found(monkeypatch, claim):
    # The eps that the board states would be too small.
    assert audit(monkeypatch, claim, claimed_eps=claim["true_eps"]) == 0


@pytest.mark.parametrize("claim", HONEST, ids=names(HONEST))
def test_an_honest_stand_in_uses_its_eps(monkeypatch, claim):
    # The stand-in would have another law than the code, such as twice the noise.
    assert audit(monkeypatch, claim, claimed_eps=0.8 * claim["true_eps"]) == 1


@pytest.mark.parametrize("claim", MENDED, ids=names(MENDED))
def test_without_the_fault_the_claim_holds(monkeypatch, claim):
    # The fault that the page names would not be the cause.
    memoised = claim.get("corrected_is_memoised", False)
    assert audit(monkeypatch, claim, stand_in=claim["corrected"], memoised=memoised) == 0


def test_the_page_and_the_table_are_those_of_the_claims():
    # An entry was added, and the board not written again.
    assert board.PAGE.read_text() == board.page(board.PAGE.read_text(), CLAIMS)
    written = pd.read_csv(board.BOARD)
    assert written.to_csv() == pd.DataFrame(map(board.row, CLAIMS)).to_csv()
