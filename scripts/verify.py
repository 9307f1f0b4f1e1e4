"""Verifies somebody else's randomiser of labels: eps claimed, found, and the verdict on one page.

    python scripts/verify.py docs/examples/randomisers/honest.py:randomise classes=10 eps=1
    python scripts/verify.py mine.py:draw_labels classes=10 eps=1 calls=20

OBJECT is a function labels -> outputs (NumPy int64 labels (n,); n labels, rows of bits or reals, in
the same order), or a table of probabilities (classes, outputs), row = true label. Keys: `classes`,
`eps`, `calls` (how often the same labels are asked for, such as epochs; the claim covers all of
them), `delta`, `draws`, `seed`. The file is run, so trust it first. Exit status 0: nothing
contradicts the claim; 1: it does not hold; 2: bad input. See docs/audits.md.
"""

import sys

from labeldp.audit.verify import verify
from labeldp.cli.verify import load
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, integer, read_arguments


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the page and returns the exit status."""
    if not arguments or "=" in arguments[0]:
        got = f", got {arguments[0]!r}" if arguments else ""
        raise InputError(f"give FILE.py:OBJECT first (--help shows how){got}")
    randomiser = load(arguments[0])
    own = {"classes": "", "eps": "", "calls": "1", "delta": "0", "draws": "1000000", "seed": "0"}
    own = read_arguments(arguments[1:], own)
    classes = integer("classes", own["classes"], low=2)
    found = verify(
        randomiser,
        classes,
        _number("eps", own["eps"]),
        draws=integer("draws", own["draws"], low=1),
        calls=integer("calls", own["calls"], low=1),
        delta=_number("delta", own["delta"]),
        seed=integer("seed", own["seed"], low=0),
    )
    print(f"randomiser {arguments[0]}")
    print("\n".join(found.lines()))
    return 0 if found.holds else 1


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"{key} must be given as a number, such as {key}=1, got {text!r}"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
