"""The board of public codes: each verdict is found again, and the page says what was found."""

from dataclasses import replace

import pandas as pd
import pytest

from labeldp.audit.verify import verify
from labeldp.cli.__main__ import parser
from labeldp.cli.verify import load
from labeldp_bench.support.checkout import CHECKOUT
from scripts import board

CLAIMS = board.claims()


def expectations():
    """Returns whether claims of several eps must hold in each audit, and what it means if not."""
    expected = {}

    def expect(holds, otherwise, claim, **changes):
        claim = claim | changes
        words = board.words(claim | {"claimed_eps": 1})
        key = " ".join([*words, "--draws", str(claim.get("draws", 300_000))])
        expected.setdefault(key, []).append((claim["claimed_eps"], holds, otherwise))

    for claim in CLAIMS:
        eps, true_eps, is_broken = claim["claimed_eps"], claim["true_eps"], board.is_broken(claim)
        expect(not is_broken, "the verdict on the page is wrong, or nobody can see it", claim)
        if is_broken and true_eps < float("inf"):
            expect(True, "the board states too small an eps", claim, claimed_eps=true_eps)
        if is_broken and "corrected" in claim:
            own = {"stand_in": claim["corrected"], "memoised": claim.get("corrected_is_memoised")}
            expect(True, "the fault that the page names is not the cause", claim, **own)
        if eps == true_eps:
            expect(False, "the stand-in has more noise than the code", claim, claimed_eps=0.8 * eps)
    return expected


EXPECTED = expectations()


@pytest.mark.parametrize("words", EXPECTED)
def test_the_verdict_on_a_stand_in(monkeypatch, words):
    monkeypatch.chdir(CHECKOUT)
    own = vars(parser().parse_args(words.split()))
    settings = {key: own[key] for key in ("draws", "calls", "delta", "memoised")}
    audit = verify(load(own["object"]), own["classes"], own["eps"], **settings)
    for eps, holds, otherwise in EXPECTED[words]:  # what is drawn does not depend on eps
        assert replace(audit, claimed=eps).holds == holds, otherwise


def test_the_page_and_the_table_are_those_of_the_claims():
    # An entry was added, and the board not written again.
    assert board.PAGE.read_text() == board.page(board.PAGE.read_text(), CLAIMS)
    written = pd.read_csv(board.BOARD)
    assert written.to_csv() == pd.DataFrame(map(board.row, CLAIMS)).to_csv()
