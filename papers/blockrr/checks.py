"""What the text of BlockRR says of its figures, in our words; how flat "stable" is, is ours."""

from papers.checks import Statement, falls, flat, flatter, highest

FIGURE2 = "blockrr/figure2"
FIGURE_2 = (
    Statement(
        "A very small sigma gives slightly lower accuracy than a moderate one.",
        "section 5.3.2",
        "blockrr rises for sigma = 0.2, 1.2",
        lambda lines: falls(lines, "blockrr", lambda sigma: sigma in (0.2, 1.2), rises=True),
    ),
    Statement(
        "The best results are around sigma=1.2.",
        "section 5.3.2",
        "blockrr highest between 1.0 and 1.4",
        lambda lines: highest(lines, "blockrr", 1.0, 1.4),
    ),
    Statement(
        "Accuracy fluctuates only mildly over the whole range of sigma.",
        "section 5.3.2",
        "blockrr flat within 3",
        lambda lines: flat(3, lines, "blockrr"),
    ),
)
FIGURE_3 = (
    Statement(
        "The curves are flatter than those at eps <= 1.",
        "section 5.3.2",
        f"blockrr flatter than blockrr in {FIGURE2}",
        # Ranges are compared with those of every panel there.
        lambda lines: flatter(
            lines, "blockrr", [name for name in lines if name.startswith(f"blockrr ({FIGURE2}")]
        ),
        other=FIGURE2,
    ),
    Statement(
        "At eps=3 and 4 accuracy hardly changes over sigma, no more than the error bars.",
        "section 5.3.2",
        "blockrr flat within 1",
        lambda lines: flat(1, lines, "blockrr"),
        panels=["3", "4"],
    ),
)
