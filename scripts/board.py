"""Writes the board of public label-DP codes: the eps that they claim, and whether it holds.

    python scripts/board.py

Runs `labeldp verify` on each stand-in that docs/claimed/claims.yaml names (a minute in all), and
writes results/audits/board.csv and the tables of docs/claimed-and-audited.md. Writes nothing, and
exits with 1, if a verdict is not the one that true_eps implies. An honest stand-in fails about one
run in a hundred by chance; then run it again.
"""

import contextlib
import io
import sys
from typing import Any

import pandas as pd
import yaml

from labeldp.cli.__main__ import main as labeldp
from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.support.checkout import CHECKOUT

CLAIMS = CHECKOUT / "docs" / "claimed" / "claims.yaml"
STAND_INS = "docs/claimed/stand_ins.py"
UNSAID = {"classes": 10, "claimed_eps": 1}
"""What an entry of claims.yaml need not say."""
PAGE = CHECKOUT / "docs" / "claimed-and-audited.md"
BOARD = CHECKOUT / "results" / "audits" / "board.csv"
BEGIN, END = "<!-- board: begin -->", "<!-- board: end -->"

Claim = dict[str, Any]


def claims() -> list[Claim]:
    """Returns the entries of claims.yaml."""
    return [UNSAID | claim for claim in yaml.safe_load(CLAIMS.read_text())]


def words(claim: Claim) -> list[str]:
    """Returns the command that audits a claim, as words after `labeldp`."""
    eps = f"{claim['claimed_eps']:g}"
    stand_in = f"{STAND_INS}:{claim['stand_in']}"
    more = [word for key in ("delta", "calls") if key in claim for word in (f"--{key}", claim[key])]
    more += ["--memoised"] if claim.get("memoised") else []
    return ["verify", stand_in, *map(str, ["--classes", claim["classes"], "--eps", eps, *more])]


def is_broken(claim: Claim) -> bool:
    """Returns whether the stand-in's true eps exceeds the claim."""
    return claim["true_eps"] is not None and claim["true_eps"] > claim["claimed_eps"]


def verdict(claim: Claim) -> str:
    """Returns the verdict in words."""
    if claim.get("cannot_be_said"):
        return "cannot be said"
    return f"broken: eps = {claim['true_eps']:g}" if is_broken(claim) else "holds"


def holds(claim: Claim) -> bool:
    """Returns whether the verdict is that the claim holds."""
    return verdict(claim) == "holds"


def row(claim: Claim) -> dict[str, object]:
    """Returns a claim's row of the CSV."""
    columns = ("implementation", "repository", "commit", "file", "claimed_eps")
    return {key: claim[key] for key in columns} | {
        "verdict": verdict(claim).partition(":")[0],
        "true_eps": claim["true_eps"],
        "stand_in": f"{STAND_INS}:{claim['stand_in']}",
        "how": " ".join(["labeldp", *words(claim)]),
    }


def line(claim: Claim) -> str:
    """Returns a claim's row of the page; one that holds has no verdict and no reason."""
    repository, commit, file = claim["repository"], claim["commit"], claim["file"]
    link = f"https://github.com/{repository}/blob/{commit}/{file}"
    name = f"[{repository}]({link}), {claim['implementation']}, `{commit[:7]}`"
    how = f"`{' '.join(words(claim)[1:]).removeprefix(f'{STAND_INS}:')}`"
    eps = f"{claim['claimed_eps']:g}"
    eps += f", delta = {claim['delta']:g}" if "delta" in claim else ""
    reason = [] if holds(claim) else [verdict(claim), claim["why"].strip()]
    return "| " + " | ".join([name, eps, *reason, how]) + " |"


def page(text: str, entries: list[Claim]) -> str:
    """Returns the page with its tables replaced."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    good = [claim for claim in entries if holds(claim)]
    others = [claim for claim in entries if not holds(claim)]
    lines = [
        f"**{len(others)} of {len(entries)} claims are broken or cannot be confirmed:**",
        "",
        "| code | claimed eps | verdict | why | stand-in |",
        "| --- | --- | --- | --- | --- |",
        *map(line, others),
        "",
        f"**{len(good)} hold** ([remarks on each](claimed/claims.yaml)):",
        "",
        "| code | claimed eps | stand-in |",
        "| --- | --- | --- |",
        *map(line, good),
    ]
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"])


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the board and returns the exit status."""
    read_arguments(arguments, {})
    entries = claims()
    with contextlib.chdir(CHECKOUT):
        for claim in entries:
            with contextlib.redirect_stdout(io.StringIO()):
                status = labeldp(words(claim))
            if status == 2:
                raise InputError(f"{claim['stand_in']} cannot be audited")
            if status != is_broken(claim):
                found = "refuted" if status else "not refuted"
                print(f"{claim['stand_in']}: {found}, and expected: {verdict(claim)}")
                return 1
    write_text(BOARD, pd.DataFrame(map(row, entries)).to_csv(index=False))
    write_text(PAGE, page(PAGE.read_text(), entries))
    print(f"{len(entries)} codes, {sum(map(is_broken, entries))} broken: {BOARD.name}, {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
